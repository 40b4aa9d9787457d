"""The same world with `rewindow-mcp` on stdio: statements come through the tool `run`.

An MCP client has no prompts and no commands. So the judge looks at the files, the log, the acts and the processes.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Final

from tests.faults.judge import Evidence, Message, violations
from tests.faults.reading import read_log
from tests.faults.world import SECONDS, Done, Recorded, World

_INSTEAD: Final = ("sh", "-c", 'exec "$(dirname "$0")/rewindow-mcp" "$@"')
"""Starts the server in place of the agent, with the arguments that follow the agent's path."""
_SESSION: Final = "work"
_RENEWED_SECONDS: Final = 6.0
"""More than the 2 s after which the server tries again, because machines that run these tests are busy."""


class _Client(Recorded):
    """An MCP client that speaks lines."""

    def begin_prompt(self, session_id: str, text: str) -> int:
        return self.begin("tools/call", {"name": "run", "arguments": {"code": text}})


class ServedWorld(World):
    """A session of `rewindow-mcp`, which is there again under its name after a restart."""

    has_commands = False
    _answer: Message | None = None

    def _execution(self) -> Message | None:
        return self._answer

    def _start(self) -> None:
        arguments = ("--root", str(self.project), "--session", _SESSION, "--allow-run=unsandboxed")
        self.agent = _Client(self.disk, self.told, self.state, self.environ, *arguments, started_by=_INSTEAD)
        self._first = 0
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self.agent.call("initialize", params, seconds=SECONDS)
        self.agent.notify("notifications/initialized", {})

    def _open(self) -> str:
        self._look()
        with closing(sqlite3.connect(self.state / "sessions.db")) as database:
            ((session,),) = database.execute("SELECT DISTINCT session FROM events").fetchall()
        return session

    def _look(self) -> Message:
        """Run a statement that changes nothing: the server loads a session at its first use."""
        self.looks += 1
        return self.agent.response(self.agent.begin_prompt("", "6 * 7"), SECONDS)

    def recover(self) -> list[str]:
        """A server that found the disk failing tries again only after a pause; until then nothing runs."""
        deadline = time.monotonic() + _RENEWED_SECONDS
        while True:
            response = self._look()
            if "cannot be saved" not in str(response) or time.monotonic() > deadline:
                return self._wrong(response)
            self.looks -= 1
            time.sleep(0.2)

    def _wrong(self, response: Message) -> list[str]:
        return [] if "42" in str(response.get("result")) else [f"alive: the session cannot be used again: {response}"]

    def done(self, response: Message) -> Done:
        self._answer = response
        return Done("end_turn") if "result" in response else Done(None, response["error"])

    def restart(self) -> list[str]:
        """Start the server and use the session. Returns what is wrong."""
        self.counts.restarts += 1
        self.may_be_swept = False
        self._start()
        if wrong := self._wrong(self._look()):
            return wrong
        verdict, log = read_log(self.state / "sessions.db", self.session)
        evidence = Evidence(log=log, database=verdict, marks=self.marks(), acts=self.acts)
        return violations(evidence, ["log", "once"])
