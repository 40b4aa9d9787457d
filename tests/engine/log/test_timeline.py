"""Branches and the timeline: events on a path, statements, and the execution that counts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from engine.core.errors import InvalidEventError
from engine.core.execution import Aspect, ChangeInfo, NamespaceDiff, TypeInfo
from engine.core.ids import MAIN_BRANCH, BranchId, EventId, ExecutionId, MessageId, Seq, StatementId, ToolCallId
from engine.log.branches import Branch, branches_of, path_of
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.execution import (
    ExecutionFinished,
    ExecutionStarted,
    StatementKind,
    StatementOmitted,
    StatementRecorded,
)
from engine.log.events.going_back import BranchCreated, Diverged, HeadMoved
from engine.log.events.session import EnvironmentRestored
from engine.log.timeline import Timeline
from tests.support.fixed import FixedClock

B1, B2 = BranchId("b1"), BranchId("b2")


def message(text: str) -> UserMessage:
    return UserMessage(message_id=MessageId(text), text=text)


def made(branch: BranchId, before: int, parent: BranchId = MAIN_BRANCH) -> BranchCreated:
    return BranchCreated(branch=branch, parent=parent, before=Seq(before))


def moved(branch: BranchId, left: BranchId = MAIN_BRANCH) -> HeadMoved:
    return HeadMoved(branch=branch, left=left, statement=0)


def log_of(*events: Event) -> EventLog:
    log = EventLog(FixedClock(), lambda _: None)
    for event in events:
        log.append(event)
    return log


def texts(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, UserMessage))


def test_branch_shares_its_parents_path_before_it() -> None:
    log = log_of(message("a"), message("b"), message("c"), made(B1, 2))
    assert texts(log.path) == "abc"
    log.append(moved(B1))
    log.append(message("d"))
    assert texts(log.path) == "abd"
    assert [event.branch_id for event in log.events[3:]] == ["main", "b1", "b1"]
    log.append(moved(MAIN_BRANCH, B1))
    log.append(message("e"))
    assert texts(log.path) == "abce"
    assert texts(log.events) == "abcde"


def test_branch_from_before_its_parent_shares_nothing_with_it() -> None:
    log = log_of(message("a"), message("b"), made(B1, 2), moved(B1), message("c"), made(B2, 1, B1), moved(B2, B1))
    assert texts(log.path) == "a"
    assert log.branches.all == (Branch(MAIN_BRANCH), Branch(B1, MAIN_BRANCH, Seq(2)), Branch(B2, B1, Seq(1)))
    assert log.branches.next_name == "b3"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (made(MAIN_BRANCH, 0), "branch main exists already"),
        (made(B1, 0, B2), "there is no branch b2"),
        (made(B1, -1), "no branch can begin before event -1"),
        (moved(B1), "there is no branch b1"),
        (moved(MAIN_BRANCH), "branch main is active already"),
    ],
)
def test_what_names_no_path_is_refused(event: Event, reason: str) -> None:
    log = log_of(message("a"))
    with pytest.raises(InvalidEventError, match=reason):
        log.append(event)
    assert len(log) == 1
    assert log.branches.active == MAIN_BRANCH


def test_call_is_open_on_branches_without_its_result() -> None:
    call, answered = (
        ToolCall(tool_call_id=ToolCallId("c"), tool="t"),
        ToolResult(tool_call_id=ToolCallId("c"), status="ok", text=""),
    )
    log = log_of(message("a"), call, answered, made(B1, 2), moved(B1))
    assert [each.tool_call_id for each in log.open_calls] == ["c"]
    with pytest.raises(InvalidEventError, match="is on the log already"):
        log.append(call)
    log.append(answered)
    assert not log.open_calls
    log.append(made(B2, 1))
    log.append(moved(B2, B1))
    with pytest.raises(InvalidEventError, match="not on this branch"):
        log.append(answered)


def test_undeclared_branch_continues_the_active_one() -> None:
    events = [
        UserMessage(
            seq=Seq(seq), event_id=EventId(f"e{seq}"), branch_id=BranchId(name), message_id=MessageId(name), text=name
        )
        for seq, name in enumerate("xxyx")
    ]
    assert texts(path_of(events[:3])) == "xxy"
    assert texts(path_of(events)) == "xxx"


class Told:
    """A read model that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.resets = 0

    def apply(self, event: Event) -> None:
        self.events.append(event)

    def reset(self) -> None:
        self.events.clear()
        self.resets += 1


