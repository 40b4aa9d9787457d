"""Nodes change in statements and ticks only: a statement may ask for a tick, and a thread is refused any change."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.files.node import NodeChangeError
from engine.files.view import ViewHandle
from engine.log.events.nodes import StatementTicked
from tests.support.boards import Desk, deltas, kinds

_IN_A_THREAD = """
import threading
refused = []
def change():
    for act in acts:
        try:
            act()
        except RuntimeError as error:
            refused.append(error)
thread = threading.Thread(target=change)
thread.start()
thread.join()
"""
_ACTS = (
    "a.SetPos(2)", "a.Scroll(1)", "a.SetTokens(9)", "a.SetLod(0)", "a.Run()", "a.Pause()", "a.Refresh()",
    "setattr(a, 'min_turn_interval', 2)", "a.Tick(1.0, 1, 'sync')", "tick()",
    "pin(a, 'why')", "unpin(a)",
)  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def _handle(desk: Desk, name: str) -> ViewHandle:
    node = desk.get(name)
    assert isinstance(node, ViewHandle)
    return node


def test_a_statement_that_asks_for_a_tick_sees_at_once_what_changed(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.write("b.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); b = view('b.py', freq='Sync'); c = view('a.py')")
    desk.tick()
    desk.write("a.py", "two\n")
    report = desk.run("changed = tick(); shown = a.Render().text, c.Render().text")
    assert desk.get("changed") == [desk.get("a")]
    assert desk.get("shown") == ("1\ttwo\n", "1\tone\n")
    assert kinds(report.events) == [
        "revision_adopted", "statement_ticked", "file_changed", "node_changed", "tick_applied",
    ]  # fmt: skip
    ticked = report.events[1]
    assert isinstance(ticked, StatementTicked)
    assert (ticked.round_id, ticked.now, ticked.nodes) == (1, desk.seconds, 2)
    assert "1 line changed in a.py" in desk.tail()
    assert desk.tick() == ()


def test_each_tick_of_a_statement_looks_and_only_once_at_each_file(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); b = view('a.py', freq='Sync')")
    desk.tick()
    stamps = desk.files.stamps
    desk.run("tick(); tick()")
    assert desk.files.stamps == stamps + 2


def test_a_view_that_ticks_every_third_round_keeps_to_that_when_a_statement_asks(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); a.min_turn_interval = 3")
    desk.tick()
    desk.write("a.py", "two\n")
    desk.run("early = len(tick())")
    desk.tick()
    desk.tick()
    desk.run("late = len(tick())")
    assert (desk.get("early"), desk.get("late")) == (0, 0)
    desk.tick()
    assert _handle(desk, "a").Render().text == "1\ttwo\n"


def test_a_periodic_view_is_ticked_by_a_statement_when_its_time_has_come(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60))")
    desk.tick()
    desk.write("a.py", "two\n")
    desk.namespace["wait"] = lambda seconds: setattr(desk, "seconds", desk.seconds + seconds)  # pyright: ignore[reportUnknownLambdaType]
    desk.run("counts = []; wait(58); counts.append(len(tick())); wait(2); counts.append(len(tick()))")
    assert desk.get("counts") == [0, 1]


def test_a_statement_that_ticks_runs_again_with_what_it_saw_and_when(desk: Desk) -> None:
    path = desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); b = view('a.py', freq=('Periodic', 60)); seen = []")
    desk.tick()
    for text in ("two", "three"):
        desk.write("a.py", f"{text}\n")
        desk.seconds += 40
        desk.namespace["rewrite"] = lambda content: desk.write("a.py", content)  # pyright: ignore[reportUnknownLambdaType]
        desk.run("seen += [len(tick()), a.Render().text, b.Render().text, b.last_tick_time]")
    path.unlink()
    other = desk.rebuilt()
    assert other.get("seen") == desk.get("seen")
    assert [step.events for step in other.steps] == [step.events for step in desk.steps]
    assert [_handle(other, name).state() for name in "ab"] == [_handle(desk, name).state() for name in "ab"]


def test_a_thread_that_tries_to_change_a_node_is_refused(desk: Desk) -> None:
    desk.write("a.py", "one\ntwo\n")
    desk.run("a = view('a.py', freq='Sync')")
    desk.write("a.py", "three\n")
    before = _handle(desk, "a").state()
    desk.namespace["acts"] = [eval(f"lambda: {act}", desk.namespace) for act in _ACTS]
    report = desk.run(_IN_A_THREAD)
    refused = desk.get("refused")
    assert isinstance(refused, list)
    assert [type(error) for error in refused] == [NodeChangeError] * len(_ACTS)
    assert [str(error).partition("()")[0] for error in refused] == [
        "SetPos", "Scroll", "SetTokens", "SetLod", "Run", "Pause", "Refresh", "min_turn_interval", "Tick", "tick",
        "pin", "unpin",
    ]  # fmt: skip
    assert "nodes change in statements and ticks only" in str(refused[0])
    assert _handle(desk, "a").state() == before
    assert report.events == ()


def test_nothing_changes_a_node_between_statements(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    with pytest.raises(NodeChangeError, match="Refresh"):
        _handle(desk, "a").Refresh()


def test_a_thread_may_look_and_make_views(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    desk.namespace["acts"] = [eval(act, desk.namespace) for act in ("lambda: made.append(view('a.py'))", "a.Render")]
    desk.run("made = []" + _IN_A_THREAD)
    assert desk.get("refused") == []
    assert isinstance(desk.get("made"), list)
    assert deltas(desk.tick()) == []
