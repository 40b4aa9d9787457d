"""How each type of object is digested: a table of types, and the forms of containers, functions and classes.

Classes derived from builtin containers are read with the builtin's own methods, because a class may have replaced them.
Code counts by what it does, not by file or line; the global names that it uses do not count. A function of a library is
identified by its name, unless it has a closure or attributes.

`form_of` finds a type's form: a row of the table, else the first matching rule of `_found`. User classes are not asked
how to pickle an object: that may raise, hang or change it, and the attributes tell more. Library classes are asked,
because they leave out their caches. Used by `walk`.
"""

from __future__ import annotations

import enum
import gc
import threading
from _thread import LockType, RLock
from array import array
from collections import OrderedDict, defaultdict
from functools import lru_cache
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final, cast
from weakref import WeakKeyDictionary, ref

from ....files.node import NodeBase
from ..former_names import recorded
from . import instances
from .instances import USERS, is_plain, is_users, name_of, note_class, pickling_of, state_of, table_form
from .walk import MARSHALLED, Form, Walk

# Any, because the attributes of user classes have any type.
_LIST: Final[Any] = list
_TUPLE: Final[Any] = tuple
_DICT: Final[Any] = dict
_ORDERED: Final[Any] = OrderedDict
_ARGUMENTS: Final = cast(Any, BaseException).args
_UNCHANGING: Final = frozenset((tuple, frozenset, str, bytes, int, float, complex))
OURS: Final = f"{__name__.partition('.')[0]}."
"""Where our own modules are."""
_CLASS_NOISE: Final = frozenset((
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__slotnames__", "__abstractmethods__",
    "_abc_impl", "__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__",
    "_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_", "_unhashable_values_map_",
))  # fmt: skip
"""Attributes of a class that name its origin, are made on demand, or duplicate others."""
_CONSTANT_MODULES: Final = frozenset((
    "datetime", "_datetime", "decimal", "_decimal", "fractions", "uuid", "pathlib", "pathlib._local", "re", "zoneinfo",
    "_zoneinfo", "ipaddress",
))  # fmt: skip
"""Modules whose objects never change."""
_known: WeakKeyDictionary[type, Form] = WeakKeyDictionary()
_EMPTY: Final[dict[Any, Any]] = {}


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
    """Digest the repr, which is complete."""
    walk.emit("x", type(value).__name__, repr(value))


def subclass_form(kind: type) -> Form | None:
    """The form of a subclass of a builtin: the builtin's content, and the attributes."""
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


# --- functions, classes and code --------------------------------------------------------------------------------------


def function(walk: Walk, value: FunctionType) -> None:
    users = is_users(value)
    if not users and value.__closure__ is None and not value.__dict__:
        walk.emit("n", recorded(value.__module__ or "", value.__qualname__), value.__qualname__)
        return
    if not walk.enter(value):
        return
    walk.emit(
        "f", recorded(value.__module__ or "", value.__qualname__), value.__qualname__, code_digest(value.__code__)
    )
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
    # The object of a bound builtin method, like `items.append`.
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
    """The form of an object with parts in these attributes."""

    def form(walk: Walk, value: object) -> None:
        walk.emit("i", type(value).__name__)
        walk.push(*(getattr(value, name) for name in names))

    return form


def suspended(frame_name: str) -> Form:
    """The form of a generator or coroutine: its position and local variables."""

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
    # A copy, because a thread may change the class during the walk.
    members = {name: member for name, member in vars(value).copy().items() if name not in _CLASS_NOISE}
    walk.emit("C", name_of(value), len(value.__bases__))
    walk.mapping("C", members.items(), len(members))
    walk.push(*value.__bases__)


_EXACT: Final[dict[type, Form]] = {
    **dict.fromkeys(MARSHALLED, atom),
    list: sequence,
    tuple: unchanging,
    dict: mapping,
    OrderedDict: ordered,
    set: mutable_set,
    frozenset: unchanging_set,
    bytearray: buffer,
    array: buffer,
    memoryview: view_of_buffer,
    **dict.fromkeys(map(type, (_EMPTY.keys(), _EMPTY.values(), _EMPTY.items())), view_of_dict),
    MappingProxyType: view_of_dict,
    range: by_text,
    type(NotImplemented): by_text,
    slice: span,
    type: class_,
    FunctionType: function,
    CellType: cell,
    MethodType: method,
    BuiltinFunctionType: builtin_function,
    MethodWrapperType: wrapper,
    WrapperDescriptorType: descriptor,
    MethodDescriptorType: descriptor,
    GetSetDescriptorType: descriptor,
    MemberDescriptorType: descriptor,
    ModuleType: module,
    CodeType: code,
    property: inner("fget", "fset", "fdel"),
    staticmethod: inner("__func__"),
    classmethod: inner("__func__"),
    GeneratorType: suspended("gi_frame"),
    CoroutineType: suspended("cr_frame"),
    AsyncGeneratorType: suspended("ag_frame"),
    LockType: instances.lock,
    RLock: instances.lock,
    ref: instances.weak,
}


@lru_cache(maxsize=4096)
def code_digest(value: CodeType) -> bytes:
    """A digest of what the code does."""
    constants = [code_digest(each) if isinstance(each, CodeType) else repr(each) for each in value.co_consts]
    parts = (value.co_code, constants, value.co_names, value.co_varnames, value.co_freevars)
    return repr(parts).encode("utf-8", "replace")


# --- the form of a type -----------------------------------------------------------------------------------------------


def form_of(kind: type) -> Form:
    """The form of a type."""
    form = _EXACT.get(kind) or _known.get(kind)
    if form is None:
        form = _known[kind] = _found(kind)
    return form


def _found(kind: type[Any]) -> Form:
    mro = kind.__mro__
    if type in mro:
        return class_
    if NodeBase in mro:
        return instances.node
    if threading.Thread in mro:
        return instances.thread
    if isinstance(kind, enum.EnumMeta):
        return instances.named
    if kind.__module__.startswith(OURS):
        return instances.own_form(kind) or subclass_form(kind) or instances.named
    return table_form(kind) or subclass_form(kind) or _instance_form(kind)


def _instance_form(kind: type) -> Form:
    if pickling_of(kind) == "library":
        return instances.constant if kind.__module__ in _CONSTANT_MODULES else instances.reduced
    if is_plain(kind):
        return instances.attributes
    return instances.attributes_and_gap if pickling_of(kind) == "user" else instances.reduced
