"""How instances of classes, arrays and tables are digested, and facts about types.

Instances consist of their attributes, or of the parts that their library pickles. User classes and functions are those
of `__main__`. Arrays of numpy are digested by their bytes, tables of pandas by the values of each column; their layout
in memory and their caches do not count. Neither library is imported here: only values of their types lead to them. Used
by `forms`.
"""

from __future__ import annotations

import copyreg
import enum
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import lru_cache
from itertools import chain
from types import FunctionType, MemberDescriptorType
from typing import Any, Final, Literal, cast
from weakref import ref

from msgspec import Struct

from ....files.node import NodeBase
from ..former_names import recorded
from .walk import BUFFER, TOO_LARGE, Form, Walk, behind

USERS: Final = "__main__"
_HEAP: Final = 1 << 9
_POINTER: Final = 8
_PICKLING: Final = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")
_REDUCED: Final = 8 << 20
"""The largest object, in bytes by `_size`, that is pickled for its digest, because pickling copies it."""
_CONTAINERS: Final = frozenset((list, tuple, dict, set, bytearray))


def name_of(kind: type) -> str:
    """Module and name."""
    return f"{recorded(kind.__module__, kind.__qualname__)}.{kind.__qualname__}"


def is_users(function: FunctionType) -> bool:
    """Whether a statement defined the function."""
    return function.__globals__.get("__name__") == USERS


def note_class(walk: Walk, kind: type) -> None:
    """Note an instance of `kind`: a statement may run the methods of a user's class."""
    if kind in walk.kinds:
        return
    walk.kinds.add(kind)
    for each in kind.__mro__:
        if each.__module__ == USERS and each not in walk.classes:
            walk.note_class(each)
            for member in vars(each).copy().values():
                function = _function_of(member)
                if function is not None:
                    walk.codes.add(function.__code__)


def _function_of(member: Any) -> FunctionType | None:
    # By exact types, because reading an attribute of a user's object may run its code.
    if type(member) in (staticmethod, classmethod):
        member = member.__func__
    elif type(member) is property:
        member = member.fget
    return member if type(member) is FunctionType else None


def slots_of(kind: type) -> tuple[MemberDescriptorType, ...]:
    """The attributes that instances have outside of `__dict__`."""
    return _slots(ref(kind))


@lru_cache(maxsize=1024)
def _slots(kind: ref[type]) -> tuple[MemberDescriptorType, ...]:
    found = kind()
    return tuple(
        member
        for base in (found.__mro__ if found else ())
        if base.__flags__ & _HEAP and "__slots__" in vars(base)
        for member in vars(base).values()
        if isinstance(member, MemberDescriptorType)
    )


