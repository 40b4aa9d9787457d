"""Groups: members, following them, and reports."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from engine.core.tokens import count
from engine.files.group import ForeignMemberError, GroupCycleError
from engine.files.tails import News
from engine.log.events.nodes import NodeMade
from tests.support.boards import Desk, kinds


@pytest.fixture
def desk(desk: Desk) -> Desk:
    for name in "abc":
        desk.write(f"{name}.py", "".join(f"{name} line {number}\n" for number in range(1, 41)))
    desk.run("a, b, c = (view(f'{name}.py') for name in 'abc')")
    return desk


def test_a_group_is_shown_within_its_budget(desk: Desk) -> None:
    report = desk.run("g = group(a, b, tokens=120)")
    (display,) = report.displays
    assert display.obj_id == "group-2.1"
    assert display.tokens == count(display.text) <= 120
    assert "# a: a.py: 40 lines\n" in display.text
    assert "# b: b.py: 40 lines\n" in display.text
    assert [event.name for event in report.events if isinstance(event, NodeMade)] == ["g"]


def test_a_group_runs_by_default_and_follows_its_members(desk: Desk) -> None:
    desk.run("g = group(a, b)")
    assert (desk.get("g").mode, desk.get("g").freq) == ("running", "Sync")
    desk.write("a.py", "other\n")
    desk.run("a.Refresh()")
    assert "1\tother\n" in desk.text("g")


def test_a_paused_group_keeps_its_content_until_refresh(desk: Desk) -> None:
    desk.run("g = group(a, b, tokens=4000).Pause()")
    before = desk.text("g")
    desk.write("a.py", "other\n")
    desk.run("a.Refresh(); g.SetTokens(4001)")
    assert desk.text("g") == before
    desk.run("g.Refresh()")
    assert "other" in desk.text("g")


def test_members_are_added_removed_and_counted_once(desk: Desk) -> None:
    desk.run("g = group(a, a, b); g.Add(a, c); g.Remove(b)")
    assert desk.get("g").members == (desk.get("a"), desk.get("c"))
    text = desk.text("g")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# a: a.py: 40 lines",
        "# c: c.py: 40 lines",
    ]


def test_a_member_also_in_an_inner_group_is_shown_once(desk: Desk) -> None:
    desk.run("inner = group(a, b); g = group(inner, a)")
    lines = [line for line in desk.text("g").splitlines() if line.startswith("#")]
    assert lines == ["# inner: group of a, b", "# b: b.py: 40 lines", "# a: a.py: 40 lines"]


@pytest.mark.parametrize("source", ["g.Add(g)", "g.Add(outer)", "inner.Add(outer)"])
def test_a_cycle_is_a_named_error_and_changes_nothing(desk: Desk, source: str) -> None:
    desk.run("inner = group(a); g = group(inner); outer = group(g)")
    before = desk.text("g")
    with pytest.raises(GroupCycleError, match="may not contain itself"):
        desk.run(source)
    assert desk.text("g") == before


@pytest.mark.parametrize("source", ["group(7)", "group(a, None)", "group(object())"])
def test_a_foreign_object_is_a_named_error(desk: Desk, source: str) -> None:
    with pytest.raises(ForeignMemberError, match=r"handles from view\(\) or group\(\)"):
        desk.run(source)


def test_a_node_of_another_session_is_foreign(desk: Desk, tmp_path: Path) -> None:
    other = Desk(tmp_path)
    other.run("a = view('a.py')")
    desk.namespace["theirs"] = other.get("a")
    with pytest.raises(ForeignMemberError):
        desk.run("group(theirs)")


def test_a_member_is_replaced_in_its_place(desk: Desk) -> None:
    desk.run("g = group(a, b, 'c.py'); g.Replace(a, c)")
    assert desk.get("g").members == (desk.get("c"), desk.get("b"), "c.py")
    shown = [line for line in desk.text("g").splitlines() if line.startswith("# ")]
    assert [line.partition(":")[0] for line in shown] == ["# c", "# b", "# c.py"]
    desk.run("g.Replace('c.py', b)")  # which keeps the place that it has
    assert desk.get("g").members == (desk.get("c"), desk.get("b"))
    desk.run("g.Replace(b, b)")
    with pytest.raises(ValueError, match="not a member of g"):
        desk.run("g.Replace(a, b)")
    with pytest.raises(GroupCycleError):
        desk.run("g.Replace(b, g)")
    assert desk.get("g").members == (desk.get("c"), desk.get("b"))
    desk.run("del b")
    gc.collect()
    assert len(desk.get("g").members) == 2


def test_an_empty_group_is_valid_and_says_so(desk: Desk) -> None:
    desk.run("g = group()")
    assert "empty group" in desk.text("g")
    desk.run("g.Add(a)")
    assert "empty group" not in desk.text("g")


def test_a_member_lives_as_long_as_the_group_holds_it(desk: Desk) -> None:
    desk.run("g = group(a); del a, b")
    gc.collect()
    assert [node.obj_id for node in desk.board.handles()] == ["view-1.1", "view-1.3", "group-2.1"]
    desk.run("g.Remove(g.members[0])")
    gc.collect()
    assert [node.obj_id for node in desk.board.handles()] == ["view-1.3", "group-2.1"]


def test_a_pinned_handle_lives_until_it_is_unpinned(desk: Desk) -> None:
    desk.run("pin(a, 'the bug is here'); del a")
    gc.collect()
    (row, *_) = desk.board.tail(desk.namespace, 1000, News())[1]
    assert (row.obj_id, row.pinned) == ("view-1.1", True)
    desk.namespace["a"] = desk.board.handles()[0]
    desk.run("unpin(a); del a")
    gc.collect()
    assert [node.obj_id for node in desk.board.handles()] == ["view-1.2", "view-1.3"]


@pytest.mark.parametrize("source", ["pin(7)", "unpin('a')", "show(group)", "pin(a, 7)"])
def test_only_handles_are_pinned_and_shown(desk: Desk, source: str) -> None:
    with pytest.raises(TypeError, match=r"handle made by|a string"):
        desk.run(source)


def test_a_row_names_the_nodes_of_a_group(desk: Desk) -> None:
    desk.run("g = group(b, c)")
    assert desk.board.tail(desk.namespace, 1000, News())[1][-1].children == ("view-1.2", "view-1.3")


def test_each_node_has_an_event_with_statement_line_and_name(desk: Desk) -> None:
    report = desk.run("x = 1\nfirst = view('a.py')\nboth = [view('b.py'),\n  group(first)]\n")
    made = [event for event in report.events if isinstance(event, NodeMade)]
    assert [(each.obj_id, each.obj_type, each.statement, each.line, each.name) for each in made] == [
        ("view-2.1", "view", 2, 2, "first"),
        ("view-2.2", "view", 2, 3, ""),
        ("group-2.3", "group", 2, 4, ""),
    ]


def test_a_node_made_in_a_function_has_the_callers_line(desk: Desk) -> None:
    desk.run("def make(name):\n    return view(name)\n")
    report = desk.run("\n\nmade = make('a.py')")
    (made,) = report.events
    assert (made.line, made.name) == (3, "made")


def test_methods_of_a_group_leave_events_and_chain(desk: Desk) -> None:
    report = desk.run("g = group(a).SetTokens(90).SetLod(3).Add(b).Pause().Run()")
    assert kinds(report.events) == ["node_made", *["method_called"] * 5]


@pytest.mark.parametrize(
    ("made", "idle"),
    [
        ("g = group(a, b)", True),
        ("g = group()", True),
        ("g = group(a, b); a.Run()", False),
        ("g = group(a, b); a.Run(('Periodic', 5))", False),
        ("g = group(a, b); g.Pause()", False),
        ("low = group(a, b); g = group(low, low)", True),
        ("low = group(a, b); g = group(b, low); a.Run()", False),
        ("low = group(a, b); g = group(b, low); a.Run(); low.Pause()", True),
        ("g = group(a, '*.py')", False),
        ("low = group('*.py'); g = group(a, low)", False),
    ],
)
def test_a_group_is_idle_while_nothing_below_it_runs(desk: Desk, made: str, idle: bool) -> None:
    report = desk.run(f"{made}; show(g)")
    assert desk.get("g").idle is idle
    (row,) = (row for row in desk.board.ls().rows if row.obj_id == desk.get("g").obj_id)
    assert (row.idle, row.freq) == (idle, "Sync" if desk.get("g").running else "")
    assert report.displays[-1].freq == ("" if idle else row.freq)


def test_a_summary_names_its_members_as_they_are_called_now(desk: Desk) -> None:
    desk.run("va = view(text='first', title='first'); inner = group(va); outer = group(inner, mode='paused')")
    desk.run("vb = va; va = view(text='second', title='second')")
    assert desk.get("inner").rendered.text.startswith("# vb: first")
    assert desk.get("outer").rendered.text.startswith("# inner: group of vb\n# vb: first")


@pytest.mark.parametrize(
    ("rules", "first"),
    [({}, "b"), ({"size": 1_000.0}, "b"), ({"edited": 0, "name": 1_000}, "a"), ({"edited": 0, "pinned": 100}, "c")],
)
def test_rules_decide_which_member_gets_most(desk: Desk, rules: dict[str, float], first: str) -> None:
    lines = "".join(f"line {number} of a file\n" for number in range(40))
    for name in "abc":
        desk.write(name, lines)
    desk.run("a, b, c = view('a'), view('b'), view('c'); pin(c); unpin(c); g = group(a, b, c, tokens=120, lod=0)")
    desk.board.note_edit(str(desk.root / "b"))
    desk.run(f"g.SetSalience(**{rules!r}).Refresh(); pin(c, 'why') if {first!r} == 'c' else None; a.Run(); b.Run()")
    desk.run("a.Pause(); b.Pause(); c.Run().Pause(); g.Refresh()")
    shares = {part[:1]: part.count("\n") for part in desk.get("g").rendered.text.split("# ")[1:]}
    assert max(shares, key=lambda name: shares[name]) == first


@pytest.mark.parametrize("rule", ["age=1", "size=-1", "size='much'", "name=True", "pinned=1e9"])
def test_an_impossible_rule_is_refused_and_changes_nothing(desk: Desk, rule: str) -> None:
    desk.run("g = group('*')")
    before = desk.get("g").summary_policy
    with pytest.raises(ValueError, match=rule.partition("=")[0]):
        desk.run(f"g.SetSalience({rule})")
    assert desk.get("g").summary_policy == before
