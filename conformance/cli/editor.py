"""`acp-client --editor`: an agent for a real editor, whose chat runs scenarios and shows what came of them.

Prints one path, which a person enters in an editor as the command of an agent. Every start of it is a connection of its
own, served by a thread. What a person types is a command: `all`, the name of a scenario, the id of a requirement,
`report`. All scenarios of a connection share its beginning, so that each is judged on that and on its own part.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from conformance.driver import Driver, StoppedError
from conformance.options import Options
from conformance.peers.client import AgentSocket
from conformance.peers.peer import Ending, PeerGoneError, Received, Side
from conformance.reports import REPORTS
from conformance.reports.context import Context
from conformance.reports.terminal import cited
from conformance.requirements.acp1_client.suite import SUITE
from conformance.runner import Run
from conformance.scenarios.acp1_client.agent import Agent, InTurn, Turn
from conformance.suite import Result, Scenario
from conformance.transcript import Entry, Transcript
from conformance.values import as_list, as_object, as_text, at

_CHUNK: Final = 1 << 16
_NEVER: Final = 1e9
_PATIENCE: Final = 60.0
"""Seconds that a person has, who is asked for a permission or told to stop the turn."""
_LEAVING: Final = 3.0
_MARKS: Final = {"pass": "\N{HEAVY CHECK MARK}", "fail": "\N{HEAVY BALLOT X}"}
_HELP: Final = """\
Type `all` to run every scenario that needs no start of its own, `report` for what came of them so far, the id of a
requirement, or the name of a scenario:

