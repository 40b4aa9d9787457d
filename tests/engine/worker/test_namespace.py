from __future__ import annotations

import gc
import tracemalloc
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.worker.summaries import REPR_LIMIT, describe, short_repr
from tests.support.watched import Space


def test_names_are_added_changed_and_deleted() -> None:
    space = Space()
    diff = space.run("a = 1\nb = [1]\nimport os")
    assert set(diff.added) == {"a", "b", "os"}
    diff = space.run("a = 2; del b")
    assert diff.changed["a"].before.short_repr == "1"
    assert diff.changed["a"].after.short_repr == "2"
    assert diff.changed["a"].before_digest != diff.changed["a"].after_digest
    assert not diff.changed["a"].mutated
    assert diff.deleted == ("b",)
    assert not space.run("a")


def test_injected_and_dunder_names_are_left_out() -> None:
    space = Space()
    assert not space.run("view = 5; __hidden = 1")


def test_binding_an_equal_constant_again_is_no_change() -> None:
    space = Space()
    space.run("x = 1000; s = 'a' * 50")
    assert not space.run("x = 999 + 1; s = 'a' * 50")


@pytest.mark.parametrize(
    "mutation",
    [
        "x.append(1)",
        "y += [1]",
        "f()",
        "globals()['x'].append(1)",
        "g()",
        "C().m()",
        "x[:] = [9]",
        "list(map(x.append, 'a'))",
    ],
)
def test_a_mutation_shows_under_every_name_of_the_object(mutation: str) -> None:
    space = Space()
    space.run(
        "x = [0]; y = x; z = [0]; w = 1\n"
        "def f(): x.append(2)\ndef g():\n    def inner(): f()\n    inner()\n"
        "class C:\n    def m(self): x.append(3)"
    )
    space.names["C"].__module__ = "__main__"
    diff = space.run(mutation)
    assert set(diff.changed) == {"x", "y"}
    assert diff.changed["x"].mutated
    assert diff.changed["y"].mutated
    assert diff.changed["x"].before.short_repr == "[0]"
    assert not space.run("x, y, z")


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=12))
def test_every_mutation_of_a_shared_or_own_list_is_found_once(targets: list[str]) -> None:
    space = Space()
    space.run("a = []; b = a; c = []")
    for target in targets:
        changed = set(space.run(f"{target}.append(1)").changed)
        assert changed == ({"c"} if target == "c" else {"a", "b"})


def test_a_deleted_value_is_freed_within_its_statement() -> None:
    space = Space()
    space.run("class T: pass\nt = T()\nu = T()")
    gone, rebound = weakref.ref(space.names["t"]), weakref.ref(space.names["u"])
    space.names["check"] = lambda: (gc.collect(), gone() is None, rebound() is None)[1:]
    space.run("1")
    space.run("del t\nu = 1\nfreed = check()")
    assert space.names["freed"] == (True, True)


def test_objects_that_misbehave_are_unknown_and_break_nothing() -> None:
    space = Space()
    diff = space.run(
        "class Bad:\n"
        "    def __repr__(self): raise SystemExit\n"
        "    def __reduce_ex__(self, n): raise ZeroDivisionError\n"
        "    def __eq__(self, other): raise ValueError\n"
        "    __hash__ = None\n"
        "    def __getattr__(self, name): raise KeyError(name)\n"
        "bad = Bad(); bads = [Bad()]; gen = (i for i in [1]); import threading; lock = threading.Lock()"
    )
    assert "SystemExit" in diff.added["bad"].short_repr
    assert not space.run("bad, bads, gen, lock")
    assert set(space.run("bad = Bad()").changed) == {"bad"}


def test_a_value_whose_examination_was_interrupted_is_not_examined_again() -> None:
    space = Space()
    space.names["calls"] = calls = []
    with pytest.raises(KeyboardInterrupt):
        space.run("class H:\n    def __repr__(self):\n        calls.append(1); raise KeyboardInterrupt\nh = H()")
    space.run("h")
    assert calls == [1]
    assert space.run("h = 3").changed["h"].after.short_repr == "3"


def test_reprs_are_short_bounded_and_without_addresses() -> None:
    assert short_repr(object()) == "<object object at 0x…>"
    assert short_repr({"a": [1, (2,)], "b": set()}) == "{'a': [1, (2,)], 'b': set()}"
    assert short_repr([1]) == "[1]"
    assert short_repr(frozenset({1})) == "frozenset({1})"
    assert short_repr(bytearray(b"ab")) == "bytearray(b'ab')"
    assert short_repr(Counter("aab")) == "Counter({'a': 2, 'b': 1})"
    for value in ("x" * 10**6, list(range(10**6)), 10**10000, {i: i for i in range(10**5)}, [[[[[["deep"]]]]]] * 50):
        assert len(short_repr(value)) <= REPR_LIMIT
    assert short_repr("\ud800") == repr("\ud800")
    recursive: list[object] = []
    recursive.append(recursive)
    assert short_repr(recursive) == "[[[[…]]]]"
    assert describe([1, 2]).size == 2


@pytest.mark.parametrize(
    "value",
    [
        bytearray(10**7),
        array("d", bytes(8 * 10**5)),
        deque(range(10**5)),
        Counter(range(10**5)),
        OrderedDict.fromkeys(range(10**5)),
        defaultdict(int, dict.fromkeys(range(10**5))),
        dict.fromkeys(range(10**5)).keys(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_much_is_described_without_a_repr_of_all_of_it(value: Any) -> None:
    tracemalloc.start()
    try:
        text = short_repr([value])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert text == f"[<{type(value).__name__} of {len(value)} elements>]"
