"""Which names share mutable objects: what must be kept, and brought back, together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.watched import Space


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
def test_a_value_too_large_to_be_walked_shares_with_what_it_was_touched_with() -> None:
    space = Space()
    for source in ("big = [[] for _ in range(150_000)]", "own = []", "row = big[140_000]", "other = row", "apart = []"):
        space.run(source)
    assert groups(space, "row") == groups(space, "big") == ["bigotherrow"]
    assert groups(space, "own", "apart") == ["apart", "own"]


@pytest.mark.slow
def test_a_value_too_large_or_too_deep_takes_nobody_with_it_that_it_does_not_hold() -> None:
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


def test_a_part_replaced_by_an_equal_one_is_no_difference_but_has_to_be_kept_again() -> None:
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


@pytest.mark.slow
def test_a_long_list_and_a_long_text_stand_alone_without_being_looked_through() -> None:
    space = Space()
    space.run("long = [0] * 10**8; text = 'a' * 10**8; other = []")
    assert groups(space, "long", "text") == ["long", "text"]


def test_the_groups_of_many_names_are_those_of_each() -> None:
    space = Space()
    space.run("for i in range(40): globals()[f'n{i:02}'] = [i]\na = [n01, n02]; b = {'x': n02, 'y': n39}; del i")
    names = [f"n{number:02}" for number in range(40)]
    together = space.watch.groups(names)
    assert together == tuple(dict.fromkeys(group for name in names for group in space.watch.groups([name])))
    assert together[1] == ("a", "b", "n01", "n02", "n39")
