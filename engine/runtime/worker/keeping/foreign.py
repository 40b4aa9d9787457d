"""Whether pickling an object calls code of the user's: such an object is never pickled in the worker itself.

`__reduce__` and its kin may hang, act, print, exit or change the namespace. What Python, numpy, pandas and this package
bring is taken for harmless; so is C code, whose methods cannot be told apart. It is a rule of thumb about whose code
runs, not a boundary: what passes for harmless still runs within a limit. Used by `pickler`.
"""

from __future__ import annotations

import copyreg
import sys
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, Final, cast

_HARMLESS: Final = frozenset((*sys.stdlib_module_names, "numpy", "pandas", "cloudpickle", __name__.partition(".")[0]))
"""Top-level modules. `__main__` and the project's own are not among them."""
_ASKED: Final = (
    "__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__", "__getattribute__",
    "__getattr__", "__class__", "__dict__",
)  # fmt: skip
"""What pickling looks up on an object, or on a class where that is a metaclass."""
_ASKED_OF_CONTAINERS: Final = ("__iter__", "items")
_ASKED_OF_METACLASSES: Final = ("__iter__", "__hash__", "__eq__", "__instancecheck__", "__subclasscheck__")
_IN_C: Final = (
    BuiltinFunctionType, ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType,
    MethodWrapperType, WrapperDescriptorType,
)  # fmt: skip
_HEAP_TYPE: Final = 1 << 9
"""Of a type's flags: it was made by Python code, or asked to count as such."""
_MRO: Final = type.__dict__["__mro__"]


class ForeignCode:
    """Answers for the types met in one go; a type may be changed before the next."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[type, bool] = {}

    def runs_for(self, kind: type) -> bool:
        """Whether pickling an object of this type calls code of the user's."""
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = _runs(kind)
        return known


def _runs(kind: type) -> bool:
    if _is_users(copyreg.dispatch_table.get(kind)):
        return True
    mro = cast("tuple[type, ...]", _MRO.__get__(kind))
    # Only built-in containers hand over their elements by iterating.
    contains = any(base is not object and not base.__flags__ & _HEAP_TYPE for base in mro)
    more = _ASKED_OF_METACLASSES if type in mro else _ASKED_OF_CONTAINERS if contains else ()
    return any(_is_users_on(mro, name) for name in (*_ASKED, *more))


def _is_users_on(mro: tuple[type, ...], name: str) -> bool:
    for base in mro:
        members = type.__dict__["__dict__"].__get__(base)
        if name in members:
            # What a library does to its own classes in C, or by decorators, is not taken apart.
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
