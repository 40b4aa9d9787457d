"""Model providers and MCP servers that misbehave: silent, cut off, twice, flooding, or not what they should be.

Each turn has one fault of a peer. Then an ordinary turn must work: the model's statement runs once, and leaves one
mark. At the end no process is left, and the log is whole.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import psutil

from tests.faults import proxy
from tests.faults.episode import Result
from tests.faults.judge import Evidence, Prompt, violations
from tests.faults.reading import read_log
from tests.faults.world import SECONDS, Recorded, Told
from tests.support import mcp_server
from tests.support.agents import NoAnswerError
from tests.support.llm_server import Answer, Asked, LlmServer, chunk, llm_server, sse
from tests.support.scripts import assert_gone, family, kill_each

_PATIENCE: Final = 2.0
"""Seconds after which the user of a silent peer cancels."""
_SERVERS: Final = ("dead", "noisy", "flood", "stubborn", "endless", "slow", "leave")
"""Words for the server of the tests, and tools of it that never answer or end it."""
_SERVER_MESSAGES: Final = 4
"""As many as the server of the tests sends until it has answered a call, or a few more."""


def _statement(source: str) -> tuple[bytes, ...]:
    function = {"name": "python", "arguments": json.dumps({"source": source})}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return sse(chunk(tool_calls=[call])), sse(chunk("tool_calls")), sse("[DONE]")


_TEXT: Final = (sse(chunk(content="Done with sk-test")), sse(chunk("stop")), sse("[DONE]"))
"""Ends like the beginning of the key, which is held back until the reply is over."""


def runs(text: str, source: str) -> Callable[[Asked], Answer]:
    """Answers for a turn with this prompt: its first call runs the statement, and every other one gets plain text.

    A call may also ask for a summary, which offers no tools, or be a late one of the turn before.
    """
    left = [Answer(pieces=_statement(source))]

    def answer(asked: Asked) -> Answer:
        is_turn = "tools" in asked.body and text in json.dumps(asked.body["messages"])
        return left.pop() if is_turn and left else Answer(pieces=_TEXT)

    return answer


def _provider_faults(right: tuple[bytes, ...]) -> dict[str, Answer]:
    half = len(right[0]) // 2
    flood = (sse(chunk(content="x" * 1000)) * 500,)
    at_pieces = {
        f"{name} at piece {place + 1}": answer
        for place, piece in enumerate(right)
        for name, answer in (
            ("without one", Answer(pieces=right[:place] + right[place + 1 :])),
            ("halved", Answer(pieces=(*right[:place], piece[: len(piece) // 2]), cut=True)),
            ("halved, and going on", Answer(pieces=(*right[:place], piece[: len(piece) // 2], *right[place + 1 :]))),
            ("doubled", Answer(pieces=(*right[:place], piece, *right[place:]))),
            ("closed", Answer(pieces=right[:place], cut=True)),
            ("silent", Answer(pieces=right[:place], hang=True)),
            ("flooding", Answer(pieces=(*right[:place], *flood, *right[place:]))),
        )
    }
    return at_pieces | {
        "silent": Answer(hang=True),
        "silent in the middle": Answer(pieces=right[:1], hang=True),
        "half": Answer(pieces=(right[0][:half],), cut=True),
        "closed": Answer(cut=True),
        "closed before its end": Answer(pieces=right[:1], cut=True),
        "twice": Answer(pieces=right[:1] * 2 + right[1:]),
        "whole twice": Answer(pieces=right + right),
        "flood": Answer(pieces=(sse(chunk(content="x" * 1000)) * 500, *right)),
        "not JSON": Answer(pieces=(b"data: {nothing\n\n", *right)),
        "no events": Answer(pieces=(b"<html>busy</html>",)),
        "empty": Answer(),
        "error": Answer(503, (b'{"error": {"message": "overloaded"}}',)),
        "refusal": Answer(429, (b"{}",), {"Retry-After": "1"}),
    }


class _Session:
    """An agent with a session whose turns are asked for one by one."""

    def __init__(self, folder: Path, chance: random.Random, served: LlmServer, *arguments: str) -> None:
        self.chance = chance
        self.served = served
        self.project, self.state = folder / "project", folder / "state"
        self.project.mkdir()
        self.told: list[Told] = []
        self.prompts: list[Prompt] = []
        self.acts: dict[str, tuple[int, int]] = {}
        self._provider_left: list[str] = []
        self._server_left: list[str] = []
        environ = {"HOME": str(folder), "REWINDOW_SANDBOX": "off", **served.environment()}
        self.agent = Recorded(None, self.told, self.state, environ, *arguments)
        self.agent.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, seconds=SECONDS)
        self.session = self.new()

    def new(self, *servers: dict[str, Any]) -> str:
        params = {"cwd": str(self.project), "mcpServers": list(servers)}
        return self.agent.call("session/new", params, seconds=SECONDS)["sessionId"]

    def prompt(self, text: str, session: str, patience: float) -> str | None:
        """The stop reason, None for an error; cancels when the patience is over."""
        request = self.agent.begin_prompt(session, text)
        try:
            response = self.agent.response(request, patience)
        except NoAnswerError:
            self.agent.notify("session/cancel", {"sessionId": session})
            response = self.agent.response(request, SECONDS)
            if patience == SECONDS:
                return f"no answer for {patience} s"
        reason = response.get("result", {}).get("stopReason")
        if session == self.session:
            self.prompts.append(Prompt(text, reason))
        return reason

    def _next(self, left: list[str], names: Iterable[str]) -> str:
        """One of the names that did not come yet; then all may come again."""
        if not left:
            left += names
            self.chance.shuffle(left)
        return left.pop()

    def mark(self, number: int) -> str:
        return f'b = bash("echo {number} >> marks.log")'

    # --- faults

    def of_provider(self, number: int) -> list[str]:
        """One fault of the provider during a turn, then a turn without."""
        right = _statement(self.mark(number))
        faults = _provider_faults(right)
        name = self._next(self._provider_left, faults)
        fault = faults[name]
        self.acts[f"{number}"] = (0, 1)
        left = [fault, *[Answer(pieces=_TEXT)] * 5]
        self.served.answering = lambda _: left.pop(0) if left else Answer(pieces=_TEXT)
        self.prompt(f"turn {number}, {name}", self.session, _PATIENCE)
        return self._ordinary(1_000_000 + number, f"after a provider that was {name}")

    def _ordinary(self, number: int, when: str) -> list[str]:
        self.acts[f"{number}"] = (1, 1)
        self.served.answering = runs(f"turn {number}", self.mark(number))
        reason = self.prompt(f"turn {number}", self.session, SECONDS)
        return [] if reason == "end_turn" else [f"alive: {when}, a turn ended with {reason}"]

    def of_server(self, number: int) -> list[str]:
        """A session whose MCP server misbehaves, which is closed afterwards."""
        messages = [f"{place} {fault}" for fault in proxy.FAULTS for place in range(1, _SERVER_MESSAGES + 1)]
        word = self._next(self._server_left, (*_SERVERS, *messages))
        arguments = ["-S", mcp_server.__file__, *([word] if word in _SERVERS[:5] else [])]
        if word in messages:
            arguments = ["-S", proxy.__file__, *word.split(), sys.executable, *arguments]
        own = self.new({"name": "test", "command": sys.executable, "args": arguments, "env": []})
        tool = word if word in ("slow", "leave") else "add_one"
        source = f"try: r = test.{tool}({'n=1' if tool == 'add_one' else ''})\nexcept Exception as e: r = str(e)"
        wrong: list[str] = []
        for each, when, patience in ((source, "with", _PATIENCE), ("y = 6 * 7", "after", SECONDS)):
            text = f"turn {when} server {number} {word}"
            self.served.answering = runs(text, each)
            reason = self.prompt(text, own, patience)
            if patience == SECONDS and reason != "end_turn":
                wrong.append(f"alive: with an MCP server that was {word}, a turn ended with {reason}")
        self.agent.call("session/close", {"sessionId": own}, seconds=SECONDS)
        return wrong

    # --- the end

    def end(self) -> list[str]:
        everybody = family(psutil.Process(self.agent.process.pid))
        self.agent.left()
        wrong: list[str] = []
        try:
            assert_gone(everybody)
        except AssertionError as error:
            wrong.append(f"processes: {error}")
            kill_each(everybody)
        verdict, log = read_log(self.state / "sessions.db", self.session)
        marks = self.project / "marks.log"
        evidence = Evidence(
            prompts=self.prompts,
            updates=[
                told.message["params"]["update"]
                for told in self.told
                if told.message.get("params", {}).get("sessionId") == self.session
                and "update" in told.message["params"]
            ],
            log=log,
            database=verdict,
            marks=Counter(marks.read_text().split()) if marks.exists() else {},
            acts=self.acts,
        )
        return wrong + violations(evidence, ["log", "once", "shown"])


def run(folder: Path, seed: int, seconds: float, most: int = 1 << 30) -> Result:
    """Play turns with faults of peers until the time is over; stops at the first thing that is wrong."""
    result, chance = Result(seed), random.Random(seed)
    deadline = time.monotonic() + seconds
    with llm_server() as served:
        session = _Session(folder, chance, served, "--model", "provider:openai:gpt-5")
        try:
            while not result.wrong and time.monotonic() < deadline and result.counts.wire < most:
                result.counts.wire += 1
                result.counts.acts += 2
                fault: Callable[[int], list[str]] = chance.choices((session.of_provider, session.of_server), (3, 1))[0]
                result.kinds[fault.__name__] += 1
                result.wrong += fault(result.counts.wire)
                result.steps.append(session.prompts[-1].text if session.prompts else fault.__name__)
            if not result.wrong:
                result.wrong += session.end()
        except AssertionError as error:
            result.wrong.append(f"alive: {error}")
        finally:
            with contextlib.suppress(psutil.Error):
                kill_each([psutil.Process(session.agent.process.pid)])
            session.agent.left()
    return result
