"""`rewindow show` in this process: what it costs, and what it makes of a log with a gap."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from engine.cli import main
from engine.config.system import SystemClock
from engine.events import Event
from engine.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from engine.ids import EventId, ExecutionId, Seq, SessionId, StatementId, ToolCallId
from engine.store import open_store
from tests.support.stores import row

Show = Callable[[str, list[Event]], str]


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """Keeps the events as a session of that name and returns what the command prints of it."""
    monkeypatch.setenv("REWINDOW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(name: str, events: list[Event]) -> str:
        store = open_store(tmp_path / "state", SystemClock())
        store.add(row(SessionId(name)), events)
        store.close()
        assert main(["show", name]) == 0
        return capsys.readouterr().out

    return run


def statements(count: int) -> list[Event]:
    events: list[Event] = []
    for index in range(1, count + 1):
        statement, execution = StatementId(f"s{index}"), ExecutionId(f"x{index}")
        call = ToolCallId(f"c{index}")
        for kind, fields in (
            (StatementRecorded, {"index": index, "source": f"{index}", "tool_call_id": call}),
            (ExecutionStarted, {"execution_id": execution}),
            (
                ExecutionFinished,
                {"execution_id": execution, "status": "ok", "started_at": 1.0, "ended_at": 2.0, "value": f"={index}"},
            ),
        ):
            seq = len(events)
            events.append(kind(seq=Seq(seq), event_id=EventId(f"e{seq}"), statement_id=statement, **fields))
    return events


def lines_run(action: Callable[[], object]) -> int:
    """How many lines of Python the action executes."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Callable[..., object]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def test_a_session_twice_as_long_costs_twice_as_much_to_show(show: Show) -> None:
    show("ses_first", statements(1))  # because the first one imports
    counts: list[int] = []
    for count in (50, 100, 200):
        events = statements(count)
        counts.append(lines_run(lambda events=events: show(f"ses_{len(events)}", events)))
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert second < 2.2 * first, counts


def test_every_execution_is_shown_under_its_statement(show: Show) -> None:
    blocks = show("ses_a", statements(3)).split("\n\n")[1:]
    assert [block.split() for block in blocks if block.strip()] == [[f"{k}>", f"{k}", f"={k}"] for k in (1, 2, 3)]


def test_an_execution_of_a_statement_that_the_log_lacks_is_shown_without_one(show: Show) -> None:
    (last,) = (event for event in statements(1) if isinstance(event, ExecutionFinished))
    lone = ExecutionFinished(
        seq=Seq(0),
        event_id=EventId("e0"),
        execution_id=last.execution_id,
        statement_id=last.statement_id,
        status="ok",
        started_at=1.0,
        ended_at=2.0,
        value="=1",
    )
    assert show("ses_a", [lone]).split()[-2:] == ["?>", "=1"]
