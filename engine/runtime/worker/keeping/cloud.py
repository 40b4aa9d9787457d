"""What this package uses of cloudpickle, its inner parts included: the one place that a new version of it may break.

A class of a statement is known by a mark, which is in the pickles of it and of its instances. cloudpickle finds classes
by their marks wherever they are in the process; here they are found by namespace, so only the marks are shared. A class
that a rebuild has made anew has another mark than it had in the process before, and one that says so.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from enum import Enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, cast
from uuid import uuid4

from cloudpickle import cloudpickle

_LIBRARY: Final[Any] = cloudpickle

CloudPickler: Final[type[pickle.Pickler]] = _LIBRARY.Pickler
REDUCERS: Final[tuple[Mapping[type, Callable[[Any], Any]], ...]] = tuple(_LIBRARY.Pickler.dispatch_table.maps)
"""By type, its own and those that are registered with `copyreg`, which change."""
BUILTIN_TYPES: Final = cast(
    "tuple[type, ...]", (*map(type, (None, ..., NotImplemented)), *_LIBRARY._BUILTIN_TYPE_NAMES)
)
"""Types that can be had from `types` or by `type()` alone."""

FILLS_CLASS: Final = (_LIBRARY.__name__, _LIBRARY._class_setstate.__name__)
"""What pickles call by these names is `fill_class` here."""
_AGAIN: Final = "again-"
_OF_SLOTS: Final = (GetSetDescriptorType, MemberDescriptorType)


def is_imported(value: object) -> bool:
    """Whether a function or class is found in a module other than `__main__`; its reducers act by the same answer."""
    return bool(_LIBRARY._should_pickle_by_reference(value))


def reduced(pickler: pickle.Pickler, value: object) -> Any:
    """What cloudpickle makes of a function or class."""
    return _LIBRARY.Pickler.reducer_override(pickler, value)


def function_state(function: FunctionType) -> tuple[dict[str, object], dict[str, object]]:
    """What is set on a function after it was made: its attributes, and the rest."""
    return _LIBRARY._function_getstate(function)


def completed(kind: type, arguments: tuple[Any, ...], state: Any) -> tuple[tuple[Any, ...], Any]:
    """The arguments of a class's constructor and its state, with what cloudpickle leaves out of them."""
    members = vars(kind)
    if issubclass(kind, Enum):
        return arguments, state
    if "__slots__" in members and not (issubclass(kind, tuple) and "__orig_bases__" in members):
        # A class gets its slots when it is made, or never; a NamedTuple makes its own.
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
    """The mark among the arguments of a class's constructor, and these without it."""
    # In those of classes and of enums alike it is the last but one; without it nothing is looked up.
    *others, mark, extra = arguments
    return mark, (*others, None, extra)


def bases_of(make: object, arguments: tuple[Any, ...]) -> tuple[type, ...]:
    """The base classes among the arguments of a class's constructor."""
    return arguments[0 if make is _LIBRARY._make_skeleton_enum else 2]


def fill_class(kind: Any, state: tuple[dict[str, object], Any]) -> object:
    """Gives a class what its copy has. One that lives already, and was filled by another run, loses the rest."""
    members = dict(cast("Mapping[str, object]", vars(kind)))
    for name, value in members.items() if Enum not in kind.__mro__ else ():
        is_own = name[:2] != "__" and name[:5] != "_abc_" and type(value) not in _OF_SLOTS
        if is_own and name not in state[0]:
            type.__delattr__(kind, name)
    return _LIBRARY._class_setstate(kind, state)


def mark_again(kind: Any) -> None:
    """Gives a class that a rebuild has made a mark which says so, if it has none: those of its copies from before are
    not known here."""
    marks = _LIBRARY._DYNAMIC_CLASS_TRACKER_BY_CLASS
    # Another metaclass may have code of the statements' for being looked up.
    if type(kind).__hash__ is type.__hash__ and type(kind).__eq__ is type.__eq__ and kind not in marks:
        marks[kind] = _AGAIN + uuid4().hex


def is_again(mark: str) -> bool:
    """Whether a class with this mark was made by a rebuild, so that an earlier mark may be of the same."""
    return mark.startswith(_AGAIN)


def put_mark(kind: Any, mark: str) -> None:
    """Has the class written with that mark from now on."""
    _LIBRARY._DYNAMIC_CLASS_TRACKER_BY_CLASS[kind] = mark
