"""Which form an object of a type has: by a row of the table, else by the rules of `_found`, in their order.

Code of the user's classes is not asked how an object would be pickled: that may raise, hang or change the object, and
the attributes tell more. A library is asked, because its classes leave out there what they only cache. Used by `walk`.
"""

from __future__ import annotations

import enum
import threading
from _thread import LockType, RLock
from array import array
from collections import OrderedDict
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
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from ....files.node import NodeBase
from . import containers, functions, instances
from .kinds import is_plain, pickling_of
from .referents import MARSHALLED
from .tables import table_form
from .walk import Form

_CONSTANT_MODULES: Final = frozenset((
    "datetime", "_datetime", "decimal", "_decimal", "fractions", "uuid", "pathlib", "pathlib._local", "re", "zoneinfo",
    "_zoneinfo", "ipaddress",
))  # fmt: skip
"""Modules whose objects never change."""


def form_of(kind: type) -> Form:
    """How an object of this type is walked."""
    form = _EXACT.get(kind) or _known.get(kind)
    if form is None:
        form = _known[kind] = _found(kind)
    return form


_known: WeakKeyDictionary[type, Form] = WeakKeyDictionary()


def _found(kind: type[Any]) -> Form:
    mro = kind.__mro__
    if type in mro:
        return functions.class_
    if NodeBase in mro:
        return instances.node
    if threading.Thread in mro:
        return instances.thread
    if isinstance(kind, enum.EnumMeta):
        return instances.named
    if kind.__module__.startswith(functions.OURS):
        return instances.own_form(kind) or containers.subclass_form(kind) or instances.named
    return table_form(kind) or containers.subclass_form(kind) or _instance_form(kind)


def _instance_form(kind: type) -> Form:
    if pickling_of(kind) == "library":
        return instances.constant if kind.__module__ in _CONSTANT_MODULES else instances.reduced
    if is_plain(kind):
        return instances.attributes
    return instances.attributes_and_gap if pickling_of(kind) == "user" else instances.reduced


_EMPTY: Final[dict[Any, Any]] = {}
_EXACT: Final[dict[type, Form]] = {
    **dict.fromkeys(MARSHALLED, containers.atom),
    list: containers.sequence,
    tuple: containers.unchanging,
    dict: containers.mapping,
    OrderedDict: containers.ordered,
    set: containers.mutable_set,
    frozenset: containers.unchanging_set,
    bytearray: containers.buffer,
    array: containers.buffer,
    memoryview: containers.view_of_buffer,
    **dict.fromkeys(map(type, (_EMPTY.keys(), _EMPTY.values(), _EMPTY.items())), containers.view_of_dict),
    MappingProxyType: containers.view_of_dict,
    range: containers.by_text,
    type(NotImplemented): containers.by_text,
    slice: containers.span,
    type: functions.class_,
    FunctionType: functions.function,
    CellType: functions.cell,
    MethodType: functions.method,
    BuiltinFunctionType: functions.builtin_function,
    MethodWrapperType: functions.wrapper,
    WrapperDescriptorType: functions.descriptor,
    MethodDescriptorType: functions.descriptor,
    GetSetDescriptorType: functions.descriptor,
    MemberDescriptorType: functions.descriptor,
    ModuleType: functions.module,
    CodeType: functions.code,
    property: functions.inner("fget", "fset", "fdel"),
    staticmethod: functions.inner("__func__"),
    classmethod: functions.inner("__func__"),
    GeneratorType: functions.suspended("gi_frame"),
    CoroutineType: functions.suspended("cr_frame"),
    AsyncGeneratorType: functions.suspended("ag_frame"),
    LockType: instances.lock,
    RLock: instances.lock,
    ref: instances.weak,
}
