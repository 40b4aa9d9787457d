"""What the builtin containers and buffers consist of, and the classes derived from them.

Those are read through the builtin's own methods, because a class may have replaced them. Registered in `forms`.
"""

from __future__ import annotations

import gc
from array import array
from collections import OrderedDict, defaultdict
from typing import Any, Final, cast

from .instances import state_of
from .kinds import name_of, note_class
from .walk import Form, Walk


def atom(walk: Walk, value: Any) -> None:
    if type(value) in (str, bytes):
        walk.emit("a", len(value))
    walk.items("a", (value,))


def sequence(walk: Walk, value: list[object]) -> None:
    walk.number(value)
    walk.items("l", value)


def unchanging(walk: Walk, value: tuple[object, ...]) -> None:
    walk.items("t", value)


def mapping(walk: Walk, value: dict[object, object]) -> None:
    walk.number(value)
    walk.mapping("d", value.items(), len(value))


def ordered(walk: Walk, value: OrderedDict[object, object]) -> None:
    walk.number(value)
    walk.mapping("D", _ORDERED.items(value), len(value), ordered=True)


def mutable_set(walk: Walk, value: set[object]) -> None:
    walk.number(value)
    walk.unordered("s", value)


def unchanging_set(walk: Walk, value: frozenset[object]) -> None:
    walk.unordered("z", value)


def buffer(walk: Walk, value: bytearray | array[Any]) -> None:
    walk.number(value)
    view = memoryview(value)
    walk.emit("b", type(value).__name__, view.format, view.nbytes)
    walk.emit_buffer(value, view.cast("B"))


def view_of_buffer(walk: Walk, value: memoryview[Any]) -> None:
    walk.number(value)
    walk.emit("m", value.format, value.shape, value.strides, value.readonly)
    walk.emit_buffer(value, value.cast("B") if value.contiguous else memoryview(value.tobytes()))
    walk.push(value.obj)


def view_of_dict(walk: Walk, value: object) -> None:
    walk.emit("v", type(value).__name__)
    walk.push(*gc.get_referents(value)[:1])


def span(walk: Walk, value: slice) -> None:
    walk.emit("S")
    walk.push(value.start, value.stop, value.step)


def by_text(walk: Walk, value: object) -> None:
    """What its repr says in full."""
    walk.emit("x", type(value).__name__, repr(value))


def subclass_form(kind: type) -> Form | None:
    """For a class derived from a builtin: what the builtin holds, and the attributes."""
    for base, content in _BUILTIN:
        if issubclass(kind, base):
            return _with_attributes(content, mutable=base not in _UNCHANGING)
    return None


def _with_attributes(content: Form, *, mutable: bool) -> Form:
    def form(walk: Walk, value: Any) -> None:
        kind = cast("type[object]", type(value))
        note_class(walk, kind)
        state = state_of(walk, value)
        if mutable or state:
            walk.number(value)
        walk.emit("o", name_of(kind))
        walk.mapping("o", state.items(), len(state))
        content(walk, value)

    return form


def _derived_dict(walk: Walk, value: dict[object, object]) -> None:
    walk.mapping("d", _DICT.items(value), _DICT.__len__(value))
    if isinstance(value, defaultdict):
        walk.push(value.default_factory)


def _derived_ordered(walk: Walk, value: OrderedDict[object, object]) -> None:
    walk.mapping("D", _ORDERED.items(value), _DICT.__len__(value), ordered=True)


def _members(base: Any, value: object) -> list[object]:
    return list(base.__iter__(value))


# Any, because what the user's classes hold is of any type.
_LIST: Final[Any] = list
_TUPLE: Final[Any] = tuple
_DICT: Final[Any] = dict
_ORDERED: Final[Any] = OrderedDict
_ARGUMENTS: Final = cast(Any, BaseException).args
_UNCHANGING: Final = frozenset((tuple, frozenset, str, bytes, int, float, complex))
_BUILTIN: Final[tuple[tuple[type, Form], ...]] = (
    (list, lambda walk, value: walk.items("l", _LIST.__getitem__(value, slice(None)))),
    (tuple, lambda walk, value: walk.items("t", _TUPLE.__getitem__(value, slice(None)))),
    (OrderedDict, _derived_ordered),
    (dict, _derived_dict),
    (set, lambda walk, value: walk.unordered("s", _members(set, value))),
    (frozenset, lambda walk, value: walk.unordered("z", _members(frozenset, value))),
    (bytearray, lambda walk, value: walk.emit_buffer(value, memoryview(value))),
    (str, lambda walk, value: atom(walk, str.__str__(value))),
    (bytes, lambda walk, value: atom(walk, bytes.__getitem__(value, slice(None)))),
    (int, lambda walk, value: atom(walk, int.__int__(value))),
    (float, lambda walk, value: atom(walk, float.__float__(value))),
    (complex, lambda walk, value: atom(walk, complex.__complex__(value))),
    (BaseException, lambda walk, value: walk.push(_ARGUMENTS.__get__(value))),
)
