"""What instances of classes consist of: their attributes, or what their library says when it is asked to pickle them.

Registered in `forms`.
"""

from __future__ import annotations

import copyreg
import enum
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from itertools import chain
from types import FunctionType
from typing import Any, Final, cast

from msgspec import Struct

from ....files.node import NodeBase
from .found import TOO_LARGE
from .kinds import USERS, is_users, name_of, note_class, slots_of
from .referents import behind
from .walk import Form, Walk

_REDUCED: Final = 8 << 20
"""Bytes that an object may say it has and still be asked to be pickled, which copies them."""
_CONTAINERS: Final = frozenset((list, tuple, dict, set, bytearray))


def named(walk: Walk, value: Any) -> None:
    """One of ours, or a member of an enumeration: what it is called is what it is."""
    walk.emit("N", name_of(cast("type[object]", type(value))))
    if isinstance(value, enum.Enum):
        note_class(walk, type(value))
        walk.push(value._name_, value._value_)


def own_form(kind: type[Any]) -> Form | None:
    """For a class of ours whose instances are plain data, such as what a tool returns: the fields that are compared."""
    name = name_of(kind)
    if issubclass(kind, Struct):
        fields = kind.__struct_fields__
    elif is_dataclass(kind):
        fields = tuple(each.name for each in dataclass_fields(kind) if each.compare)
    else:
        return None

    def form(walk: Walk, value: Any) -> None:
        walk.number(value)
        walk.emit("O", name)
        walk.push(*(getattr(value, field) for field in fields))

    return form


def node(walk: Walk, value: NodeBase) -> None:
    walk.handles = True
    if walk.enter(value):
        walk.emit("h", value.digest())
        walk.push(*value.children())


def attributes(walk: Walk, value: object) -> None:
    kind = type(value)
    note_class(walk, kind)
    walk.number(value)
    walk.emit("o", name_of(kind))
    state = state_of(walk, value)
    walk.mapping("o", state.items(), len(state))


def attributes_and_gap(walk: Walk, value: object) -> None:
    """There is more to it, but only code of the user's would tell."""
    attributes(walk, value)
    walk.leave_gap(value)


def thread(walk: Walk, value: threading.Thread) -> None:
    """What somebody gave it. Where it stands is a matter of time, and it drops what it runs when it has run."""
    note_class(walk, type(value))
    walk.number(value)
    walk.emit("T", name_of(type(value)), value.name, value.daemon)
    state = state_of(walk, value)
    target = state.get("_target")
    if isinstance(target, FunctionType) and is_users(target):
        walk.codes.add(target.__code__)
    state = {name: held for name, held in state.items() if not name.startswith("_")}
    walk.mapping("o", state.items(), len(state))


def state_of(walk: Walk, value: object) -> dict[str, object]:
    """Attributes of the instance, those in slots too."""
    kind = type(value)
    state: dict[str, object] = {}
    if kind.__dictoffset__:
        state = object.__getattribute__(value, "__dict__")
        walk.shares(state)
    slots = slots_of(kind)
    if not slots:
        return state
    state = dict(state)
    for slot in slots:
        try:
            state[f"{slot.__objclass__.__qualname__}.{slot.__name__}"] = slot.__get__(value)
        except AttributeError:
            continue
    return state


def constant(walk: Walk, value: Any) -> None:
    """Never changes: whether two equal ones are one object says nothing."""
    reduced = _reduction(value)
    walk.keep(reduced)
    walk.emit("q", name_of(cast("type[object]", type(value))))
    walk.push(reduced[1:] if isinstance(reduced, tuple) else reduced)


def reduced(walk: Walk, value: Any) -> None:
    """By what it would be pickled as. What was made for that is no part of the value."""
    if _size(value) > _REDUCED:
        walk.leave_gap(value, TOO_LARGE)
        return
    kind = cast("type[object]", type(value))
    reduction = _reduction(value)
    walk.keep(reduction)
    note_class(walk, kind)
    walk.emit("r", name_of(kind))
    if isinstance(reduction, str):
        walk.number(value)
        walk.emit(getattr(value, "__module__", None), reduction)
        walk.push(getattr(value, "__wrapped__", None))
        return
    walk.number(value)
    function, arguments, *rest = reduction
    state, items, pairs = (*rest[:3], None, None, None)[:3]
    held = [function, *arguments, state, list(items or ()), [list(pair) for pair in pairs or ()]]
    walk.keep_as_made(_made(held, behind(value)))
    walk.push(*held)


def _made(held: list[Any], parts: set[int]) -> Iterator[object]:
    """The containers among what an object was reduced to that it did not hold before."""
    waiting = held
    while waiting:
        made = [each for each in waiting if type(each) in _CONTAINERS and id(each) not in parts]
        yield from made
        waiting = list(chain.from_iterable(map(_inner, made)))


def _inner(made: Any) -> Iterable[Any]:
    if type(made) is bytearray:
        return ()
    return cast("Iterable[Any]", made.values() if isinstance(made, dict) else made)


def _reduction(value: Any) -> str | tuple[Any, ...]:
    registered = copyreg.dispatch_table.get(cast("type[Any]", type(value)))
    return registered(value) if registered else value.__reduce_ex__(4)


def _size(value: Any) -> int:
    """What it says of itself. An object of a class of the user's is not asked: that may run code of theirs."""
    if any(each.__module__ == USERS for each in type(value).__mro__):
        return 0
    named = getattr(value, "nbytes", 0)
    return max(sys.getsizeof(value), named if isinstance(named, int) else 0)


def lock(walk: Walk, value: object) -> None:
    """Whether it is held."""
    walk.number(value)
    walk.emit("L", repr(value).partition(" at ")[0].partition(" owner=")[0])


def weak(walk: Walk, value: object) -> None:
    """A reference that holds nothing."""
    walk.emit("w", type(value).__name__)
