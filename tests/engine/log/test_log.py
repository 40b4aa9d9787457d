"""The log: what it takes, what it refuses, and that a refusal leaves nothing behind."""

from __future__ import annotations

import pytest

from engine.core.errors import InvalidEventError
from engine.core.ids import MessageId, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import RunStop, ToolCall, ToolResult, UserMessage
from tests.support.fixed import FixedClock

P, Q = ToolCallId("p"), ToolCallId("q")


def message(text: str = "hello") -> UserMessage:
    return UserMessage(message_id=MessageId("m"), text=text)


def call(name: str, parent: ToolCallId | None = None) -> ToolCall:
    return ToolCall(tool_call_id=ToolCallId(name), tool="python", parent_id=parent)


def result(name: str, parent: ToolCallId | None = None) -> ToolResult:
    return ToolResult(tool_call_id=ToolCallId(name), status="ok", text="", parent_id=parent)


def new_log(journal: list[Event] | None = None) -> EventLog:
    kept: list[Event] = [] if journal is None else journal
    return EventLog(FixedClock(7.0), kept.append)


def test_append_stamps_position_id_time_and_branch() -> None:
    journal: list[Event] = []
    log = new_log(journal)
    assert [log.append(message("a")), log.append(message("b"))] == [0, 1]
    stamped = log.events[1]
    assert (stamped.seq, stamped.event_id, stamped.at, stamped.branch_id) == (1, "e1", 7.0, "main")
    assert journal == list(log.events)


@pytest.mark.parametrize(
    ("before", "event", "reason"),
    [
        ([], result("a"), "there is no tool call a"),
        ([call("a"), result("a")], result("a"), "tool call a has its result already"),
        ([call("a")], call("a"), "tool call a is on the log already"),
        ([call("a"), result("a")], call("a"), "tool call a is on the log already"),
        ([call("a")], result("a", P), "tool call a was made by the model, its result says by p"),
        ([call("a", P)], result("a"), "tool call a was made by p, its result says by the model"),
        ([call("a", P)], result("a", Q), "tool call a was made by p, its result says by q"),
    ],
)
def test_what_can_never_be_right_is_refused_and_leaves_nothing(before: list[Event], event: Event, reason: str) -> None:
    journal: list[Event] = []
    log = new_log(journal)
    for earlier in before:
        log.append(earlier)
    with pytest.raises(InvalidEventError, match=reason):
        log.append(event)
    assert len(log) == len(journal) == len(before)


def test_a_read_model_that_comes_late_is_told_everything_once_and_in_order() -> None:
    log = new_log()
    log.append(message("a"))
    told: list[Event] = []
    log.follow(told.append)
    log.append(message("b"))
    assert told == list(log.events)


def test_an_event_that_is_on_a_log_cannot_be_appended_again() -> None:
    log = new_log()
    log.append(message())
    with pytest.raises(InvalidEventError, match="on a log already"):
        log.append(log.events[0])


def test_a_further_check_can_refuse() -> None:
    log = EventLog(FixedClock(), lambda _: None, check=lambda event: "not today" if event.kind == "run_stop" else None)
    log.append(message())
    with pytest.raises(InvalidEventError, match="not today"):
        log.append(RunStop(reason="completed", cause="end_turn"))


def test_a_journal_that_refuses_leaves_the_log_and_its_folds_as_they_were() -> None:
    folded: list[Event] = []

    def refuse(_: Event) -> None:
        raise OSError("full")

    log = EventLog(FixedClock(), refuse, folds=[folded.append])
    with pytest.raises(OSError, match="full"):
        log.append(message())
    assert (len(log), folded) == (0, [])


def test_folds_are_told_of_appended_and_of_loaded_events_in_order() -> None:
    source = new_log()
    for event in (message("a"), call("c"), result("c")):
        source.append(event)
    folded: list[Event] = []
    log = EventLog(FixedClock(), lambda _: None, folds=[folded.append])
    log.load(source.events)
    log.append(message("b"))
    assert folded == list(log.events)
    assert [event.seq for event in folded] == [0, 1, 2, 3]


def test_a_loaded_log_still_refuses_a_second_result() -> None:
    source = new_log()
    for event in (call("c"), result("c")):
        source.append(event)
    log = new_log()
    log.load(source.events)
    with pytest.raises(InvalidEventError, match="has its result already"):
        log.append(result("c"))


def test_only_an_empty_log_can_be_loaded_and_only_without_gaps() -> None:
    source = new_log()
    source.append(message("a"))
    source.append(message("b"))
    with pytest.raises(InvalidEventError, match="position 1 where 0 was due"):
        new_log().load(source.events[1:])
    with pytest.raises(InvalidEventError, match="only an empty log"):
        source.load(source.events)


def test_open_calls_are_those_without_a_result() -> None:
    log = new_log()
    for event in (call("a"), call("b"), result("a")):
        log.append(event)
    assert [open_call.tool_call_id for open_call in log.open_calls] == ["b"]


def test_a_snapshot_of_the_events_does_not_change() -> None:
    log = new_log()
    log.append(message())
    snapshot = log.events
    log.append(message())
    assert (len(snapshot), len(log.since(1))) == (1, 1)
