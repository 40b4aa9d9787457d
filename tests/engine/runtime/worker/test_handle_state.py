"""Handles as plain data: what is kept of one, and the handle that is made of that again."""

from __future__ import annotations

import pickle
from dataclasses import replace

import msgspec
import pytest

from engine.files.revision import digest_of
from engine.files.view import ViewHandle
from tests.support.boards import Desk

_TEXT = "".join(f"line {number}\n" for number in range(1, 101))


@pytest.fixture
def desk(desk: Desk) -> Desk:
    desk.write("a.py", _TEXT)
    return desk


def _said(node: ViewHandle) -> tuple[object, ...]:
    schedule = node.last_tick_turn, node.last_tick_time, node.min_turn_interval
    return node.GetDigest(), node.dirty_flags, node.changed, *schedule, node.Render().text


@pytest.mark.parametrize(
    "source",
    [
        "a = view('a.py', '50', tokens=60)",
        "a = view('a.py', tokens=All, freq='Sync'); a.min_turn_interval = 3",
        "a = view('a.py', 120, freq='Sync').Pause()",
        "a = view('none')",
        "a = view('.')",
        "a = view(text='some\\ntext')",
        "a = view(text='', title='nothing')",
        "a = view('a.py', text='forty\\nforty-one\\n', first_line=40).SetPos('41')",
        "a = view('a.py', text='mine\\n'); a.Refresh()",
    ],
)
def test_a_handle_is_the_same_after_it_was_plain_data(desk: Desk, source: str) -> None:
    desk.run(source)
    desk.tick()
    state = desk.board.state_of(desk.get("a"))
    assert pickle.loads(pickle.dumps(state)) == msgspec.msgpack.decode(msgspec.msgpack.encode(state)) == state
    again = Desk(desk.root)
    for digest, data in desk.contents.items():
        again.board.looks.take_content(digest, data)
    node = again.board.node_from("view-1.1", state)
    assert node.obj_id == "view-1.1"
    assert _said(node) == _said(desk.get("a"))
    assert again.board.handles() == [node]
    assert (again.files.stamps, again.files.reads) == (0, 0)


def test_a_living_handle_takes_the_state_over(desk: Desk) -> None:
    desk.run("a = view('a.py', '50')")
    state = desk.board.state_of(desk.get("a"))
    desk.run("b = a.SetPos('7').SetTokens(9).Run()")
    desk.board.looks.take_content(digest_of(_TEXT.encode()), _TEXT.encode())
    assert desk.board.node_from("view-1.1", state) is desk.get("a")
    assert (desk.get("a").pos, desk.get("a").tokens, desk.get("a").mode) == ("50", 2000, "paused")
    assert desk.run("0").events == ()


@pytest.mark.parametrize("source", ["a.Run()", "g = group(a.Run())"])
def test_earlier_state_does_not_pass_for_read(desk: Desk, source: str) -> None:
    desk.run(f"a = view('a.py', freq='Sync'); {source}")
    board = desk.board
    states = {node.obj_id: board.state_of(node) for node in board.handles()}
    board.looks.take_content(digest_of(_TEXT.encode()), _TEXT.encode())
    for was_read in (False, True):
        desk.write("a.py", f"{_TEXT}more {was_read}\n")
        desk.tick()
        if was_read:
            desk.board.read()
        for obj_id, state in states.items():
            board.node_from(obj_id, state)
        # The view shows another text than was read; what that makes of a group, the next tick says.
        assert [node.changed for node in board.handles()] == [True, not was_read][: len(states)]
    board.read()
    for obj_id, state in states.items():
        board.node_from(obj_id, state)
    assert [node.changed for node in board.handles()] == [False] * len(states)


@pytest.mark.parametrize(
    ("source", "is_changed"),
    [
        ("a.min_turn_interval = 2", False),
        ("a.Run(('Periodic', 5.0))", False),
        ("a.Pause()", True),
        ("a.SetLod(1)", True),
    ],
)
def test_only_a_pause_of_a_schedule_is_news(desk: Desk, source: str, is_changed: bool) -> None:
    desk.run("a = view('a.py', freq='Sync')")
    desk.board.read()
    before = desk.board.state_of(desk.get("a"))
    desk.run(source)
    assert desk.get("a").changed is is_changed
    desk.board.read()
    after = desk.board.state_of(desk.get("a"))
    desk.board.looks.take_content(digest_of(_TEXT.encode()), _TEXT.encode())
    desk.board.read()
    desk.board.node_from("view-1.1", before)
    desk.board.read()
    desk.board.node_from("view-1.1", after)
    assert desk.get("a").changed is is_changed


