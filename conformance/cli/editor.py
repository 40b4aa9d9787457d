"""`acp-client --editor`: an agent for a real editor, whose chat runs scenarios and shows their results.

Prints a path, which the user enters in an editor as an agent command. Each start of that agent is a connection of its
own, served by a thread. The user types `all`, a scenario name, a requirement id, or `report`. All scenarios of a
connection share its beginning, so each one is judged on that beginning and its own part.
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

from conformance.driver import Driver, Options, StoppedError
from conformance.peers.client import AgentSocket
from conformance.peers.peer import Ending, PeerGoneError, Received, Side
from conformance.reports.files import REPORTS
from conformance.reports.terminal import Context, quote_with_notice
from conformance.runner import Run
from conformance.suite import Result, Scenario
from conformance.suites.acp1_client.agent import Agent, InTurn, Turn
from conformance.suites.acp1_client.suite import SUITE
from conformance.transcript import Entry, Transcript
from conformance.values import as_list, as_object, as_text, at

_CHUNK: Final = 1 << 16
_NO_LIMIT: Final = 1e9
_PERSON_SECONDS: Final = 60.0
"""Seconds for a person to answer a permission request or to stop a turn."""
_JOIN_SECONDS: Final = 3.0
_MARKS: Final = {"pass": "\N{HEAVY CHECK MARK}", "fail": "\N{HEAVY BALLOT X}"}
_HELP: Final = """\
Type `all` to run every scenario that fits into this chat, `report` for the results so far, the id of a requirement, or
the name of a scenario:

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
        self._socket.settimeout(max(0.1, min(_PERSON_SECONDS, until - self.now())))
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
        """Do nothing: the scenario asks the person to do it."""

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
    """One connection: its commands, and the transcripts of its scenarios."""

    def __init__(self, peer: SocketPeer, options: Options, transcripts: list[Transcript]) -> None:
        self._facts = {"suite": "acp-client"}
        self._transcript = Transcript("", dict(self._facts))
        self._driver = Driver(peer, self._transcript, options, self._facts)
        self._agent = Agent()
        self._transcripts = transcripts
        self._outside: list[Entry] = []
        self._seen = 0

    def serve(self) -> None:
        """Handle prompts until the editor closes the connection."""
        self._agent.serve(self._driver)
        with contextlib.suppress(StoppedError):
            while (prompt := self._next()) is not None:
                self._share_entries()
                turn = Turn(self._driver, prompt, "")
                turn.cwd = self._agent.directories.get(turn.session, "")
                self._handle_command(turn, _prompt_text(prompt))
                turn.end()
        self._driver.finish()

    def _next(self) -> dict[str, object] | None:
        return self._driver.wait(lambda message: message.get("method") == "session/prompt", _NO_LIMIT)

    def _share_entries(self) -> None:
        """Add the entries since the last scenario to the part that all scenarios share."""
        self._outside += self._transcript.entries[self._seen :]
        self._seen = len(self._transcript.entries)

    def _handle_command(self, turn: Turn, text: str) -> None:
        if text == "report":
            self._send_text(
                turn, REPORTS["markdown"].render(chat_run(self._transcripts), Context(command=["an editor"]))
            )
            return
        found = list(_matching_scenarios(text))
        if not found:
            self._send_text(
                turn, _HELP + "\n".join(f"- `{one.name}`: {one.text}" for one in _matching_scenarios("", named=False))
            )
        for scenario in found:
            self._run(turn, scenario)

    def _run(self, turn: Turn, scenario: Scenario) -> None:
        assert isinstance(scenario.run, InTurn)
        self._send_text(turn, f"**{scenario.name}**: {scenario.text}")
        self._share_entries()
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
            self._send_text(turn, _result_text(result))

    def _send_text(self, turn: Turn, text: str) -> None:
        turn.update("agent_message_chunk", content={"type": "text", "text": f"{text}\n\n"})


def _prompt_text(prompt: object) -> str:
    blocks = [as_object(block) for block in as_list(at(prompt, "params.prompt"))]
    return " ".join(as_text(block.get("text")) for block in blocks).strip().strip("`/").lower()


def _matching_scenarios(text: str, *, named: bool = True) -> Iterator[Scenario]:
    """Yield the scenarios that the text names; with `named=False`, all that can run within a turn."""
    wanted = {row.scenario for row in SUITE.requirements if row.id.lower() == text}
    for scenario in SUITE.scenarios:
        if not isinstance(scenario.run, InTurn):
            continue
        is_meant = text == scenario.name or scenario.name in wanted
        if not named or is_meant or (text == "all" and not scenario.run.ends_turn):
            yield scenario


def _result_text(result: Result) -> str:
    row, verdict = result.requirement, result.verdict
    mark = _MARKS.get(result.reported, "\N{BULLET}")
    lines = [f"{mark} {result.reported} `{row.id}` ({row.level}) {row.text}"]
    if verdict.reason:
        lines.append(f"{verdict.reason}.")
    if verdict.outcome == "fail":
        lines.append(f"> {quote_with_notice(row)}")
    return "\n\n".join(lines)


def chat_run(transcripts: list[Transcript]) -> Run:
    """Judge the scenarios that ran so far."""
    if not transcripts:
        return Run(SUITE, [], [], "no scenario was run in the editor's chat", 0.0, saved=True)
    shown = {transcript.scenario for transcript in transcripts}
    chosen = {row.id: row for row in SUITE.requirements if row.scenario is None or row.scenario in shown}
    return Run(SUITE, SUITE.judge(transcripts, chosen), transcripts, "", 0.0, saved=True)


def serve(show: Callable[[str], None]) -> list[Transcript]:
    """Serve editors until KeyboardInterrupt. Return the last transcript of each scenario."""
    agent = AgentSocket()
    transcripts: list[Transcript] = []
    options = Options(timeout=_PERSON_SECONDS, scenario_timeout=_NO_LIMIT)
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
        for peer, thread in served:  # lets a scenario remove the files that it created in a project
            peer.kill()
            thread.join(_JOIN_SECONDS)
        return transcripts
    finally:
        agent.close()
