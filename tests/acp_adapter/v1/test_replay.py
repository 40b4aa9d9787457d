"""A load sends the final state: one update for each message and call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from acp_adapter.shown import NOTHING_SHOWN
from engine import CycleSummary
from engine.core.ids import ExecutionId, MessageId, Seq, StatementId, ToolCallId
from engine.log.events import AnyEvent
from engine.log.events.conversation import AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from engine.log.events.session import TitleChanged, UsageReported
from tests.support.scripts import transcript
from tests.support.shown import LoggedFacts, event_updates, replayed


def turn(number: int) -> list[AnyEvent]:
    """A prompt, its statement, and the answer."""
    statement, execution = StatementId(f"s{number}"), ExecutionId(f"x{number}")
    return [
        UserMessage(message_id=MessageId(f"u{number}"), text="go"),
        UsageReported(used=number, size=1_000),
        StatementRecorded(
            statement_id=statement, index=number, source="1", tool_call_id=ToolCallId(f"c{number}"), fingerprint=""
        ),
        ExecutionStarted(execution_id=execution, statement_id=statement),
        ExecutionFinished(
            execution_id=execution,
            statement_id=statement,
            status="ok",
            value="1",
            started_at=0.0,
            ended_at=0.0,
            time_ms=0.0,
        ),
        UsageReported(used=number + 1, size=1_000),
        AgentText(message_id=MessageId(f"a{number}"), text="1"),
        RunStop(reason="completed", cause="end_turn"),
    ]


def stamped(events: list[AnyEvent]) -> list[AnyEvent]:
    return [replace(event, seq=Seq(seq), at=float(seq)) for seq, event in enumerate(events)]


def replayed_log(log: list[AnyEvent]) -> list[dict[str, Any]]:
    return list(replayed(log, LoggedFacts(events=log)))


def one_by_one(log: list[AnyEvent]) -> list[dict[str, Any]]:
    facts, state, sent = LoggedFacts(events=log), NOTHING_SHOWN, list[dict[str, Any]]()
    for event in log:
        state, updates = event_updates(event, state, facts, is_live=False)
        sent += updates
    return sent


@pytest.mark.slow
def test_load_of_500_prompts_sends_the_final_state() -> None:
    log = stamped([TitleChanged(title="first"), *(event for number in range(500) for event in turn(number))])
    sent = replayed_log(log)
    assert Counter(update["sessionUpdate"] for update in sent) == {
        "user_message_chunk": 500,
        "tool_call": 500,
        "agent_message_chunk": 500,
        "session_info_update": 1,
        "usage_update": 1,
    }
    assert transcript(sent) == transcript(one_by_one(log))
    assert [update for update in sent if "used" in update] == [
        {"sessionUpdate": "usage_update", "used": 500, "size": 1_000}
    ]
    assert sent[-2]["title"] == "first"
    assert sent[-2]["_meta"]["rewindow"]["cycle"]["number"] == 500


def test_updates_wait_behind_an_open_call() -> None:
    outer, inner = turn(1)[2:5], ToolCallId("inner")
    log = stamped(
        [
            *outer[:2],
            ToolCall(tool_call_id=inner, tool="read", arguments={"path": "a"}, parent_id=ToolCallId("c1")),
            AgentText(message_id=MessageId("beside"), text="beside"),
            ToolResult(tool_call_id=inner, status="ok", text="read", parent_id=ToolCallId("c1")),
            *outer[2:],
        ]
    )
    assert [(each.get("toolCallId"), each.get("status")) for each in replayed_log(log)] == [
        ("c1", "completed"),
        ("inner", "completed"),
        (None, None),
    ]


@pytest.mark.slow
def test_open_call_holds_back_a_thousand_updates() -> None:
    open_call = turn(0)[2:4]
    log = stamped([*open_call, *(event for number in range(1, 600) for event in turn(number)), turn(0)[4]])
    facts = LoggedFacts(events=log)
    taken = 0

    class Counted(list[AnyEvent]):
        def __iter__(self) -> Iterator[AnyEvent]:
            nonlocal taken
            for event in super().__iter__():
                taken += 1
                yield event

    updates = replayed(Counted(log), facts)
    assert (next(updates)["status"], taken < 3_000) == ("in_progress", True)
    assert transcript(replayed_log(log)) == transcript(one_by_one(log))
    assert transcript(replayed_log(log))["calls"]["c0"]["status"] == "completed"


@pytest.mark.parametrize("twice", ["c1", "c2"])
def test_duplicate_call_ids_are_drawn(twice: str) -> None:
    log = stamped(
        [
            *turn(1)[:4],
            replace(turn(2)[2], tool_call_id=ToolCallId(twice)),
            *turn(1)[4:],
            *turn(2)[3:],
        ]
    )
    assert json.dumps(replayed_log(log))
    assert transcript(replayed_log(log))["messages"] == transcript(one_by_one(log))["messages"]


@given(st.lists(st.sampled_from([event for number in range(3) for event in turn(number)]), max_size=30))
def test_replay_draws_the_same_final_state(events: list[AnyEvent]) -> None:
    seen: set[str] = set()
    log: list[AnyEvent] = []
    for event in events:
        if isinstance(event, StatementRecorded):
            if event.statement_id in seen:
                continue
            seen.add(event.statement_id)
        log.append(event)
    log = stamped(log)
    assert transcript(replayed_log(log)) == transcript(one_by_one(log))


def test_only_the_latest_cycle_is_summarized() -> None:
    log = stamped([event for number in range(50) for event in turn(number)])
    asked: list[int] = []

    class Asked(LoggedFacts):
        def cycle_ended_by(self, seq: int) -> CycleSummary | None:
            asked.append(seq)
            return super().cycle_ended_by(seq)

    (*_, usage) = replayed(log, Asked(events=log))
    stops = [event.seq for event in log if isinstance(event, RunStop)]
    assert (len(stops), asked) == (50, stops[-1:])
    assert usage["sessionUpdate"] == "usage_update"
