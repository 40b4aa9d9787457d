"""How pickles of kept values identify their contents: classes by marks, bound objects by name, and a header.

This is the only module that uses inner parts of cloudpickle, which a new version may break. A statement's class has a
mark, which is in the pickles of it and of its instances. cloudpickle finds classes by mark in the whole process. Here
they are found in the namespace, so only the marks are shared. A class that a rebuild made has another mark than before,
one that says so.

Functions and classes that the namespace binds are pickled by name in values of other names. So a loaded instance has
the class of the namespace, and `isinstance` works for old and new ones. If a class is loaded by value and has the same
definition (`fingerprint`), the living class is filled in place, and old instances stay its instances.

`ForeignCode` tells whether pickling would call user code, because that may hang, act, print, exit or change the
namespace. Code of Python, numpy, pandas and this package counts as harmless, and so does C code, whose methods cannot
be distinguished. That is a rule of thumb, not a boundary: harmless code also runs within limits.

The header has a mark, the version of Python, and whether the pickle has code. Other versions of Python can read a
pickle without code only. Used by `pickler` and `keeper`.
"""

from __future__ import annotations

import copyreg
import pickle
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, Final, cast
from uuid import uuid4

import xxhash
from cloudpickle import cloudpickle

from .reasons import NotThereError

_LIBRARY: Final[Any] = cloudpickle
CloudPickler: Final[type[pickle.Pickler]] = _LIBRARY.Pickler
REDUCERS: Final[tuple[Mapping[type, Callable[[Any], Any]], ...]] = tuple(_LIBRARY.Pickler.dispatch_table.maps)
"""Reducers by type: cloudpickle's own, and those of `copyreg`, which may change."""
BUILTIN_TYPES: Final = cast(
    "tuple[type, ...]", (*map(type, (None, ..., NotImplemented)), *_LIBRARY._BUILTIN_TYPE_NAMES)
)
"""Types that are found only in `types`, or by `type()`."""
FILLS_CLASS: Final = (_LIBRARY.__name__, _LIBRARY._class_setstate.__name__)
"""Names in pickles that mean `fill_class` here."""
_AGAIN: Final = "again-"
_OF_SLOTS: Final = (GetSetDescriptorType, MemberDescriptorType)
_MISSING: Final = object()
Path = tuple[str, ...]
_HARMLESS: Final = frozenset((*sys.stdlib_module_names, "numpy", "pandas", "cloudpickle", __name__.partition(".")[0]))
"""Top-level modules whose code is harmless, without `__main__` and the project's own."""
_ASKED: Final = (
    "__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__", "__getattribute__",
    "__getattr__", "__class__", "__dict__",
)  # fmt: skip
"""The attributes that pickling looks up on an object, or on a class with a metaclass."""
_ASKED_OF_CONTAINERS: Final = ("__iter__", "items")
_ASKED_OF_METACLASSES: Final = ("__iter__", "__hash__", "__eq__", "__instancecheck__", "__subclasscheck__")
_IN_C: Final = (
    BuiltinFunctionType, ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType,
    MethodWrapperType, WrapperDescriptorType,
)  # fmt: skip
_HEAP_TYPE: Final = 1 << 9
"""The type flag of classes that Python code made, or that count as such."""
_MRO: Final = type.__dict__["__mro__"]
_MARK: Final = b"RWV\x01"
"""The last byte is the number of the format."""
SIZE: Final = len(_MARK) + 3


def is_imported(value: object) -> bool:
    """Whether a function or class is found in a module other than `__main__`, as cloudpickle's reducers decide it."""
    return bool(_LIBRARY._should_pickle_by_reference(value))


def reduced(pickler: pickle.Pickler, value: object) -> Any:
    """cloudpickle's reduction of a function or class."""
    return _LIBRARY.Pickler.reducer_override(pickler, value)


def function_state(function: FunctionType) -> tuple[dict[str, object], dict[str, object]]:
    """The state that is set on a new function: its attributes, and the rest."""
    return _LIBRARY._function_getstate(function)


def completed(kind: type, arguments: tuple[Any, ...], state: Any) -> tuple[tuple[Any, ...], Any]:
    """The arguments of a class's constructor, and its state, completed by the parts that cloudpickle leaves out."""
    members = vars(kind)
    if issubclass(kind, Enum):
        return arguments, state
    if "__slots__" in members and not (issubclass(kind, tuple) and "__orig_bases__" in members):
        # Slots must be set when a class is made; a NamedTuple makes its own.
        maker, name, bases, keywords, *rest = arguments
        arguments = (maker, name, bases, {**keywords, "__slots__": members["__slots__"]}, *rest)
    attributes, others = state
    inherited = {name: value for base in reversed(kind.__mro__[1:]) for name, value in vars(base).items()}
    own = {
        name: value
        for name, value in members.items()
        if name[:2] != "__" and name[:5] != "_abc_" and name not in attributes and inherited.get(name, kind) is value
    }
    return arguments, ({**attributes, **own}, others)


