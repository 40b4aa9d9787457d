"""Where a command writes: standard streams and report files, with secrets removed.

The start-up module makes one `Output` for a command line. `cli.main` redirects the standard streams to it, and report
files go through `save`. So everything passes `hide` except transcripts, which stay raw because a replay needs each
byte.
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
    """The output of a command. The streams hide secrets already; `hide` does so for text of files."""

    out: TextIO
    err: TextIO
    hide: Callable[[str], str] = str

    @contextlib.contextmanager
    def standard(self) -> Generator[None]:
        """Redirect the standard streams to these."""
        with contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            yield

    def save(self, path: Path, text: str) -> None:
        """Write a report atomically, so that a full disk leaves the old one. Raises OSError."""
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
    """Return the standard streams unchanged, when no secret is known."""
    open_missing_streams()
    return Output(sys.stdout, sys.stderr)


def open_missing_streams() -> None:
    """Open the null device for each standard stream that is missing.

    The next pipe to a program would otherwise take its descriptor and receive our output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) in _STANDARD:
        pass
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def discard_output() -> None:
    """Discard buffered output that cannot be written. The interpreter would retry it at exit."""
    with contextlib.suppress(OSError, ValueError):  # the stream of a test runner has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
