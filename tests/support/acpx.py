"""acpx, an ACP client that is not ours, in a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.support.agents import AGENT
from tests.support.node import command
from tests.support.scripts import assert_gone, kill_each

SECONDS = 60


class Acpx:
    """The client in a home of its own. It keeps a process alive for a session; none of them outlives the test."""

    def __init__(
        self,
        folder: Path,
        agent: str = str(AGENT),
        env: Mapping[str, str] | None = None,
        work: Path | None = None,
    ) -> None:
        """`agent` is a command line. It works in `work`, or in that name below the folder; it may be there already."""
        self.work = work or folder / "work"
        self.home = folder / "home"
        self.state = folder / "state"
        self.work.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True)
        self._agent = agent
        own = {"HOME": str(self.home), "REWINDOW_STATE_DIR": str(self.state)}
        self.environment = {**os.environ, **(env or {}), **own}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        options = ["--agent", self._agent, "--cwd", str(self.work), "--ttl", "20"]
        return subprocess.Popen(
            [*command("acpx", "dist/cli.js"), *options, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """What it printed; it has to end with this exit code."""
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == code, said
        return said

    def messages(self, *arguments: str) -> list[dict[str, Any]]:
        """Every message between client and agent while it did that."""
        code, messages = self.ended(*arguments)
        assert code == 0, messages
        return messages

    def ended(self, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        """The exit code, and every message between client and agent."""
        process = self.start("--format", "json", "--json-strict", *arguments)
        said, _ = process.communicate(timeout=SECONDS)
        return process.returncode, [json.loads(line) for line in said.splitlines()]

    def processes(self) -> list[psutil.Process]:
        """Everything that lives in this home."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.home):
                    found.append(process)
        return found


@contextlib.contextmanager
def opened(
    folder: Path, agent: str = str(AGENT), env: Mapping[str, str] | None = None, work: Path | None = None
) -> Iterator[Acpx]:
    """A client whose processes end with the block."""
    client = Acpx(folder, agent, env, work)
    try:
        yield client
    finally:
        left = client.processes()
        kill_each(left)
        assert_gone(left)