def walk(random: Random, steps: int) -> tuple[EventLog, Told, list[Event], dict[BranchId, list[int]]]:
    """A log with branches made and visited at random, who followed its path, all of it, and each branch's path."""
    log, told, everything = EventLog(FixedClock(), lambda _: None), Told(), list[Event]()
    log.follow_path(told)
    log.follow(everything.append)
    paths: dict[BranchId, list[int]] = {MAIN_BRANCH: []}
    for _ in range(steps):
        active = log.branches.active
        match random.choice(("append", "append", "make", "move")):
            case "make":
                parent, name = random.choice(list(paths)), log.branches.next_name
                before = random.randrange(len(log) + 1)
                paths[active].append(log.append(made(name, before, parent)))
                paths[name] = [seq for seq in paths[parent] if seq < before]
            case "move" if len(paths) > 1:
                other = random.choice([name for name in paths if name != active])
                paths[other].append(log.append(moved(other, active)))
            case _:
                paths[active].append(log.append(message("m")))
        assert [event.seq for event in told.events] == paths[log.branches.active]
    return log, told, everything, paths


@pytest.mark.parametrize("seed", range(6))
def test_every_path_is_shared_then_own_events(seed: int) -> None:
    log, told, everything, paths = walk(Random(seed), 80)
    assert [event.seq for event in everything] == list(range(len(log)))
    for name, path in paths.items():
        assert [event.seq for event in log.branches.path(log.events, name)] == path
    assert branches_of(log.events).all == log.branches.all
    assert tuple(path_of(log.events)) == log.path == tuple(told.events)
    assert all(log.branches.holds(event) == (event.seq in paths[log.branches.active]) for event in log.events)


@pytest.mark.parametrize("seed", range(2))
def test_loaded_log_tells_its_last_path_once(seed: int) -> None:
    log, _, _, _ = walk(Random(seed), 80)
    again, told, everything = EventLog(FixedClock(), lambda _: None), Told(), list[Event]()
    again.follow_path(told, (UserMessage,))
    again.follow(everything.append, (BranchCreated, UserMessage))
    again.load(log.events)
    assert told.events == [event for event in log.path if isinstance(event, UserMessage)]
    assert told.resets == 0
    assert everything == [event for event in log.events if not isinstance(event, HeadMoved)]
    again.append(RunStop(reason="completed", cause="end_turn"))
    assert again.path[:-1] == log.path
    late = Told()
    again.follow_path(late)
    assert tuple(late.events) == again.path


def recorded(name: str, index: int, source: str = "x = 1", kind: StatementKind = "python") -> Event:
    return StatementRecorded(
        statement_id=StatementId(name),
        index=index,
        source=source,
        tool_call_id=ToolCallId(f"call_{name}"),
        statement_kind=kind,
    )


def started(name: str, run: str) -> Event:
    return ExecutionStarted(statement_id=StatementId(name), execution_id=ExecutionId(run))


def finished(name: str, run: str) -> Event:
    return ExecutionFinished(
        statement_id=StatementId(name), execution_id=ExecutionId(run), status="ok", started_at=1.0, ended_at=2.0
    )


def diverged(run: str, aspect: Aspect) -> Diverged:
    return Diverged(
        statement=1, execution_id=ExecutionId(run), against=ExecutionId("r1"), aspect=aspect, before="1", after="2"
    )


def followed(log: EventLog) -> Timeline:
    timeline = Timeline(log.at)
    log.follow_path(timeline, Timeline.FOLLOWS)
    return timeline


def logged(*events: Event) -> tuple[EventLog, Timeline]:
    log = EventLog(FixedClock(), lambda event: None)
    timeline = followed(log)
    for event in events:
        log.append(event)
    return log, timeline


