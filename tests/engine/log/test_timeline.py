"""The timeline: statements, their executions, and which of those counts."""

from __future__ import annotations

from msgspec.structs import replace

from engine.core.execution import Aspect, ChangeInfo, NamespaceDiff, TypeInfo
from engine.core.ids import ExecutionId, StatementId, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.execution import (
    ExecutionFinished,
    ExecutionStarted,
    StatementKind,
    StatementOmitted,
    StatementRecorded,
)
from engine.log.events.going_back import Diverged
from engine.log.events.session import EnvironmentRestored
from engine.log.timeline import Timeline
from tests.support.fixed import FixedClock


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
