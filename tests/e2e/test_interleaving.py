"""Two sessions on one connection, interleaved in any order: each keeps to itself, and each can be told again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.agents import Agent
from tests.support.scripts import assert_at_rest, last_value, load, reason, responses, transcript

Action = tuple[str, int]

ACTIONS = ("count", "long", "fail", "command", "cancel", "settle", "close", "load")

actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1)), min_size=3, max_size=14)


class Pair(NamedTuple):
    """Two agent processes over one store: one that acts, and one that only reads what is on disk."""

    acting: Agent
    reading: Agent
    cwd: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("interleaving")
    with Agent(folder / "state") as acting, Agent(folder / "state") as reading:
        acting.initialize()
        reading.initialize()
        yield Pair(acting, reading, folder)


class Interleaving:
    """Carries out actions and knows what must be true of each session."""

    numbers = itertools.count()

    def __init__(self, pair: Pair) -> None:
        self.agent = pair.acting
        self.cwd = pair.cwd
        self.start = len(self.agent.received)
        self.sessions = [self.agent.new_session(self.cwd) for _ in range(2)]
        self.tokens = [f"token_{next(self.numbers)}_" for _ in range(2)]
        self.open = [True, True]
        self.waiting: tuple[dict[int, str], dict[int, str]] = ({}, {})
        self.cancelled = [False, False]
        for which in (0, 1):
            self._prompt(which, "count", f"{self.tokens[which]} = [0]")
            self.settle(which)

    def act(self, kind: str, which: int) -> None:
        session, token = self.sessions[which], self.tokens[which]
        params = {"sessionId": session}
        match kind:
            case "load":
                self.reopen(which)
            case _ if not self.open[which]:
                assert self.agent.error("session/close", params)["code"] == -32002
            case "count":
                self._prompt(which, kind, f"{token}.append({token}[-1] + 1); print({token!r}); {token}")
            case "long":
                self._prompt(which, kind, f"print({token!r}, flush=True)\nwhile True: pass")
            case "fail":
                self._prompt(which, kind, f"{token}.nothing_like_that")
            case "command":
                self._prompt(which, kind, "/timeline")
            case "cancel":
                self.cancelled[which] = True
                self.agent.notify("session/cancel", params)
            case "settle":
                self.settle(which)
            case "close":
                self.close(which)
            case _:
                raise AssertionError(kind)

    def _prompt(self, which: int, kind: str, text: str) -> None:
        self.waiting[which][self.agent.begin_prompt(self.sessions[which], text)] = kind

    def settle(self, which: int) -> None:
        """Has every prompt of the session answered; a runaway one only ends when it is cancelled."""
        waiting = self.waiting[which]
        if "long" in waiting.values():
            early = [prompt for prompt, kind in waiting.items() if kind == "long" and prompt in self._came()]
            assert self.cancelled[which] or not early, "ended by what was meant for the other session"
            self.agent.notify("session/cancel", {"sessionId": self.sessions[which]})
        for prompt, answer in self._answers(waiting).items():
            allowed = {"cancelled"} if waiting[prompt] == "long" else {"end_turn", "cancelled"}
            assert reason(answer) in allowed, (waiting[prompt], answer)
        waiting.clear()
        self.cancelled[which] = False

    def _answers(self, wanted: dict[int, str]) -> dict[Any, Any]:
        """Answers may have come while something else was waited for."""
        came = self._came()
        missing = [prompt for prompt in wanted if prompt not in came]
        return {**{prompt: came[prompt] for prompt in wanted if prompt in came}, **responses(self.agent, missing)}

    def _came(self) -> dict[Any, Any]:
        return {message["id"]: message for message in self.agent.received[self.start :] if "method" not in message}

    def close(self, which: int) -> None:
        self.cancelled[which] = True
        assert self.agent.call("session/close", {"sessionId": self.sessions[which]}) == {}
        self.open[which] = False
        assert set(self.waiting[which]) <= set(self._came()), "a prompt was answered after the close"
        self.settle(which)

    def reopen(self, which: int) -> None:
        load(self.agent, self.sessions[which], self.cwd, "session/resume")
        self.open[which] = True

    def finish(self, reading: Agent) -> None:
        for which in (0, 1):
            self.settle(which)
        for which in (0, 1):
            if not self.open[which]:
                self.reopen(which)
            mine, other = self.tokens[which], self.tokens[1 - which]
            source = f"{mine} == list(range(len({mine}))), {other!r} in globals()"
            assert self.agent.prompt(self.sessions[which], source) == "end_turn"
            assert last_value(self.agent) == "(True, False)"
            self.close(which)
        assert_at_rest(self.agent, sessions=0)
        self._check_answers()
        for which in (0, 1):
            self._check_updates(which, reading)

    def _check_answers(self) -> None:
        ids = [message["id"] for message in self.agent.received[self.start :] if "method" not in message]
        assert len(ids) == len(set(ids))

    def _updates(self, which: int) -> list[dict[str, Any]]:
        return [
            message["params"]["update"]
            for message in self.agent.received[self.start :]
            if message.get("method") == "session/update" and message["params"]["sessionId"] == self.sessions[which]
        ]

    def _check_updates(self, which: int, reading: Agent) -> None:
        shown = transcript(self._updates(which))
        foreign = self.tokens[1 - which]
        mine = self.tokens[which]
        assert mine in str(shown["calls"])
        calls = [call for call in shown["calls"].values() if "' in globals()" not in str(call)]
        assert foreign not in str(calls)
        before = len(reading.updates())
        load(reading, self.sessions[which], self.cwd)
        again = transcript(reading.updates()[before:])
        assert again["calls"] == shown["calls"]
        # What /timeline answers while a turn is running is shown and not kept.
        assert again["messages"].items() <= shown["messages"].items()
        kept = {*again["messages"], *again["calls"]}
        assert again["order"] == [entry for entry in shown["order"] if entry[1] in kept]
        assert reading.prompt(self.sessions[which], f"{mine}[0]") == "end_turn"
        assert last_value(reading) == "0"
        reading.call("session/close", {"sessionId": self.sessions[which]})


def interleave(pair: Pair, steps: list[Action]) -> None:
    example = Interleaving(pair)
    try:
        for kind, which in steps:
            example.act(kind, which)
        example.finish(pair.reading)
    finally:
        for agent, session in itertools.product((pair.acting, pair.reading), example.sessions):
            agent.response(agent.begin("session/close", {"sessionId": session}))


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(steps=actions)
def test_two_sessions_interleaved_in_many_ways_keep_to_themselves(pair: Pair, steps: list[Action]) -> None:
    interleave(pair, steps)