def is_plain(kind: type) -> bool:
    """Whether instances consist only of attributes, judged by their size."""
    taken = object.__basicsize__ + _POINTER * len(slots_of(kind))
    taken += _POINTER * (kind.__dictoffset__ > 0) + _POINTER * (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= taken


def pickling_of(kind: type) -> Literal["default", "library", "user"]:
    """Whose code pickles instances: Python's default, a library's, or the user's."""
    if kind in copyreg.dispatch_table:
        return "library"
    methods = [getattr(kind, name, None) for name in _PICKLING]
    own = [method for name, method in zip(_PICKLING, methods, strict=True) if method is not getattr(object, name, None)]
    if any(isinstance(method, FunctionType) and is_users(method) for method in own):
        return "user"
    return "library" if own else "default"


# --- instances --------------------------------------------------------------------------------------------------------


def named(walk: Walk, value: Any) -> None:
    """Digest one of our objects by its class; an enumeration member also by its name and value."""
    walk.emit("N", name_of(cast("type[object]", type(value))))
    if isinstance(value, enum.Enum):
        note_class(walk, type(value))
        walk.push(value._name_, value._value_)


def own_form(kind: type[Any]) -> Form | None:
    """The form of one of our classes of plain data, such as a tool's result: the fields that are compared."""
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
    """Digest the attributes, and leave a gap, because only the user's code knows the rest."""
    attributes(walk, value)
    walk.leave_gap(value)


def thread(walk: Walk, value: threading.Thread) -> None:
    """Digest a thread's public attributes. The others depend on its progress: it drops its target at its end."""
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
    """The attributes of the instance, including slots."""
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
    """Digest an object that never changes, so its identity does not matter."""
    reduced = _reduction(value)
    walk.keep(reduced)
    walk.emit("q", name_of(cast("type[object]", type(value))))
    walk.push(reduced[1:] if isinstance(reduced, tuple) else reduced)


def reduced(walk: Walk, value: Any) -> None:
    """Digest the object's pickled form. Objects that pickling makes are not parts of the value."""
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
    """The containers in a reduced form that were made by the reduction."""
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
    """The size that the object reports; 0 for user classes, because asking them may run their code."""
    if any(each.__module__ == USERS for each in type(value).__mro__):
        return 0
    named = getattr(value, "nbytes", 0)
    return max(sys.getsizeof(value), named if isinstance(named, int) else 0)


def lock(walk: Walk, value: object) -> None:
    """Digest whether the lock is held."""
    walk.number(value)
    walk.emit("L", repr(value).partition(" at ")[0].partition(" owner=")[0])


def weak(walk: Walk, value: object) -> None:
    """Digest a weak reference, without its object."""
    walk.emit("w", type(value).__name__)


# --- arrays and tables ------------------------------------------------------------------------------------------------


def table_form(kind: type) -> Form | None:
    """The form of a numpy or pandas type, or a subclass."""
    for base in kind.__mro__:
        form = _FORMS.get((base.__module__.partition(".")[0], base.__name__))
        if form is not None:
            return form
    return None


def _array(walk: Walk, value: Any) -> None:
    walk.number(value)
    owner = value
    while getattr(owner, "base", None) is not None and hasattr(owner, "__array_interface__"):
        owner = owner.base
    # Because a write through one view of the memory changes all others.
    if owner is not value:
        walk.shares(owner)
    walk.emit("A", type(value).__name__, value.shape, str(value.dtype))
    if not type(value).__module__.startswith("numpy"):
        walk.push(getattr(value, "__dict__", None))
    if hasattr(value, "mask") and hasattr(value, "filled"):
        mask = value.mask
        walk.keep_as_made([mask])
        walk.push(mask)
    _elements(walk, value)


def _elements(walk: Walk, value: Any) -> None:
    ndarray = sys.modules["numpy"].ndarray
    plain = ndarray.view(value, ndarray)
    if plain.dtype.hasobject:
        listed = plain.ravel().tolist()
        walk.keep(listed)
        walk.items("l", listed)
    elif plain.flags.c_contiguous:
        walk.emit_buffer(value, plain.reshape(-1).view("uint8").data if plain.size else memoryview(b""))
    elif plain.nbytes > BUFFER:
        walk.leave_gap(value, TOO_LARGE)
    else:
        walk.emit_buffer(value, memoryview(plain.tobytes()))


def _scalar(walk: Walk, value: Any) -> None:
    walk.emit("u", str(value.dtype), value.tobytes())


def _dtype(walk: Walk, value: Any) -> None:
    walk.emit("y", str(value))


def _frame(walk: Walk, value: Any) -> None:
    walk.number(value)
    walk.emit("F", type(value).__name__, value.shape)
    columns = [series.array for _, series in value.items()]
    walk.keep_as_made(columns)
    walk.push(value.attrs, value.columns, value.index, *columns)


def _series(walk: Walk, value: Any) -> None:
    walk.number(value)
    walk.emit("E", type(value).__name__)
    array = value.array
    walk.keep_as_made([array])
    walk.push(value.name, value.attrs, value.index, array)


def _index(walk: Walk, value: Any) -> None:
    walk.emit("I", type(value).__name__, str(value.dtype), len(value))
    names = list(value.names)
    if hasattr(value, "levels"):
        arrays = [*value.levels, *value.codes]
    else:
        arrays = [value.array] if type(value).__name__ != "RangeIndex" else [value.start, value.stop, value.step]
    walk.keep_as_made([names, *arrays])
    walk.push(names, *arrays)


def _extension(walk: Walk, value: Any) -> None:
    """Digest a pandas array: its own values if they are plain, else the objects that it represents."""
    walk.emit("X", str(value.dtype), len(value))
    if len(value) * 8 > BUFFER:
        walk.leave_gap(value, TOO_LARGE)
        return
    dtype = value.dtype
    if hasattr(value, "codes"):
        parts = [value.categories, bool(value.ordered), value.codes]
    elif hasattr(value, "asi8"):
        parts = [value.asi8]
    elif hasattr(value, "left") and hasattr(value, "closed"):
        parts = [value.left, value.right, value.closed]
    elif hasattr(dtype, "numpy_dtype") and type(value).__name__ != "NumpyExtensionArray":
        parts = [value.isna(), value.to_numpy(dtype.numpy_dtype, na_value=0)]
    else:
        parts = [value.to_numpy()]
    walk.keep_as_made(parts)
    walk.push(*parts)


def _timestamp(walk: Walk, value: Any) -> None:
    walk.emit("T", type(value).__name__, repr(value))


_FORMS: Final[dict[tuple[str, str], Form]] = {
    ("numpy", "ndarray"): _array,
    ("numpy", "generic"): _scalar,
    ("numpy", "dtype"): _dtype,
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pandas", "Index"): _index,
    ("pandas", "ExtensionArray"): _extension,
    ("pandas", "Timestamp"): _timestamp,
    ("pandas", "Timedelta"): _timestamp,
    ("pandas", "Period"): _timestamp,
    ("pandas", "Interval"): _timestamp,
    ("pandas", "NaTType"): _timestamp,
    ("pandas", "NAType"): _timestamp,
}