def test_handle_made_again_has_no_news(desk: Desk) -> None:
    desk.run("a = view('none'); b = view('none'); a.rendered")
    states = {name: desk.board.state_of(desk.get(name)) for name in ("a", "b")}
    again = Desk(desk.root)
    node = again.namespace["b"] = again.board.node_from("view-1.2", states["b"])
    again.namespace["a"] = again.board.node_from("view-1.1", states["a"])
    assert again.board.node_from("view-1.2", states["b"]) is node
    again.board.read()
    again.board.looks.know(desk.steps[0].looks)
    again.board.looks.replay([])
    again.run("a.Run(); b.Refresh()")
    assert [handle.changed for handle in again.board.handles()] == [False, False]


def test_handles_are_listed_in_order_of_statements(desk: Desk) -> None:
    desk.run("a = view('a.py'); b = view(text='b')")
    states = {name: desk.board.state_of(desk.get(name)) for name in ("a", "b")}
    again = Desk(desk.root)
    again.index = 9
    again.run("c = view(text='c')")
    nodes = [again.board.node_from("view-1.2", states["b"]), again.board.node_from("view-1.1", states["a"])]
    assert [node.obj_id for node in again.board.handles()] == ["view-1.1", "view-1.2", "view-10.1"]
    assert nodes[::-1] == again.board.handles()[:2]


def test_handle_made_again_follows_its_file(desk: Desk) -> None:
    desk.run("a = view('a.py', freq='Sync')")
    state = desk.board.state_of(desk.get("a"))
    desk.write("a.py", _TEXT + "more\n")
    again = Desk(desk.root)
    again.board.looks.take_content(digest_of(_TEXT.encode()), _TEXT.encode())
    node = again.namespace["a"] = again.board.node_from("view-1.1", state)
    assert len(node.revision.lines) == 100
    again.board.looks.settle()
    again.seconds += 10
    again.tick()
    assert len(node.revision.lines) == 101
    assert [look.state for look in again.steps[-1].looks] == ["text"]


def test_handle_with_lost_content_says_so(desk: Desk) -> None:
    desk.run("a = view('a.py')")
    state = desk.board.state_of(desk.get("a"))
    desk.write("a.py", "otherwise\n")
    again = Desk(desk.root)
    node = again.board.node_from("view-1.1", state)
    assert node.rendered.text == "(the earlier content of a.py is not kept; Refresh() shows the current content)\n"
    assert again.board.looks.take_phrases() == ("looked at a.py, but its earlier content is not kept",)


def test_handle_made_again_says_why_content_is_lost(desk: Desk) -> None:
    desk.run("a = view('a.py')")
    state = desk.board.state_of(desk.get("a"))
    (look,) = desk.steps[-1].looks
    desk.write("a.py", "otherwise\n")
    again = Desk(desk.root)
    again.repeat(desk.steps[-1], [replace(look, lost="contained a secret and was not saved")])
    assert len(again.board.looks.take_phrases()) == 1
    assert again.board.node_from("view-1.1", state) is again.get("a")
    assert "(the earlier content of a.py contained a secret and was not saved; " in again.get("a").rendered.text
    assert again.board.looks.take_phrases() == ()


@pytest.mark.parametrize("change", [{"type": "group"}, {"pos": "-1"}, {"lod": 99}, {"tokens": -1}, {"dirty": 7}, None])
def test_what_is_no_state_is_refused_and_changes_nothing(desk: Desk, change: dict[str, object] | None) -> None:
    desk.run("a = view('a.py')")
    state = desk.board.state_of(desk.get("a"))
    before = _said(desk.get("a"))
    for obj_id in ("view-1.1", "view-2.1"):
        with pytest.raises(ValueError, match=r"\w"):
            desk.board.node_from(obj_id, None if change is None else state | change)
    assert _said(desk.get("a")) == before
    assert desk.board.handles() == [desk.get("a")]
