"""What a tick would find is said as the tick says it then, by the nodes that are due, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.events.nodes import TickApplied
from tests.support.boards import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def lines(desk: Desk, *, round_id: int = 500, now: float = 1e12) -> list[str]:
    return [item.text for item in desk.board.foresee(round_id, now)]


def test_each_node_says_what_its_tick_says_then(desk: Desk) -> None:
    for name in ("a.py", "b.py", "c.txt", "d.txt"):
        desk.write(name, "one\n", age_ns=10**9)
    desk.run(
        "a = view('a.py', freq='Sync'); b = view('b.py', freq=('Periodic', 5)); parked = view('c.txt'); "
        "many = group('*.py'); held = group(parked, 'd.txt'); text = view(text='x', freq='Sync')"
    )
    desk.tick()
    assert lines(desk) == []
    for name in ("a.py", "b.py", "c.txt"):
        desk.write(name, "one\ntwo\n")
    desk.write("d.txt", "another\n")
    desk.write("new.py", "x\n")
    states = [desk.board.state_of(node) for node in desk.board.handles()]
    found = lines(desk)
    assert found == lines(desk)
    assert found[:2] == [f"1 line changed in {name} (+1 -0), first at line 2" for name in ("a.py", "b.py")]
    assert "new.py" in found[2]
    assert "d.txt" in found[3]
    assert [desk.board.state_of(node) for node in desk.board.handles()] == states
    said = [event.delta for event in desk.tick() if isinstance(event, TickApplied)]
    assert [line for line in found if line not in said] in ([], [found[1]])
    assert lines(desk) in ([], [found[1]])


def test_what_is_not_due_is_not_foreseen(desk: Desk) -> None:
    desk.write("a.txt", "one\n")
    desk.run(
        "slow = view('a.txt', freq='Sync'); slow.min_turn_interval = 3; now = view('a.txt', freq='Async'); "
        "seldom = view('a.txt', freq=('Periodic', 3600))"
    )
    desk.tick()
    ticked = max(view.last_tick_turn for view in desk.board.views())
    last = max(view.last_tick_time for view in desk.board.views())
    desk.write("a.txt", "two\n")
    assert lines(desk, round_id=ticked + 1, now=last + 9) == []
    assert len(lines(desk, round_id=ticked + 3, now=last + 9)) == 1
    assert len(lines(desk, round_id=ticked + 3, now=last + 4_000)) == 2


def test_a_look_ahead_leaves_no_record_and_a_rebuild_sees_the_same(desk: Desk) -> None:
    desk.write("a.txt", "one\n")
    desk.run("a = view('a.txt', freq='Sync')")
    desk.write("a.txt", "two\n")
    assert lines(desk)
    assert desk.board.looks.take() == ()
    desk.run("b = view('a.txt', text='x'); before = a.Render().text")
    assert desk.get("before") == "1\tone\n"
    desk.tick()
    desk.run("a.SetTokens(99)")
    assert desk.rebuilt().tail() == desk.tail()