def mark_of(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The mark among the arguments of a class's constructor, and the arguments with None in its place."""
    # For classes and enums, it is the last argument but one. Without it nothing is looked up.
    *others, mark, extra = arguments
    return mark, (*others, None, extra)


def bases_of(make: object, arguments: tuple[Any, ...]) -> tuple[type, ...]:
    """The base classes among the arguments of a class's constructor."""
    return arguments[0 if make is _LIBRARY._make_skeleton_enum else 2]


def fill_class(kind: Any, state: tuple[dict[str, object], Any]) -> object:
    """Give a class the state of its copy. A living enumeration of another run loses attributes that the copy lacks."""
    members = dict(cast("Mapping[str, object]", vars(kind)))
    for name, value in members.items() if Enum not in kind.__mro__ else ():
        is_own = name[:2] != "__" and name[:5] != "_abc_" and type(value) not in _OF_SLOTS
        if is_own and name not in state[0]:
            type.__delattr__(kind, name)
    return _LIBRARY._class_setstate(kind, state)


def mark_again(kind: Any) -> None:
    """Give a class that a rebuild made a mark that says so, unless it has one, because the marks in earlier copies are
    unknown here."""
    marks = _LIBRARY._DYNAMIC_CLASS_TRACKER_BY_CLASS
    # Because a lookup with another metaclass may run user code.
    if type(kind).__hash__ is type.__hash__ and type(kind).__eq__ is type.__eq__ and kind not in marks:
        marks[kind] = _AGAIN + uuid4().hex


def is_again(mark: str) -> bool:
    """Whether a rebuild made the class with this mark, so an earlier mark may denote the same class."""
    return mark.startswith(_AGAIN)


def put_mark(kind: Any, mark: str) -> None:
    """Pickle the class with that mark from now on."""
    _LIBRARY._DYNAMIC_CLASS_TRACKER_BY_CLASS[kind] = mark


# --- functions and classes by name ------------------------------------------------------------------------------------


class BoundNames:
    """The names under which the namespace binds functions and classes, at the time of one pass over it."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._found: dict[int, str] | None = None

    def path_of(self, value: Any) -> Path | None:
        """The path to `value`, a function or class; its own name is preferred."""
        path = tuple(cast(str, value.__qualname__).split("."))
        if found_at(self._namespace, path) is value:
            return path
        if self._found is None:
            # A copy, because the user's threads may bind names meanwhile. The first of several names is used.
            items = tuple(dict(self._namespace).items())
            self._found = {id(bound): name for name, bound in reversed(items) if is_named(bound)}
        name = self._found.get(id(value))
        return None if name is None else (name,)


def is_named(value: object) -> bool:
    """Whether it is a function or class, which copies of other values contain by name."""
    return type(value) is FunctionType or issubclass(type(value), type)


def found_at(namespace: Mapping[str, object], path: Path) -> object:
    """The object at a path: a name, then attributes of classes, looked up without calling code; None if missing."""
    found = namespace.get(path[0], _MISSING)
    for name in path[1:]:
        if not issubclass(type(found), type):
            return None
        found = type.__dict__["__dict__"].__get__(found).get(name, _MISSING)
    return None if found is _MISSING else found


def fingerprint(kind: type) -> str:
    """The xxh3 hex of a class's definition: its name, the names of its bases, the code of its functions."""
    state = xxhash.xxh3_64(repr((kind.__qualname__, [base.__qualname__ for base in kind.__bases__])).encode())
    for name, member in sorted(vars(kind).items()):
        if type(member) is FunctionType:
            state.update(name.encode("utf-8", "replace"))
            _add_code(state, member.__code__)
    return state.hexdigest()


def _add_code(state: Any, code: CodeType) -> None:
    state.update(code.co_code)
    state.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode("utf-8", "replace"))
    for constant in code.co_consts:
        if type(constant) is CodeType:
            _add_code(state, constant)
        elif not isinstance(constant, frozenset):
            # Because the order of a set differs between processes.
            state.update(repr(constant).encode("utf-8", "replace"))


# --- user code in pickling --------------------------------------------------------------------------------------------


class ForeignCode:
    """Answers for the types of one pass, because a type may change before the next."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[type, bool] = {}

    def runs_for(self, kind: type) -> bool:
        """Whether pickling an object of this type calls user code."""
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = _runs(kind)
        return known


def _runs(kind: type) -> bool:
    if _is_users(copyreg.dispatch_table.get(kind)):
        return True
    mro = cast("tuple[type, ...]", _MRO.__get__(kind))
    # Because only built-in containers pass their elements by iteration.
    contains = any(base is not object and not base.__flags__ & _HEAP_TYPE for base in mro)
    more = _ASKED_OF_METACLASSES if type in mro else _ASKED_OF_CONTAINERS if contains else ()
    return any(_is_users_on(mro, name) for name in (*_ASKED, *more))


def _is_users_on(mro: tuple[type, ...], name: str) -> bool:
    for base in mro:
        members = type.__dict__["__dict__"].__get__(base)
        if name in members:
            # Changes of a library's own classes, in C or by decorators, are not analysed.
            return not _is_harmless(members.get("__module__")) and _is_users(members[name])
    return False


def _is_harmless(module: object) -> bool:
    return type(module) is str and module.partition(".")[0] in _HARMLESS


def _is_users(member: Any) -> bool:
    kind = cast("type[object]", type(member))
    if member is None or kind in _IN_C:
        return False
    if kind is FunctionType:
        return not _is_harmless(member.__module__)
    if kind in (classmethod, staticmethod):
        return _is_users(member.__func__)
    return True


# --- the header of a pickle -------------------------------------------------------------------------------------------


def header(*, has_code: bool) -> bytes:
    """The SIZE bytes before a pickle of this Python."""
    return _MARK + bytes((*sys.version_info[:2], has_code))


def pickle_of(data: bytes) -> memoryview:
    """The pickle after the header.

    Raises:
        NotThereError: this Python cannot read it.
    """
    if data[: len(_MARK)] != _MARK or len(data) <= SIZE:
        raise NotThereError("the copy is damaged, or made by another version of Rewindow")
    *version, has_code = data[len(_MARK) : SIZE]
    if has_code and version != [*sys.version_info[:2]]:
        theirs, ours = (".".join(map(str, each)) for each in (version, sys.version_info[:2]))
        raise NotThereError(f"the copy contains code of Python {theirs}, which Python {ours} cannot run")
    return memoryview(data)[SIZE:]
