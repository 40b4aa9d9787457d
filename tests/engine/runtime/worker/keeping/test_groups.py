"""Groups that are kept under names, with the nodes that they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest

from engine.files.group import GroupCycleError, GroupHandle
from engine.log.past import ValueGroup
from engine.runtime.worker.guarding.guard import OutsideGuard
from engine.runtime.worker.keeping.keeper import Loader
from engine.runtime.worker.keeping.pickler import Surroundings
from engine.runtime.worker.keeping.writing import SMALL_BYTES, GroupWriter
from tests.support.boards import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    for name in "ab":
        desk.write(f"{name}.py", "one\ntwo\n")
    desk.run("a = view('a.py'); b = view('b.py', freq='Sync')")
    return desk


def _kept(desk: Desk, *names: str) -> ValueGroup:
    known = Surroundings(desk.namespace, {id(value): name for name, value in desk.board.names().items()}, desk.board)
    return ValueGroup(names, GroupWriter(known, OutsideGuard(), SMALL_BYTES, 10.0).in_memory(names))


def _loaded(desk: Desk, *groups: ValueGroup) -> Desk:
    other = Desk(desk.root)
    for digest, data in desk.contents.items():
        other.board.looks.take_content(digest, data)
    marks: WeakValueDictionary[str, Any] = WeakValueDictionary()
    loader = Loader(other.namespace, other.board.names(), other.board, marks)
    loader.load(groups)
    assert loader.failures == {}
    return other


def _group(desk: Desk, name: str = "g") -> GroupHandle:
    group = desk.get(name)
    assert isinstance(group, GroupHandle)
    return group


def test_a_group_comes_back_with_its_members_and_its_policy(desk: Desk) -> None:
    desk.run("g = group(a, group(b, tokens=90), tokens=300, freq=('Periodic', 9)); pin(g, 'why')")
    again = _loaded(desk, _kept(desk, "g"))
    group = _group(again)
    assert group.GetDigest() == _group(desk).GetDigest()
    assert (group.pinned, group.last_touched) == ("why", _group(desk).last_touched)
    assert [node.obj_id for node in again.board.handles()] == [node.obj_id for node in desk.board.handles()]
    again.namespace |= {"a": again.board.handles()[0], "b": again.board.handles()[1]}
    again.run("0")
    assert group.Render().text == _group(desk).Render().text


def test_a_member_that_has_a_name_too_is_one_node_in_whatever_order_they_are_loaded(desk: Desk) -> None:
    desk.run("g = group(a, b); all = [a, g]")
    kept = _kept(desk, "a"), _kept(desk, "g"), _kept(desk, "all")
    for groups in (kept, kept[::-1]):
        again = _loaded(desk, *groups)
        assert _group(again).members[0] is again.get("a")
        assert again.get("all") == [again.get("a"), again.get("g")]
        again.run("a.SetPos('2')")
        assert "# a: a.py:2" in _group(again).Render().text


def test_a_group_that_lives_takes_over_what_was_kept_of_it_and_lets_the_others_go(desk: Desk) -> None:
    desk.run("g = group(a)")
    kept = _kept(desk, "g")
    desk.run("g.Remove(a); g.Add(b)")
    group = _group(desk)
    Loader(desk.namespace, desk.board.names(), desk.board, WeakValueDictionary()).load([kept])
    assert desk.get("g") is group
    assert group.members == (desk.get("a"),)
    desk.run("b.SetPos('2')")
    assert not any(event.kind == "group_recomputed" for event in desk.tick())


def test_a_state_that_would_make_a_cycle_is_refused_and_changes_nothing(desk: Desk) -> None:
    desk.run("g = group(a); outer = group(g)")
    state = desk.board.state_of(_group(desk)) | {"members": [desk.get("outer")]}
    with pytest.raises(GroupCycleError):
        desk.board.node_from("group-2.1", state)
    assert _group(desk).members == (desk.get("a"),)


@pytest.mark.parametrize("state", [7, {}, {"type": "other"}, {"type": "group"}, {"type": "group", "members": 7}])
def test_what_is_no_state_is_refused(desk: Desk, state: object) -> None:
    with pytest.raises(ValueError, match="no state of a"):
        desk.board.node_from("group-9.1", state)
