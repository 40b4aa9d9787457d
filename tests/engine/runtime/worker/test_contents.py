"""What counts as the content of a value: equal contents have equal digests, and any difference shows."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.runtime.worker.contents import contents_of
from tests.support.watched import Space

CLASSES = """
import numpy as np
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
import datetime, decimal, functools, itertools, re, threading, typing
from engine.runtime.results import value_of
from engine.files.rendered import RenderedView
from engine.core.errors import InvalidRequestError
class Box:
    def __init__(self, **held): self.__dict__.update(held)
@dataclass
class Point:
    x: int
    y: int = 0
@dataclass(frozen=True, slots=True)
class Fixed:
    x: list
class Color(Enum): RED = 1
class Own(dict): pass
class Pair(typing.NamedTuple):
    left: object
    right: object
def make(value):
    def get(): return value
    return get
def count(n):
    for each in range(n): yield each
def advanced(n):
    started = count(9)
    for _ in range(n): next(started)
    return started
def cyclic(*held):
    found = [*held]
    found.append(found)
    return found
def twice(value): return [value, value]
def written(size): return value_of('write', dict(path='a', created=True, added=1, removed=0, line=1, size=size))
def ended(output, seconds=0.5):
    more = dict(truncated=False, timed_out=False, signal=None, reason='')
    return value_of('bash', dict(code=0, output=output, seconds=seconds, **more))
def found(path): return value_of('find', dict(paths=[path], more=0, notes=[]))
def matched(text):
    return value_of('grep', dict(matches=[['a', 1, text, [], []]], more=0, more_files=0, notes=[]))
def path(text):
    found = Path(text)
    str(found); hash(found); found.name
    return found
