"""Where a command writes: its standard streams and its reports, and what no text may hold that leaves through them.

An `Output` is made once for a command line; `cli.main` puts its streams in place of the standard ones while a command
runs, and a command's report files go through its `save`. So nothing is written that did not pass `hide`, except
transcripts, which are raw on purpose: a replay needs each byte.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

_STANDARD = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Output:
    """What a command writes to. The streams hide secrets themselves; `hide` does so in a text for a file."""

    out: TextIO
    err: TextIO
    hide: Callable[[str], str] = str

    @contextlib.contextmanager
    def standard(self) -> Generator[None]:
        """Makes the streams the standard ones, for whatever prints."""
        with contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            yield

    def save(self, path: Path, text: str) -> None:
        """Writes a report beside its place first, so that a full disk leaves the old one. Raises OSError."""
        if path.exists() and not path.is_file():  # a device or a pipe
            path.write_text(self.hide(text), encoding="utf-8")
            return
        draft = path.with_name(path.name + ".part")
        try:
            draft.write_text(self.hide(text), encoding="utf-8")
            draft.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise


def standard_output() -> Output:
    """The standard streams as they are, where no secret is known."""
    open_missing()
    return Output(sys.stdout, sys.stderr)


def open_missing() -> None:
    """Gives a process that was started without some standard stream an empty one.

    Otherwise the next pipe to a program would be opened in its place, and what is printed would go there.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) in _STANDARD:
        pass
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def discard_output() -> None:
    """Lets go of what cannot be printed, which the interpreter would try to print once more when it ends."""
    with contextlib.suppress(OSError, ValueError):  # one that a test runner has put there has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