"""


class SocketPeer:
    """An editor at the other end of an agent's socket."""

    side: Side = "client"

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._start = time.monotonic()
        self._is_open = True

    def now(self) -> float:
        return time.monotonic() - self._start

    def write(self, data: bytes, until: float) -> None:
        self._socket.settimeout(max(0.1, min(_PATIENCE, until - self.now())))
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError:
            raise PeerGoneError from None

    def read(self, until: float) -> Received | None:
        if not self._is_open:
            return None
        with contextlib.suppress(OSError, ValueError):
            if not select.select([self._socket], [], [], max(0.0, until - self.now()))[0]:
                return None
            data = self._socket.recv(_CHUNK)
            self._is_open = bool(data)
            return Received("client", data)
        self._is_open = False
        return Received("client", b"")

    def has_closed(self) -> bool:
        return not self._is_open

    def interrupt(self) -> None:
        """A person does that: the scenario has said so in the chat."""

    def close_input(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def end(self) -> Ending:
        self._socket.close()
        return Ending("agent exits", 0)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Chat:
    """One connection: its commands, and the transcripts of what was run."""

    def __init__(self, peer: SocketPeer, options: Options, transcripts: list[Transcript]) -> None:
        self._facts = {"suite": "acp-client"}
        self._transcript = Transcript("", dict(self._facts))
        self._driver = Driver(peer, self._transcript, options, self._facts)
        self._agent = Agent()
        self._transcripts = transcripts
        self._outside: list[Entry] = []
        self._seen = 0

    def serve(self) -> None:
        """Until the editor ends the connection."""
        self._agent.serve(self._driver)
        with contextlib.suppress(StoppedError):
            while (prompt := self._next()) is not None:
                self._take_outside()
                turn = Turn(self._driver, prompt, "")
                turn.cwd = self._agent.directories.get(turn.session, "")
                self._obey(turn, _typed(prompt))
                turn.end()
        self._driver.finish()

    def _next(self) -> dict[str, object] | None:
        return self._driver.wait(lambda message: message.get("method") == "session/prompt", _NEVER)

    def _take_outside(self) -> None:
        """Counts what was recorded since to what all scenarios share."""
        self._outside += self._transcript.entries[self._seen :]
        self._seen = len(self._transcript.entries)

    def _obey(self, turn: Turn, text: str) -> None:
        if text == "report":
            self._say(turn, REPORTS["markdown"].render(outcome(self._transcripts), Context(command=["an editor"])))
            return
        found = list(_scenarios(text))
        if not found:
            self._say(turn, _HELP + "\n".join(f"- `{one.name}`: {one.text}" for one in _scenarios("", named=False)))
        for scenario in found:
            self._run(turn, scenario)

    def _run(self, turn: Turn, scenario: Scenario) -> None:
        assert isinstance(scenario.run, InTurn)
        self._say(turn, f"**{scenario.name}**: {scenario.text}")
        self._take_outside()
        try:
            scenario.run.act(turn)
        except StoppedError as error:
            self._driver.mark("stopped", str(error))
        transcript = Transcript(scenario.name, dict(self._facts))
        transcript.entries = [*self._outside, *self._transcript.entries[self._seen :]]
        self._seen = len(self._transcript.entries)
        self._transcripts[:] = [*(one for one in self._transcripts if one.scenario != scenario.name), transcript]
        rows = {row.id: row for row in SUITE.requirements if row.scenario == scenario.name}
        for result in SUITE.judge([transcript], rows):
            self._say(turn, _told(result))

    def _say(self, turn: Turn, text: str) -> None:
        turn.update("agent_message_chunk", content={"type": "text", "text": f"{text}\n\n"})


def _typed(prompt: object) -> str:
    blocks = [as_object(block) for block in as_list(at(prompt, "params.prompt"))]
    return " ".join(as_text(block.get("text")) for block in blocks).strip().strip("`/").lower()


def _scenarios(text: str, *, named: bool = True) -> Iterator[Scenario]:
    """What a person has named; without a name everything that can be run in a turn."""
    wanted = {row.scenario for row in SUITE.requirements if row.id.lower() == text}
    for scenario in SUITE.scenarios:
        if not isinstance(scenario.run, InTurn):
            continue
        is_meant = text == scenario.name or scenario.name in wanted
        if not named or is_meant or (text == "all" and not scenario.run.ends_turn):
            yield scenario


def _told(result: Result) -> str:
    row, verdict = result.requirement, result.verdict
    mark = _MARKS.get(result.standing, "\N{BULLET}")
    lines = [f"{mark} {result.standing} `{row.id}` ({row.level}) {row.text}"]
    if verdict.reason:
        lines.append(f"{verdict.reason}.")
    if verdict.outcome == "fail":
        lines.append(f"> {cited(row)}")
    return "\n\n".join(lines)


def outcome(transcripts: list[Transcript]) -> Run:
    """The verdicts on what was run so far."""
    if not transcripts:
        return Run(SUITE, [], [], "nothing was run in an editor's chat", 0.0, saved=True)
    shown = {transcript.scenario for transcript in transcripts}
    chosen = {row.id: row for row in SUITE.requirements if row.scenario is None or row.scenario in shown}
    return Run(SUITE, SUITE.judge(transcripts, chosen), transcripts, "", 0.0, saved=True)


def serve(show: Callable[[str], None]) -> list[Transcript]:
    """Serves editors until KeyboardInterrupt; returns the last transcript of each scenario that was run."""
    agent = AgentSocket()
    transcripts: list[Transcript] = []
    options = Options(timeout=_PATIENCE, scenario_timeout=_NEVER)
    served: list[tuple[SocketPeer, threading.Thread]] = []
    try:
        show(os.fspath(agent.path))
        while True:
            select.select([agent.listener], [], [])
            connection, _ = agent.listener.accept()
            peer = SocketPeer(connection)
            thread = threading.Thread(target=Chat(peer, options, transcripts).serve, daemon=True)
            served = [pair for pair in served if pair[1].is_alive()] + [(peer, thread)]
            thread.start()
    except KeyboardInterrupt:
        for peer, thread in served:  # so that a scenario removes the files that it has put into a project
            peer.kill()
            thread.join(_LEAVING)
        return transcripts
    finally:
        agent.close()
