"""The real `rewindow` command as a process of its own, over a state directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.store import open_store
from engine.store.sqlite import SqliteStore
from tests.support.stores import ROOT, CountingClock

SECONDS = 60
COMMAND = (sys.executable, "-c", "from rewindow_startup import rewindow; rewindow()")


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
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            env={**self.variables, **variables},
            cwd=self.path,
            timeout=SECONDS,
        )
