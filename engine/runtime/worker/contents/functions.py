"""What functions, classes and what runs code consist of. Registered in `forms`.

Code counts by what it does, not by its file or line; the global names that it uses are no part of it. A function of a
library's is what it is called, unless it holds something: a closure, or attributes of its own.
"""

from __future__ import annotations

from functools import lru_cache
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, Final

from ....files.node import NodeBase
from ..former_names import recorded
from .kinds import USERS, is_users, name_of
from .walk import Form, Walk

OURS: Final = f"{__name__.partition('.')[0]}."
"""Where our own modules are."""
_CLASS_NOISE: Final = frozenset((
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__slotnames__", "__abstractmethods__",
    "_abc_impl", "__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__",
    "_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_", "_unhashable_values_map_",
))  # fmt: skip
"""Attributes of a class that say where it is from, are made on demand, or are there under another name too."""


def function(walk: Walk, value: FunctionType) -> None:
    users = is_users(value)
    if not users and value.__closure__ is None and not value.__dict__:
        walk.emit("n", recorded(value.__module__ or ""), value.__qualname__)
        return
    if not walk.enter(value):
        return
    walk.emit("f", recorded(value.__module__ or ""), value.__qualname__, code_digest(value.__code__))
    if users:
        walk.codes.add(value.__code__)
    cells, defaults = value.__closure__ or (), value.__defaults__ or ()
    keywords, attributes = value.__kwdefaults__ or {}, value.__dict__
    walk.emit(len(cells), len(defaults), sorted(keywords), sorted(attributes))
    walk.push(*cells, *defaults, *(keywords[name] for name in sorted(keywords)))
    walk.push(*(attributes[name] for name in sorted(attributes)))


def cell(walk: Walk, value: CellType) -> None:
    walk.number(value)
    try:
        content = value.cell_contents
    except ValueError:
        walk.emit("e")
        return
    walk.emit("c")
    walk.push(content)


def method(walk: Walk, value: MethodType) -> None:
    own = (value.__func__.__module__ or "").startswith(OURS) and NodeBase not in type(value.__self__).__mro__
    walk.emit("M", value.__func__.__qualname__ if own else None)
    if not own:
        walk.push(value.__func__, value.__self__)


def builtin_function(walk: Walk, value: BuiltinFunctionType) -> None:
    walk.emit("n", value.__module__, value.__qualname__)
    # A bound method of a builtin type, like `items.append`, has its object there.
    holder: object = value.__self__
    if holder is not None and ModuleType not in type(holder).__mro__:
        walk.push(holder)


def wrapper(walk: Walk, value: MethodWrapperType) -> None:
    walk.emit("n", value.__qualname__)
    walk.push(value.__self__)


def descriptor(walk: Walk, value: Any) -> None:
    walk.emit("n", value.__qualname__)


def module(walk: Walk, value: ModuleType) -> None:
    walk.emit("n", value.__name__)


def code(walk: Walk, value: CodeType) -> None:
    walk.emit("k", code_digest(value))


def inner(*names: str) -> Form:
    """For what holds functions, or other things, under these names."""

    def form(walk: Walk, value: object) -> None:
        walk.emit("i", type(value).__name__)
        walk.push(*(getattr(value, name) for name in names))

    return form


def suspended(frame_name: str) -> Form:
    """For a generator or coroutine: where it stands, and its local names."""

    def form(walk: Walk, value: Any) -> None:
        walk.number(value)
        frame = getattr(value, frame_name)
        if frame is None:
            walk.emit("g", value.__qualname__)
            return
        walk.emit("G", value.__qualname__, code_digest(frame.f_code), frame.f_lasti)
        if frame.f_globals.get("__name__") == USERS:
            walk.codes.add(frame.f_code)
        names = dict(frame.f_locals)
        walk.mapping("g", names.items(), len(names))

    return form


def class_(walk: Walk, value: type) -> None:
    if value.__module__ != USERS:
        walk.emit("n", name_of(value))
        return
    if not walk.enter(value):
        return
    # A copy, because a thread may change the class meanwhile.
    members = {name: member for name, member in vars(value).copy().items() if name not in _CLASS_NOISE}
    walk.emit("C", name_of(value), len(value.__bases__))
    walk.mapping("C", members.items(), len(members))
    walk.push(*value.__bases__)


@lru_cache(maxsize=4096)
def code_digest(value: CodeType) -> bytes:
    """What the code does, as bytes."""
    constants = [code_digest(each) if isinstance(each, CodeType) else repr(each) for each in value.co_consts]
    parts = (value.co_code, constants, value.co_names, value.co_varnames, value.co_freevars)
    return repr(parts).encode("utf-8", "replace")