"""


def digest(source: str) -> str:
    space = Space()
    space.run(CLASSES)
    space.run(f"found = {source}")
    found = contents_of(space.names["found"])
    assert not found.gap, (source, found.gap)
    return found.digest


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("[1, 'ab', None]", "[1, ''.join(['a', 'b']), None]", "[1, 'ab', 0]"),
        ("['a' * 30] * 2", "['a' * 30, 'aaa' * 10]", "['a' * 30, 'a' * 29]"),
        ("{'a': 1, 'b': [2]}", "{'b': [2], 'a': 1}", "{'a': 1, 'b': [3]}"),
        (
            "{1: 'a', (2, 'x'): 'b', None: 'c'}",
            "{None: 'c', (2, 'x'): 'b', 1: 'a'}",
            "{1: 'a', (2, 'y'): 'b', None: 'c'}",
        ),
        ("set('abcdefgh')", "set(reversed('abcdefgh'))", "set('abcdefgi')"),
        ("{(1, 2), ('a', (3,)), 5}", "{5, ('a', (3,)), (1, 2)}", "{(1, 2), ('a', (4,)), 5}"),
        ("{Fixed(1), Fixed(2)}", "{Fixed(2), Fixed(1)}", "{Fixed(1), Fixed(3)}"),
        ("frozenset([frozenset([1]), 2])", "frozenset([2, frozenset([1])])", "frozenset([2, frozenset([3])])"),
        ("OrderedDict(a=1, b=2)", "OrderedDict([('a', 1), ('b', 2)])", "OrderedDict(b=2, a=1)"),
        ("defaultdict(list, a=[1])", "defaultdict(list, a=[1])", "defaultdict(set, a=[1])"),
        ("[1]", "[1]", "[True]"),
        ("[1]", "[1]", "[1.0]"),
        ("(1,)", "(1,)", "[1]"),
        ("[[1], [2]]", "[[1], [2]]", "[[1, 2]]"),
        ("[[], [[]]]", "[[], [[]]]", "[[[]], []]"),
        ("float('nan')", "float('nan') + 1", "float('inf')"),
        ("cyclic(1)", "cyclic(1)", "cyclic(2)"),
        ("twice([1])", "twice([1])", "[[1], [1]]"),
        ("twice((1, 'a'))", "[(1, 'a'), (1, 'a')]", "[(1, 'a'), (1, 'b')]"),
        ("Box(a=1, b=[2])", "Box(b=[2], a=1)", "Box(a=1, b=[3])"),
        ("Point(1)", "Point(1, 0)", "Point(1, 1)"),
        ("Fixed([1])", "Fixed([1])", "Fixed([2])"),
        ("Own(a=1)", "Own(a=1)", "Own(a=2)"),
        ("Pair(1, [2])", "Pair(left=1, right=[2])", "Pair(1, [3])"),
        ("Color.RED", "Color(1)", "Color"),
        ("make([1])", "make([1])", "make([2])"),
        ("lambda x=1: x + 1", "lambda x=1: x + 1", "lambda x=2: x + 1"),
        ("lambda: 1", "lambda: 1", "lambda: 2"),
        ("functools.partial(print, [1])", "functools.partial(print, [1])", "functools.partial(print, [2])"),
        ("advanced(2)", "advanced(2)", "advanced(3)"),
        ("iter([1, 2])", "iter([1, 2])", "iter([1])"),
        ("deque([1, [2]], 5)", "deque([1, [2]], 5)", "deque([1, [3]], 5)"),
        ("path('/a/b')", "Path('/a/b')", "Path('/a/c')"),
        ("datetime.date(2020, 1, 2)", "datetime.date.fromisoformat('2020-01-02')", "datetime.date(2020, 1, 3)"),
        ("decimal.Decimal('1.0')", "decimal.Decimal('1.0')", "decimal.Decimal('1.1')"),
        ("re.compile('a')", "re.compile('a')", "re.compile('b')"),
        ("ValueError('a', [1])", "ValueError('a', [1])", "ValueError('a', [2])"),
        ("bytearray(b'ab')", "bytearray([97, 98])", "bytearray(b'ac')"),
        ("written(6)", "written(6)", "written(7)"),
        ("ended('a')", "ended('a', 2.5)", "ended('b')"),
        ("matched('a')", "matched('a')", "matched('b')"),
        ("found('a')", "found('a')", "found('b')"),
        ("RenderedView(text='a', tokens=1)", "RenderedView(text='a', tokens=1)", "RenderedView(text='b', tokens=1)"),
        ("InvalidRequestError('a')", "InvalidRequestError('a')", "InvalidRequestError('b')"),
        ("memoryview(b'abcd')[::2]", "memoryview(b'abcd')[::2]", "memoryview(b'abcd')[1::2]"),
        ("{'a': [1]}.items()", "{'a': [1]}.items()", "{'a': [2]}.items()"),
        ("[].append", "[].append", "[1].append"),
        ("threading.Lock()", "threading.Lock()", "threading.RLock()"),
        ("[range(3), slice(1, 2), ..., int, len, re]", "[range(3), slice(1, 2), ..., int, len, re]", "[range(4)]"),
        ("np.arange(4)", "np.array([0, 1, 2, 3])", "np.arange(4).reshape(2, 2)"),
        ("np.arange(9)[::2]", "np.array([0, 2, 4, 6, 8])", "np.arange(9)[1::2]"),
        ("np.array([1.0, np.nan])", "np.array([1.0, np.nan])", "np.array([1.0, 2.0])"),
        (
            "np.array(['a', 1, None], dtype=object)",
            "np.array(['a', 1, None], dtype=object)",
            "np.array(['a', 1, 2], dtype=object)",
        ),
        ("np.array(['2020'], 'M8[D]')", "np.array(['2020-01-01'], 'M8[D]')", "np.array(['2021'], 'M8[D]')"),
        ("np.ma.array([1, 2], mask=[0, 1])", "np.ma.array([1, 2], mask=[0, 1])", "np.ma.array([1, 2], mask=[0, 0])"),
        ("[np.float64(1), np.int8(1)]", "[np.float64(1), np.int8(1)]", "[np.float64(1), np.int16(1)]"),
        ("np.random.default_rng(1)", "np.random.default_rng(1)", "np.random.default_rng(2)"),
        ("np.array([], 'i4')", "np.zeros(0, 'i4')", "np.zeros((0, 2), 'i4')"),
    ],
)
def test_equal_contents_have_equal_digests_and_others_do_not(one: str, same: str, other: str) -> None:
    assert digest(one) == digest(same) != digest(other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("pd.Series([1.0, np.nan])", "pd.Series([1.0, np.nan])", "pd.Series([1.0, 2.0])"),
        ("pd.Series(['a', None])", "pd.Series(['a', None])", "pd.Series(['a', 'b'])"),
        ("pd.Series([[1], {2: 3}])", "pd.Series([[1], {2: 3}])", "pd.Series([[1], {2: 4}])"),
        ("pd.Series([1], name='a')", "pd.Series([1], name='a')", "pd.Series([1], name='b')"),
        ("pd.array([1, None])", "pd.array([1, pd.NA])", "pd.array([1, 0])"),
        ("pd.Categorical(['a', 'b'])", "pd.Categorical(['a', 'b'])", "pd.Categorical(['b', 'a'])"),
        (
            "pd.DataFrame({'a': [1], 'b': ['x']})",
            "mixed({'a': [1], 'b': ['x']})",
            "pd.DataFrame({'a': [1], 'b': ['y']})",
        ),
        ("pd.DataFrame({'a': [1], 'b': [2]})", "mixed({'a': [1], 'b': [2]})", "pd.DataFrame({'b': [2], 'a': [1]})"),
        ("pd.Index(['a', 'b'])", "pd.Index(['a', 'b'])", "pd.Index(['a', 'c'])"),
        (
            "pd.MultiIndex.from_product([[1, 2], ['a']])",
            "pd.MultiIndex.from_tuples([(1, 'a'), (2, 'a')])",
            "pd.Index([1, 2])",
        ),
        (
            "pd.date_range('2020', periods=3, tz='UTC')",
            "pd.date_range('2020', periods=3, tz='UTC')",
            "pd.date_range('2020', periods=3)",
        ),
        ("pd.interval_range(0, 3)", "pd.interval_range(0, 3)", "pd.interval_range(0, 3, closed='left')"),
        (
            "pd.period_range('2020', periods=2)",
            "pd.period_range('2020', periods=2)",
            "pd.period_range('2021', periods=2)",
        ),
        ("[pd.Timestamp('2020'), pd.NaT, pd.NA]", "[pd.Timestamp('2020-01-01'), pd.NaT, pd.NA]", "[pd.NaT]"),
        ("pd.RangeIndex(3)", "pd.RangeIndex(0, 3)", "pd.RangeIndex(4)"),
    ],
)
def test_tables_count_by_the_values_in_them(one: str, same: str, other: str) -> None:
    space = Space()
    space.run("import numpy as np, pandas as pd")
    space.run(
        "def mixed(columns):\n    made = pd.DataFrame(index=range(1))\n"
        "    for name in columns: made[name] = columns[name]\n    made.describe(); made.values\n    return made"
    )
    found: list[Any] = [contents_of(eval(source, space.names)) for source in (one, same, other)]
    assert [each.gap for each in found] == [""] * 3
    assert found[0].digest == found[1].digest != found[2].digest


def test_the_state_of_a_lock_is_its_content() -> None:
    lock = threading.Lock()
    before = contents_of(lock)
    with lock:
        assert contents_of(lock).digest != before.digest
    assert contents_of(lock) == before


def test_a_thread_uses_what_its_target_names() -> None:
    space = Space()
    space.run("import threading\ndef work(): return other\nthread = threading.Thread(target=work)")
    assert "other" in contents_of(space.names["thread"]).uses


def test_a_walk_leaves_nothing_behind_that_looks_like_a_change() -> None:
    space = Space()
    space.run(CLASSES)
    for source in (
        "Box(a=[1], b={2: [3]})",
        "deque([[1]])",
        "np.random.default_rng(1)",
        "Own(a=[1])",
        "{1: [2]}.items()",
    ):
        value = eval(source, space.names)
        assert contents_of(value) == contents_of(value), source


@pytest.mark.slow
@pytest.mark.parametrize("depth", [10, 100_000])
def test_depth_is_no_limit(depth: int) -> None:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    assert contents_of(nested).gap == ("" if depth < 99_999 else "the value is too large to compare")


@pytest.mark.parametrize(
    ("source", "then"),
    [
        ("written(3)", "ec0e385b8634391faace89726178414f"),
        ("ended('a')", "b4ed0c43b565acfc9c082aa266775e87"),
        ("found('a.py')", "111c28803e6279a3217caaf01e9ebdda"),
        ("matched('a')", "0671b00a3f9792feab5443b8e00eeb6c"),
        ("[value_of, RenderedView, InvalidRequestError]", "d544786d24502b61adbe52d88b25683e"),
        ("InvalidRequestError('x')", "c62bad89a9de19b7fee9ea11d3679fdd"),
    ],
)
def test_values_of_our_classes_have_the_digests_that_sessions_have(source: str, then: str) -> None:
    """Recorded when the modules had other names; a load of an old session would call each of them another value."""
    assert digest(source) == then
