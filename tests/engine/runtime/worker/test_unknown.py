"""Names of a statement: what it uses, what cannot be compared, and which names share objects."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from engine.runtime.worker.names_used import LateUses, names_in, uses_in
from tests.support.watched import Space

FILE = """
import io, threading
f = io.TextIOWrapper(io.BytesIO(b"1"))
held = {"file": f, "count": 0}
lock = threading.Lock()
"""


@pytest.mark.parametrize(
    "statement",
    [
        "f.write('x')",
        "held['file'].write('x')",
        "print('x', file=f)",
        "import json\njson.dump([], f)",
        "for line in f: pass",
        "lines = list(f)",
        "f2 = f\nf2.write('x')",
        "def act(): f.write('x')\nact()",
        "exec('f.write(chr(1))')",
        "with f: pass",
        "(lambda: f.write('x'))()",
        "[each.write('x') for each in (f,)]",
    ],
)
def test_incomparable_value_is_unknown_where_it_is_used(statement: str) -> None:
    space = Space()
    space.run(FILE)
    diff = space.run(statement)
    assert {"f", "held"} <= diff.unknown.keys()
    assert not diff.unknown.keys() & {"lock", "io", "threading"}
    assert diff.unknown["f"] == diff.unknown["held"] == "a TextIOWrapper cannot be compared"
    assert {"f", "held"} <= space.watch.changed()


@pytest.mark.parametrize(
    "statement",
    [
        "f",
        "print(f, f.encoding, f.closed)",
        "g = f",
        "h = [f, held]",
        "f is None or held['count'] > 3",
        "with lock: x = f.closed",
        "lock.acquire(); lock.release()",
        "import os\nos.getcwd()",
        "len(held); repr(f); f'{f}'",
        "print(threading, io, print)",
    ],
)
def test_to_read_from_what_cannot_be_compared_says_nothing(statement: str) -> None:
    space = Space()
    space.run(FILE)
    diff = space.run(statement)
    assert (diff.unknown, diff.changed) == ({}, {})


def test_comparable_parts_of_a_value_are_compared() -> None:
    space = Space()
    space.run(FILE)
    for statement in ("held['count'] += 1", "held['more'] = 1", "del held['more']"):
        diff = space.run(statement)
        assert (set(diff.changed), diff.unknown) == ({"held"}, {}), statement
    assert diff.changed["held"].after_digest is None
    assert set(space.run("held['file'].held = 1").unknown) == {"f", "held"}
    assert set(space.run("lock.acquire()").changed) == {"lock"}


@pytest.mark.slow
def test_too_large_value_is_unknown_where_it_is_used() -> None:
    space = Space()
    space.run("rows = [[n] for n in range(150_000)]")
    for statement in ("len(rows)", "rows[3]", "total = sum(len(row) for row in rows)", "for row in rows: row[0] + 1"):
        diff = space.run(statement)
        assert (diff.unknown, set(diff.changed) - {"row"}) == ({}, set()), statement
    space.run("row = rows[140_000]; apart = []")
    assert space.run("rows[149_000].append(1)").unknown["rows"] == "the value is too large to compare"
    assert space.run("rows.sort(key=len)").unknown.keys() >= {"rows"}
    assert set(space.run("rows.append([])").changed) == {"rows"}
    assert "row" in space.run("rows[140_000].append(5)").changed
    diff = space.run("row.append(6)")
    assert ("row" in diff.changed, "rows" in diff.unknown) == (True, True)
    assert space.run("other = []\nother.append(1)").unknown == {}


@pytest.mark.parametrize("made", ["['a' * 1000] * 10_000", "{n: 'a' * 1000 for n in range(10_000)}", "[0] * (1 << 21)"])
def test_a_large_container_that_grew_is_changed(made: str) -> None:
    space = Space()
    space.run(f"x = {made}")
    assert space.run("x.update(k=1) if isinstance(x, dict) else x.append(0)").changed.keys() == {"x"}


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("a.append(b)", "ab"),
        ("a[0].x = b", "ab"),
        ("a[0] = b", "ab"),
        ("a += b", "ab"),
        ("c = a; c.x = 1", "ac"),
        ("c = a; c.x", ""),
        ("c = [a, b]; c[0].x()", "abc"),
        ("for c in a: c.m()", "ac"),
        ("for c in a: print(c)", ""),
        ("print(*a)", ""),
        ("print(a, file=b)", "abprint"),
        ("c = sorted(a)[0]; c.m()", "ac"),
        ("[x for x in a if x > b]", ""),
        ("(c := a).m()", "ac"),
        ("a if b else c", ""),
        ("x = lambda: a", "a"),
        ("match a:\n    case [b]: b.m()", "ab"),
        ("len(a) + len(b[1:c])", ""),
        ("try: a.m()\nexcept E: b.m()", "ab"),
        ("view(a)", "aview"),
        ("await_(a).b", "aawait_"),
    ],
)
def test_use_and_reading_are_told_apart_by_the_source(statement: str, changed: str) -> None:
    tree = ast.parse(statement)
    uses = uses_in(tree.body, names_in(tree).used, {"view"})
    found = uses.changed | uses.stored
    assert "".join(sorted(found)) == "".join(sorted(set() if not changed else _split(changed)))


def test_late_uses_are_those_before_the_statement_ran() -> None:
    tree = ast.parse("x = 1; len(a); repr(b)")
    namespace = {"len": print}
    late = LateUses(tree, names_in(tree).used, namespace)
    tree.body.clear()
    namespace.clear()
    namespace["repr"] = print
    assert ("a" in late.found.changed, "b" in late.found.read) == (True, True)


def _split(names: str) -> list[str]:
    for word in ("print", "view", "await_"):
        if names.endswith(word):
            return [*names.removesuffix(word), word]
    return list(names)


def test_names_are_told_apart_by_what_is_done_with_them():
    names = names_in(ast.parse("made = read + 'quoted word'\nboth += 1\ndel gone\nheld.part = held[0]"))
    assert names.bound == {"made", "both", "gone"}
    assert names.loaded == {"read", "both", "held"}
    assert names.quoted == {"quoted", "word"}


def test_a_long_text_is_not_searched_for_names():
    assert names_in(ast.parse(f"x = {'long ' * 1000!r}")).quoted == frozenset()


def groups(space: Space, *names: str) -> list[str]:
    return ["".join(group) for group in space.watch.groups(names)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = [1]; b = a; c = [1]", ["ab"]),
        ("a = [1]; b = [a]; c = [b]; d = {}", ["abc"]),
        ("a = []; b = {'k': (a,)}; c = {(1, 2): a}", ["abc"]),
        ("a = 1000; b = a; c = 'x' * 99; d = c", ["a"]),
        ("t = (1, 'x'); a = [t]; b = [t]", ["a"]),
        ("class C: pass\na = C(); a.of = []; b = a.of", ["ab"]),
        ("class C: pass\na = C(); b = C(); c = [C]", ["a"]),
        ("class a: kept = []\nb = a.kept; c = a()", ["ab"]),
        ("class C: kept = []\na = C(); b = C.kept\nclass C: pass\nd = C()", ["ab"]),
        ("class C: pass\na = C(); b = C()\ndel C", ["ab"]),
        ("class C:\n    class D: pass\na = C.D(); b = C.D()", ["a"]),
        ("def f(): return b\na = [f]; b = []; c = [f]", ["a"]),
        ("b = []\ndef f(x=b): pass\na = [f]; c = [b]", ["a"]),
        ("b = []\ndef a(x=b): pass\nc = [a]", ["ab"]),
        ("a = [lambda: 1]; b = a[:]", ["ab"]),
        ("def make(n):\n    def get(): return n\n    return get\nb = []; a = make(b)", ["ab"]),
        ("b = []; a = lambda x=b: x", ["ab"]),
        ("b = []; a = b.append", ["ab"]),
        ("b = []; a = (x for x in b)", ["ab"]),
        ("import threading\nb = threading.Lock(); a = [b]; c = threading.Lock()", ["ab"]),
        ("import io\nb = io.BytesIO(); a = io.TextIOWrapper(b)", ["ab"]),
        ("from collections import deque, defaultdict\nb = []; a = deque([b]); c = defaultdict(list, x=b)", ["abc"]),
        ("import functools\nb = []; a = functools.partial(print, b)", ["ab"]),
        ("b = {}; a = b.keys(); c = memoryview(bytearray(3))", ["ab"]),
        ("b = bytearray(3); a = memoryview(b)", ["ab"]),
        ("import weakref\nclass C: pass\nb = C(); a = weakref.ref(b)", ["a"]),
        ("a = []; a.append(a); b = [a]", ["ab"]),
        ("a = b = c = 5; a = [[]]; b = a[0]", ["ab"]),
        ("b = view; a = [view, print]", ["a"]),
        ("import numpy as np\na = np.arange(9); b = a[2:][::2]; c = a.copy()", ["ab"]),
        ("import numpy as np\nc = []; a = np.empty(2, dtype=object); a[0] = c; b = [c]", ["abc"]),
        pytest.param(
            "import pandas as pd\nc = [1]; a = pd.DataFrame({'x': [c, 2]}); b = [c]; d = pd.Series([1])",
            ["abc"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_names_that_share_mutable_objects_are_one_group(source: str, expected: list[str]) -> None:
    space = Space()
    space.run(source)
    assert groups(space, "a") == expected


def test_groups_hold_each_name_once_and_name_what_stands_alone() -> None:
    space = Space()
    space.run("a = []; b = [a]; c = 1; d = {}; e = [d]; f = []")
    assert groups(space, "b", "a", "c", "d", "missing", "view", "__name__") == ["ab", "c", "de"]


def test_groups_follow_what_later_statements_bind() -> None:
    space = Space()
    space.run("a = []; b = [a]; c = []")
    space.run("b[0] = c")
    assert groups(space, "a", "b") == ["a", "bc"]
    space.run("b.clear()")
    assert groups(space, "a", "b", "c") == ["a", "b", "c"]
    space.run("def f(): b.append(a)\nf()")
    assert groups(space, "a") == ["ab"]
    space.run("del a")
    assert groups(space, "b") == ["b"]


@pytest.mark.slow
def test_too_large_value_shares_with_what_touched_it() -> None:
    space = Space()
    for source in ("big = [[] for _ in range(150_000)]", "own = []", "row = big[140_000]", "other = row", "apart = []"):
        space.run(source)
    assert groups(space, "row") == groups(space, "big") == ["bigotherrow"]
    assert groups(space, "own", "apart") == ["apart", "own"]


@pytest.mark.slow
def test_too_large_value_takes_only_what_it_holds() -> None:
    space = Space()
    space.run("deep = []\nfor _ in range(120_000): deep = [deep]")
    space.run("other = [1]; alias = deep; last = [other]; part = deep[0][0]")
    assert groups(space, "other") == ["lastother"]
    assert groups(space, "part") == ["aliasdeeppart"]


def test_changed_names_are_those_since_the_last_call() -> None:
    space = Space()
    space.run("a = [1]; b = [a]; c = 3")
    space.run("d = 4")
    assert space.watch.changed() == {"a", "b", "c", "d"}
    space.run("a, b, c")
    space.run("c = 3")
    assert space.watch.changed() == set()
    space.run("a.append(2); c = 4; del d")
    assert space.watch.changed() == {"a", "b", "c"}


def test_equal_replaced_part_is_kept_again() -> None:
    space = Space()
    space.run("a = [1]; b = [a]")
    space.watch.changed()
    assert not space.run("b[0] = [1]")
    assert space.watch.changed() == {"b"}
    assert groups(space, "a", "b") == ["a", "b"]


def test_an_id_that_is_used_again_groups_nothing_wrongly() -> None:
    space = Space()
    wrong: list[Any] = []
    space.run("a = [[]]")
    for _ in range(50):
        # The list that was freed and the one made next are at the same address.
        space.run("a.pop(); b = [[]]; a.append([])")
        wrong += [group for group in groups(space, "a", "b") if len(group) > 1]
        space.run("del b")
    assert wrong == []


def test_the_groups_of_many_names_are_those_of_each() -> None:
    space = Space()
    space.run("for i in range(40): globals()[f'n{i:02}'] = [i]\na = [n01, n02]; b = {'x': n02, 'y': n39}; del i")
    names = [f"n{number:02}" for number in range(40)]
    together = space.watch.groups(names)
    assert together == tuple(dict.fromkeys(group for name in names for group in space.watch.groups([name])))
    assert together[1] == ("a", "b", "n01", "n02", "n39")