def test_a_statement_of_a_models_call_was_asked_for() -> None:
    call = ToolCallId("called")
    _, timeline = logged(
        ToolCall(tool_call_id=call, tool="python", arguments="{}"),
        replace(recorded("a", 1), tool_call_id=call),
        recorded("b", 2),
        recorded("a", 1),
    )
    assert [cell.asked for cell in timeline.cells] == [False, False]
    _, timeline = logged(
        ToolCall(tool_call_id=call, tool="python", arguments="{}"),
        replace(recorded("a", 1), tool_call_id=call),
        recorded("b", 2),
    )
    assert [cell.asked for cell in timeline.cells] == [True, False]


def test_statement_reads_its_events_from_the_log() -> None:
    log, timeline = logged(
        recorded("a", 1),
        started("a", "r1"),
        finished("a", "r1"),
        recorded("b", 2, kind="meta"),
        started("a", "r2"),
        diverged("r2", "stdout"),
        diverged("r2", "diff"),
        finished("a", "r2"),
    )
    first, second = timeline.cells
    assert (first.statement, first.index, first.is_python) == (log.events[0], 1, True)
    assert [(run.started, run.finished) for run in first.executions] == [
        (log.events[1], log.events[2]),
        (log.events[4], log.events[7]),
    ]
    assert [[each.aspect for each in run.divergences] for run in first.executions] == [[], ["stdout", "diff"]]
    assert first.current == first.executions[1]
    assert (first.started, first.finished) == (log.events[4], log.events[7])
    assert (second.statement, second.index, second.is_python) == (log.events[3], 2, False)
    assert (second.executions, second.current, second.started, second.finished) == ((), None, None, None)


def test_an_execution_that_has_not_ended_has_no_record() -> None:
    log, timeline = logged(recorded("a", 1), started("a", "r1"))
    (run,) = timeline.cells[0].executions
    assert (run.ended, run.finished) == (None, None)
    log.append(finished("a", "r1"))
    assert run.finished == log.events[2]


def test_list_of_statements_does_not_change_with_later_ones() -> None:
    log, timeline = logged(recorded("a", 1))
    before = timeline.cells
    log.append(recorded("b", 2))
    assert (len(before), [cell.index for cell in before]) == (1, [1])
    assert [cell.index for cell in timeline.cells[-1:]] == [2]


def test_statement_with_a_reused_id_starts_empty() -> None:
    log, timeline = logged(
        recorded("a", 1),
        started("a", "r1"),
        finished("a", "r1"),
        started("a", "r2"),
        StatementOmitted(statement_id=StatementId("a"), omitted=True),
        recorded("a", 3, "y = 1", "meta"),
    )
    (cell,) = timeline.cells
    assert (cell.executions, cell.current, cell.omitted, cell.index, cell.is_python) == ((), None, False, 3, False)
    assert cell.statement.source == "y = 1"
    log.append(started("a", "r3"))
    assert [run.started for run in cell.executions] == [log.events[-1]]


def test_cells_are_equal_by_position_and_log() -> None:
    log, timeline = logged(recorded("a", 1), started("a", "r1"), recorded("b", 2), started("b", "r2"))
    (first, second), (again, _) = timeline.cells, followed(log).cells
    other = logged(recorded("a", 1), started("a", "r1"))[1].cells[0]
    assert first == again
    assert hash(first) == hash(again)
    assert first.current == again.current
    assert hash(first.current) == hash(again.current)
    assert first not in (second, other, first.current)
    assert first.current not in (second.current, other.current, first)


def test_bound_names_have_their_latest_types() -> None:
    def info(name: str) -> TypeInfo:
        return TypeInfo(type_name=name, short_repr="")

    def ran(name: str, index: int, diff: NamespaceDiff) -> tuple[Event, ...]:
        end = finished(name, f"r{index}")
        assert isinstance(end, ExecutionFinished)
        return recorded(name, index), started(name, f"r{index}"), replace(end, diff=diff)

    changed = NamespaceDiff(changed={"b": ChangeInfo(before=info("int"), after=info("str"))}, deleted=("a",))
    log, timeline = logged(
        *ran("s1", 1, NamespaceDiff(added={"a": info("int"), "b": info("int")})),
        *ran("s2", 2, changed),
        *ran("s3", 3, NamespaceDiff(added={"c": info("ViewHandle")})),
    )
    assert timeline.bound == {"b": "str", "c": "ViewHandle"}
    log.append(EnvironmentRestored(executions=3, absent=("b",)))
    assert timeline.bound == {"c": "ViewHandle"}
