"""Groups and pins in the tail: what is new is shown, what a result shows is named, the important ones come first."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.tokens import count
from engine.files.group import GroupHandle
from engine.files.rendered import RenderedView
from tests.support.boards import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    for name in "abc":
        desk.write(f"{name}.py", f"text of {name}\n" * 3)
    desk.run("a, b, c = (view(f'{name}.py', freq='Sync') for name in 'abc')")
    return desk


def test_a_group_that_a_result_shows_is_named_and_one_that_has_changed_since_is_shown(desk: Desk) -> None:
    desk.run("g = group(a, b, lod=0)")
    assert "As results show them: g (statement 2)\n" in desk.tail()
    desk.write("a.py", "something else\n")
    desk.tick()
    tail = desk.tail()
    assert "Groups, as they are now:\ng (group of a, b):\n# a: a.py: 1 line\n1\tsomething else\n# b: b.py" in tail
    desk.run("show(g)")
    assert "As results show them: g (statement 3)\n" in desk.tail()


def test_a_group_that_was_given_less_is_not_rendered_once_more_as_long_as_its_result_stands(desk: Desk) -> None:
    desk.run("g = group(a, b, lod=0)")
    desk.run("g.SetTokens(40)")
    assert "As results show them: g (statement 2)\n" in desk.tail()
    desk.run("g.SetLod(1)")
    assert "As results show them: g (statement 2)\n" in desk.tail()
    # What its members are now it has to tell, and whoever gives it more wants to see that.
    desk.write("a.py", "something else\n")
    desk.tick()
    assert "Groups, as they are now:\ng (group of a, b):\n" in desk.tail()
    desk.run("h = group(a, b, lod=0, tokens=30)")
    desk.run("h.SetTokens(300)")
    assert "h (group of a, b):\n# a: a.py" in desk.tail()


def test_a_group_within_another_is_left_to_that_unless_it_is_pinned(desk: Desk) -> None:
    desk.run("inner = group(a, lod=0); g = group(inner, lod=0); inner.SetTokens(300)")
    desk.tick()
    assert "inner (group" not in desk.tail()
    desk.run("pin(inner, 'the task')")
    assert "inner (group of a; pinned: the task)" in desk.tail() or "inner (statement 2)" in desk.tail()


def test_the_pinned_come_first_then_what_changed_then_what_was_used_last(desk: Desk) -> None:
    desk.run("x = group(a, lod=0)")
    desk.run("y = group(b, lod=0)")
    desk.run("z = group(c, lod=0); pin(x, 'why')")
    for name in "abc":
        desk.write(f"{name}.py", "other\n")
    desk.tick()
    tail = desk.tail()
    places = [tail.index(f"{name} (group of") for name in ("x", "z", "y")]
    assert places == sorted(places)


def test_where_there_is_little_room_a_summary_is_made_for_that(desk: Desk) -> None:
    for name in "abc":
        desk.write(f"{name}.py", f"def function_of_{name}(): pass\n" * 300)
    desk.run("g = group(a, b, c, lod=0)")
    for name in "abc":
        desk.write(f"{name}.py", f"def another_of_{name}(): pass\n" * 300)
    desk.tick()
    tail = desk.tail(600)
    assert count(tail) <= 600
    assert "g (group of a, b, c):\n# a: a.py" in tail


def test_a_pinned_view_is_shown_where_no_result_shows_it_as_it_is(desk: Desk) -> None:
    desk.run("pin(a, 'the bug')")
    assert "Pinned:\na (a.py; pinned: the bug), as the result of statement 1 shows it\n" in desk.tail()
    assert "text of a" not in desk.tail()
    desk.write("a.py", "something else\n")
    desk.tick()
    assert "a (a.py; pinned: the bug):\n1\tsomething else\n" in desk.tail()
    desk.run("unpin(a)")
    assert "Pinned" not in desk.tail()


def test_a_group_that_has_too_little_room_is_made_smaller_once_until_it_shows_something_else(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run("g = group(a, b, c, lod=0)")
    desk.write("a.py", "something else\n" * 20)
    desk.tick()
    desk.tail()
    rooms: list[int] = []
    render = GroupHandle.Render

    def counted(self: GroupHandle, lod: int | None = None, tokens: int | None = None) -> RenderedView:
        if tokens is not None:
            rooms.append(tokens)
        return render(self, lod, tokens)

    monkeypatch.setattr(GroupHandle, "Render", counted)
    first = desk.tail(200)
    assert "g (group of a, b, c):\n# a: a.py" in first
    assert len(rooms) == 1
    assert desk.tail(200) == first
    assert len(rooms) == 1
    desk.write("b.py", "new\n")
    desk.tick()
    desk.tail()
    assert "1\tnew" in desk.tail(200)
