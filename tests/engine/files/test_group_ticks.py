"""Groups at ticks: bottom-up, once each, last; which changes are reported."""

from __future__ import annotations

import pytest

from engine.log.events.nodes import GroupRecomputed, NodeChanged
from tests.support.boards import Desk, kinds


@pytest.fixture
def desk(desk: Desk) -> Desk:
    for name in "abc":
        desk.write(f"{name}.py", "one\ntwo\n")
    desk.run("a, b, c = (view(f'{name}.py', freq='Sync') for name in 'abc')")
    return desk


def _recomputed(events: tuple[object, ...]) -> list[tuple[str, str]]:
    return [(event.obj_id, event.delta) for event in events if isinstance(event, GroupRecomputed)]


def test_a_group_is_recomputed_after_its_members(desk: Desk) -> None:
    desk.run("g = group(a, b, lod=0)")
    desk.write("a.py", "one\nthree\n")
    events = desk.tick()
    assert kinds(events)[-2:] == ["group_recomputed", "tick_applied"]
    assert _recomputed(events) == [("group-2.1", "1 of 2 members changed: a")]
    assert "three" in desk.text("g")
    assert desk.tick() == ()


def test_changes_of_two_ticks_are_one_diff(desk: Desk) -> None:
    desk.tail()
    desk.write("a.py", "one\nversion that goes\n")
    desk.tick()
    desk.write("a.py", "one\nversion that stays\n")
    desk.tick()
    text = desk.tail()
    assert "that goes" not in text
    assert text.count("1 line changed in a.py") == 1
    assert "-two\n+version that stays" in text


def test_groups_go_bottom_up_and_once_each_whatever_their_order(desk: Desk) -> None:
    desk.run("top = group(tokens=500); middle = group(a); low = group(b); top.Add(middle, low, c); middle.Add(low)")
    desk.write("b.py", "one\nfour\n")
    assert _recomputed(desk.tick()) == [
        ("group-2.3", "1 of 1 member changed: b"),
        ("group-2.2", ""),
        ("group-2.1", "2 of 3 members changed: middle, low"),
    ]
    assert all("four" in desk.text(name) for name in ("low", "middle", "top"))


def test_a_deep_change_is_reported_by_innermost_and_outermost(desk: Desk) -> None:
    desk.run("g0 = group(a)")
    for number in range(20):
        desk.run(f"g{number + 1} = group(g{number})")
    desk.write("a.py", "one\nthree\n")
    events = _recomputed(desk.tick())
    assert len(events) == 21
    assert [said for _, said in events if said] == [
        "1 of 1 member changed: a",
        "1 of 1 member changed: g19 (in it: g0)",
    ]
    assert "three" in desk.text("g20")
    assert _recomputed(desk.tick()) == []


def test_a_group_with_more_changes_always_reports(desk: Desk) -> None:
    desk.run("one = group(a); two = group(one); three = group(two, b); four = group(three); five = group(four, two)")
    for name in "ab":
        desk.write(f"{name}.py", "one\nthree\n")
    assert [said for _, said in _recomputed(desk.tick()) if said] == [
        "1 of 1 member changed: a",
        "2 of 2 members changed: two, b (in it: one)",
        "2 of 2 members changed: four, two (in it: three, one)",
    ]


def test_without_a_changed_outer_group_each_reports(desk: Desk) -> None:
    desk.run("one = group(a); two = group(one); last = group(two, freq=('Periodic', 60)); other = group(two).Pause()")
    desk.tick()
    desk.write("a.py", "one\nthree\n")
    assert [said for _, said in _recomputed(desk.tick())] == ["1 of 1 member changed: a", "1 of 1 member changed: one"]
    desk.seconds += 60
    assert [said for _, said in _recomputed(desk.tick())] == ["1 of 1 member changed: two"]


def test_a_periodic_group_waits_for_its_time(desk: Desk) -> None:
    desk.run("g = group(a, freq=('Periodic', 60))")
    desk.tick()
    desk.write("a.py", "one\nthree\n")
    assert _recomputed(desk.tick()) == []
    assert "three" not in desk.text("g")
    desk.seconds += 60
    assert _recomputed(desk.tick()) == [("group-2.1", "1 of 1 member changed: a")]


def test_a_statements_change_of_a_member_is_reported_next_tick(desk: Desk) -> None:
    desk.run("g = group(a); a.SetPos('2')")
    assert _recomputed(desk.tick()) == [("group-2.1", "1 of 1 member changed: a")]


def test_a_pinned_member_is_unchanged_and_gets_more_room(desk: Desk) -> None:
    for name in "ab":
        desk.write(f"{name}.py", "".join(f"line {number} of {name}\n" for number in range(60)))
    desk.run("a.Refresh(); b.Refresh(); g = group(a, b, lod=0, tokens=300)")
    desk.tick()
    before = desk.text("g")
    desk.run("pin(b)")
    after = desk.text("g")
    assert after.count("of b") > before.count("of b")
    assert _recomputed(desk.tick()) == []
    assert desk.text("g") == after


@pytest.mark.parametrize("views", [True, False], ids=["a view follows the file", "no view"])
def test_the_lines_of_a_changed_file_are_told_once(desk: Desk, views: bool) -> None:
    desk.run("g = group('*.py'); h = group('a.py')" + ("" if views else "; a = b = c = None"))
    desk.tail()
    desk.write("a.py", "one\nthree\n")
    told = [event.delta for event in desk.tick() if isinstance(event, GroupRecomputed | NodeChanged)]
    assert sum("+three" in delta for delta in told) == 1
    assert desk.tail().count("\n+three\n") == 1
    assert [delta for delta in told if "files of" in delta][1].startswith("files of a.py: 1 changed (a.py)")


def test_a_file_that_is_written_anew_as_it_was_is_no_change(desk: Desk) -> None:
    desk.run("g = group('*.py'); a = b = c = None")
    desk.tail()
    desk.write("a.py", "one\ntwo\n")
    assert _recomputed(desk.tick()) == []
    for text in ("one\nthree\n", "one\ntwo\n"):
        desk.write("a.py", text)
        desk.tick()
    assert "a.py" not in desk.tail().partition("Handles (")[0]
