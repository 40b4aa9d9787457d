"""The `rewindow` command over a state directory of its own: in this process, on a terminal, or as a process."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from engine.cli import main
from engine.log.store import open_store
from engine.log.store.sqlite import SqliteStore
from tests.support.stores import ROOT, CountingClock

SECONDS = 60
COMMAND = (sys.executable, "-c", "from rewindow_startup import rewindow; rewindow()")
TO_SEE = {"TERM": "dumb"}
"""A terminal on which the command itself sets nothing in bold."""


@dataclass(frozen=True)
class Home:
    """A user's directory with nothing in it; `state` is where the sessions are."""

    path: Path

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "PYTHONPATH": str(ROOT),
            "REWINDOW_STATE_DIR": str(self.state),
            "LANG": "C.UTF-8",
            "COLUMNS": "80",
        }

    def store(self) -> SqliteStore:
        """The store that the command opens; to be closed."""
        opened = open_store(self.state, CountingClock())
        assert isinstance(opened, SqliteStore)
        return opened

    def run(self, *arguments: str, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[str]:
        """The command's end, with what it wrote as text."""
        done = self.run_bytes(*arguments, stdin=stdin, **variables)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def run_bytes(self, *arguments: str, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
        with tempfile.TemporaryFile() as written:
            code, complaints = self.run_into(written.fileno(), *arguments, stdin=stdin, **variables)
            written.seek(0)
            return subprocess.CompletedProcess(arguments, code, written.read(), complaints)

    def run_into(self, stdout: int, *arguments: str, stdin: bytes = b"", **variables: str) -> tuple[int, bytes]:
        """Exit code and standard error of a command that writes to the descriptor."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as complaints:
            given.write(stdin)
            given.seek(0)
            code = self._main(arguments, (given.fileno(), stdout, complaints.fileno()), variables)
            complaints.seek(0)
            return code, complaints.read()

    def run_on_a_terminal(self, *arguments: str, typed: bytes = b"", **variables: str) -> tuple[int, bytes]:
        """Exit code and all that the terminal shows, of what is typed too; newlines as the command wrote them."""
        ours, theirs = pty.openpty()
        seen = bytearray()
        reader = threading.Thread(target=_read_all, args=(ours, seen))
        reader.start()
        try:
            os.write(ours, typed)
            code = self._main(arguments, (theirs, theirs, theirs), {**TO_SEE, **variables})
        finally:
            os.close(theirs)
            reader.join(SECONDS)
            os.close(ours)
        return code, bytes(seen).replace(b"\r\n", b"\n")

    def run_as_process(
        self, *arguments: str, prefix: Sequence[str] = (), stdin: bytes = b"", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """The same in a process of its own, which `prefix` may start."""
        return subprocess.run(
            [*prefix, *COMMAND, *arguments],
            input=stdin.decode(),
            capture_output=True,
            text=True,
            env={**self.variables, **variables},
            cwd=self.path,
            timeout=SECONDS,
        )

    def _main(self, arguments: Sequence[str], streams: tuple[int, int, int], variables: dict[str, str]) -> int:
        with (
            contextlib.chdir(self.path),
            mock.patch.dict(os.environ, {**self.variables, **variables}, clear=True),
            _standard_streams(streams, variables.get("PYTHONIOENCODING", "utf-8")),
        ):
            code = main(arguments)
            sys.stdout.flush()  # as the interpreter does at exit
            return code


@contextlib.contextmanager
def _standard_streams(descriptors: tuple[int, int, int], encoding: str) -> Iterator[None]:
    names = ("stdin", "stdout", "stderr")
    with contextlib.ExitStack() as stack:
        for name, mode, descriptor in zip(names, ("r", "w", "w"), descriptors, strict=True):
            # Of a copy, because the command may point its own elsewhere when it gives up writing.
            stream = stack.enter_context(open(os.dup(descriptor), mode, encoding=encoding))
            stack.enter_context(mock.patch.object(sys, name, stream))
        yield


def _read_all(descriptor: int, into: bytearray) -> None:
    with contextlib.suppress(OSError):  # how Linux says that nobody has the other end any more
        while data := os.read(descriptor, 65536):
            into += data
