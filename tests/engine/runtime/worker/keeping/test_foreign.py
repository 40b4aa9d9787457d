"""Whose code runs when an object is pickled."""

from __future__ import annotations

import collections
import copyreg
import datetime
import decimal
import enum
import pathlib
import re
import threading
from typing import Any

import pytest

from engine.runtime.worker.keeping.naming import ForeignCode
from tests.support.keeping import namespace

HARMLESS: tuple[Any, ...] = (
    datetime.datetime(2026, 1, 1),
    decimal.Decimal(1),
    pathlib.Path("a"),
    re.compile("a"),
    collections.Counter("aab"),
    collections.OrderedDict(a=1),
    collections.deque([1]),
    enum.Flag("Bits", "A B"),
    ValueError("a"),
    threading.Lock(),
    int,
    len,
)
OURS = """
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
class Plain: pass
class Slots: __slots__ = ("a",)
class Iterable:
    def __iter__(self): return iter(())
@dataclass(frozen=True, slots=True)
class Frozen:
    a: int = 0
class Colour(Enum): RED = 1
class Pair(NamedTuple):
    a: int = 0
class Wrong(ValueError): pass
class Names(dict): pass
values = [Plain(), Slots(), Iterable(), Frozen(), Colour.RED, Pair(), Wrong(), Names(), Plain, Colour]
"""
THEIRS = (
    "def __reduce__(self): ...",
    "def __reduce_ex__(self, protocol): ...",
    "def __getstate__(self): ...",
    "def __getnewargs__(self): ...",
    "def __getnewargs_ex__(self): ...",
    "def __getattr__(self, name): raise AttributeError",
    "def __getattribute__(self, name): return object.__getattribute__(self, name)",
    "__class__ = property(lambda self: int)",
    "__getstate__ = staticmethod(lambda: {})",
)


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: type(value).__name__)
def test_what_python_brings_runs_no_code_of_the_users(value: object) -> None:
    assert not ForeignCode().runs_for(type(value))


def test_plain_classes_of_statements_run_none_either() -> None:
    found = {type(value).__name__: ForeignCode().runs_for(type(value)) for value in namespace(OURS)["values"]}
    assert not any(found.values()), found


@pytest.mark.parametrize("member", THEIRS)
@pytest.mark.parametrize("base", ["object", "list", "Base"])
def test_a_class_that_says_how_it_is_pickled_runs_its_own(member: str, base: str) -> None:
    names = namespace(f"class Base:\n    {member}\nclass C({base}):\n    {member if base != 'Base' else 'pass'}")
    assert ForeignCode().runs_for(names["C"])


@pytest.mark.parametrize("base", ["list", "dict", "set"])
def test_a_container_that_says_what_it_iterates_over_runs_its_own(base: str) -> None:
    names = namespace(f"class C({base}):\n    def __iter__(self): return iter(())\n    def items(self): return ()")
    assert ForeignCode().runs_for(names["C"])


def test_a_reduction_that_was_registered_and_a_metaclass_run_their_own() -> None:
    names = namespace("class M(type):\n    def __hash__(self): return 1\nclass C: pass")
    assert ForeignCode().runs_for(names["M"])
    copyreg.pickle(names["C"], lambda value: (names["C"], ()))
    try:
        assert ForeignCode().runs_for(names["C"])
    finally:
        del copyreg.dispatch_table[names["C"]]
