"""Handles in the namespace: what a statement did to them is a change, and what a tick did is none of its."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engine.core.execution import NamespaceDiff
from engine.runtime.worker.namespace import NamespaceWatch
from tests.support.boards import Desk


class Watched:
    """A desk whose statements are watched."""

    def __init__(self, root: Path) -> None:
        self.desk = Desk(root)
        self.desk.write("a.txt", "one\ntwo\nthree\n")
        self.watch = NamespaceWatch(self.desk.namespace, tuple(self.desk.namespace))
        self.run("1")

    def run(self, source: str) -> NamespaceDiff:
        self.watch.before(ast.parse(source))
        self.desk.run(source)
        return self.watch.after()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("v.SetTokens(9)", {"v", "same", "held"}),
        ("same.SetPos('2')", {"v", "same", "held"}),
        ("for each in held: each.SetTokens(77)", {"v", "same", "held"}),
        ("[m(3) for m in [held[0].SetTokens]]", {"v", "same", "held"}),
        ("w.Scroll(1)", {"w"}),
        ("def act(): w.Run()\nact()", {"w"}),
        ("v.lod, v.rendered, v.GetDigest(), same is v", set[str]()),
        ("v.SetLod(0)", set[str]()),
    ],
)
def test_a_method_that_changes_a_handle_shows_under_every_name_that_holds_it(
    watched: Watched, statement: str, changed: set[str]
) -> None:
    watched.run("v = view('a.txt'); same = v; held = [v]; w = view('a.txt', pos='2')")
    diff = watched.run(statement)
    assert (set(diff.changed) - {"each"}, diff.unknown) == (changed, {})
    assert all(change.mutated for change in diff.changed.values())


def test_a_group_changes_with_a_member_that_it_alone_holds(watched: Watched) -> None:
    watched.run("g = group(view('a.txt')); other = group()")
    assert set(watched.run("g.members[0].SetPos('2')").changed) == {"g"}


def test_a_change_of_a_handle_tells_its_state_before_and_after(watched: Watched) -> None:
    added = watched.run("v = view('a.txt')").added["v"]
    change = watched.run("v.SetPos('3'); v.SetTokens(50); v.Run()").changed["v"]
    assert change.before.short_repr == added.short_repr
    assert change.before.short_repr.startswith("<view a.txt paused lod=0 tokens=2000 ")
    assert change.after.short_repr.startswith("<view a.txt:3 running lod=0 tokens=50 ")
    assert change.before_digest != change.after_digest
    watched.desk.write("a.txt", "others\n")
    now = watched.run("v.Refresh()").changed["v"]
    assert now.before.short_repr != now.after.short_repr


def test_what_a_tick_changed_is_no_change_of_the_statement_after_it(watched: Watched) -> None:
    watched.run("v = view('a.txt', freq='Sync'); held = {'v': v}; other = []")
    watched.watch.changed()
    watched.desk.write("a.txt", "others\n")
    assert watched.desk.tick()
    for source in ("v", "held", "other.append(held)"):
        assert not watched.run(source).changed.keys() & {"v", "held"}, source
    assert set(watched.run("v.SetTokens(9)").changed) == {"v", "held", "other"}
