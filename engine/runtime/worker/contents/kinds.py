"""What can be told of a type: its name, whether it is the user's, where its instances keep what they hold.

`__main__` is where the user's classes and functions are. Called by the forms.
"""

from __future__ import annotations

import copyreg
from functools import lru_cache
from types import FunctionType, MemberDescriptorType
from typing import Any, Final, Literal
from weakref import ref

from ..former_names import recorded
from .walk import Walk

USERS: Final = "__main__"
_HEAP: Final = 1 << 9
_POINTER: Final = 8
_PICKLING: Final = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")


def name_of(kind: type) -> str:
    """Module and name."""
    return f"{recorded(kind.__module__)}.{kind.__qualname__}"


def is_users(function: FunctionType) -> bool:
    """Whether a statement defined it."""
    return function.__globals__.get("__name__") == USERS


def note_class(walk: Walk, kind: type) -> None:
    """An instance of `kind` is in the value: the methods of the user's classes are what a statement may run."""
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
    # By the exact types, because to ask the user's own objects for an attribute may run code of theirs.
    if type(member) in (staticmethod, classmethod):
        member = member.__func__
    elif type(member) is property:
        member = member.fget
    return member if type(member) is FunctionType else None


def slots_of(kind: type) -> tuple[MemberDescriptorType, ...]:
    """The attributes that instances keep outside of their `__dict__`."""
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
    """Whether instances have attributes and nothing else, by the size that those take."""
    taken = object.__basicsize__ + _POINTER * len(slots_of(kind))
    taken += _POINTER * (kind.__dictoffset__ > 0) + _POINTER * (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= taken


def pickling_of(kind: type) -> Literal["default", "library", "user"]:
    """Whose code says how instances are pickled."""
    if kind in copyreg.dispatch_table:
        return "library"
    methods = [getattr(kind, name, None) for name in _PICKLING]
    own = [method for name, method in zip(_PICKLING, methods, strict=True) if method is not getattr(object, name, None)]
    if any(isinstance(method, FunctionType) and is_users(method) for method in own):
        return "user"
    return "library" if own else "default"
