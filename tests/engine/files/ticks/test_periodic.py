"""When running nodes are ticked: the forms of `freq`, and what is due by the tick's own clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.files.node import checked_freq
from engine.files.view import ViewHandle
from engine.log.events.nodes import TickApplied
from tests.support.boards import Desk, kinds

_REFUSED: list[object] = [
    "sync", "Periodic", None, 5, ("Periodic",), ("Periodic", 0), ("Periodic", -1.0), ("Periodic", float("nan")),
    ("Periodic", float("inf")), ("Periodic", True), ("Periodic", "5"), ("Periodic", 10**400), ("Sync", 5),
    ("Periodic", 5, 5), {"Periodic": 5}, [["Periodic", 5]],
]  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def changed(desk: Desk, text: str) -> list[tuple[str, str]]:
    """Writes the file, ticks, and tells which nodes were changed by which phase."""
    seconds = desk.seconds
    desk.write("a.py", text)
    desk.seconds = seconds
    return [(event.obj_id, event.tick_kind) for event in desk.tick() if isinstance(event, TickApplied)]


@pytest.mark.parametrize("freq", _REFUSED, ids=repr)
def test_what_is_no_frequency_is_refused_with_the_forms_there_are(freq: object) -> None:
    with pytest.raises(ValueError, match=r'give "Sync" .*"Async" .*\("Periodic", seconds\) with seconds above 0$'):
        checked_freq(freq)


@pytest.mark.parametrize("freq", [("Periodic", 5), ["Periodic", 5], ("Periodic", 5.0)], ids=repr)
def test_an_interval_is_seconds_however_it_is_written(freq: object) -> None:
    checked = checked_freq(freq)
    assert checked == ("Periodic", 5.0)
    assert isinstance(checked[1], float)


def test_every_form_is_taken_by_run_and_by_view_and_shown(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Async'); b = view('a.py', freq=('Periodic', 2.5)); c = view('a.py').Run('Async')")
    desk.run("d = view('a.py'); d.Run(freq=['Periodic', 90])")
    nodes = [desk.get(name) for name in "abcd"]
    assert [(node.mode, node.freq) for node in nodes if isinstance(node, ViewHandle)] == [
        ("running", "Async"), ("running", ("Periodic", 2.5)), ("running", "Async"), ("running", ("Periodic", 90.0)),
    ]  # fmt: skip
    listed = str(desk.board.ls())
    assert "running Async" in listed
    assert "running Periodic 2.5s" in listed
    assert "running Periodic 90s" in listed


def test_a_periodic_view_looks_when_its_time_has_passed_and_a_missed_interval_runs_once(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60))")
    assert changed(desk, "two\n") == [("view-1.1", "periodic")]
    stamps = desk.files.stamps
    for text, passed, seen in (("3\n", 59.9, False), ("4\n", 0.1, True), ("5\n", 1_000.0, True), ("6\n", 0.0, False)):
        desk.seconds += passed
        assert changed(desk, text) == ([("view-1.1", "periodic")] if seen else [])
    assert desk.files.stamps == stamps + 2


def test_a_clock_that_is_set_back_neither_stops_a_periodic_view_nor_has_it_look_twice(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60))")
    assert changed(desk, "two\n")
    desk.seconds -= 100_000.0
    assert changed(desk, "three\n")
    assert not changed(desk, "four\n")
    desk.seconds += 60.0
    assert changed(desk, "five\n")


def test_periodic_views_are_ticked_after_those_of_the_round(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60)); b = view('a.py', freq='Sync'); c = view('a.py', freq='Async')")
    desk.write("a.py", "two\n")
    assert kinds(desk.tick()) == [
        "revision_adopted", "file_changed", "node_changed", "tick_applied", "node_changed", "tick_applied",
    ]  # fmt: skip
    desk.seconds += 60
    assert changed(desk, "three\n") == [("view-1.2", "sync"), ("view-1.1", "periodic")]


def test_an_interval_survives_the_state_of_a_handle(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60)); b = view('a.py').Run('Async')")
    for name in "ab":
        node = desk.get(name)
        assert isinstance(node, ViewHandle)
        state = desk.board.state_of(node)
        other = Desk(desk.root).board.node_from(node.obj_id, state)
        assert (other.freq, other.running) == (node.freq, True)
