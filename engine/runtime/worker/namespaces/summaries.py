"""Values in a few characters, for namespace diffs: bounded in time and size whatever the value is.

Calls `repr` of user objects, so callers run it under the statement's interrupt flag and time limit; what raises there
becomes part of the summary. Must not know about names. Used by `namespace`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import islice
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, cast

from ....core.execution import TypeInfo
from ....core.text import ELLIPSIS, cut_line, valid_text
from ....files.node import NodeBase

REPR_LIMIT: Final = 80
"""Characters of a short repr."""
_ITEMS: Final = 6
_DEPTH: Final = 3
_TITLE: Final = 32
_INTEGER_BITS: Final = 256
_WHOLE: Final = 1_000
"""Elements of a buffer or another container whose own repr is asked for; it would be made whole, only to be cut."""
_ADDRESS: Final = re.compile(r"\bat 0x[0-9A-Fa-f]+")

ATOMS: Final = frozenset((int, float, complex, bool, str, bytes, type(None), range))
"""Immutable types whose equality is that of their content."""
FIXED: Final = frozenset((*ATOMS, BuiltinFunctionType, ModuleType))
"""Types whose values a statement does not mutate in place."""


def describe(value: object) -> TypeInfo:
    """Type name, repr without addresses, and size: elements of a container, bytes of an array or buffer."""
    return TypeInfo(type_name=type(value).__name__, short_repr=short_repr(value), size=_size(value))


def _size(value: object) -> int | None:
    if type(value) in (str, bytes, bytearray, list, tuple, dict, set, frozenset):
        return len(cast("list[object]", value))
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is getattr(numpy, "ndarray", None):
        return int(cast(Any, value).nbytes)
    return None


def short_repr(value: object) -> str:
    """At most `REPR_LIMIT` characters; a failing repr says so."""
    try:
        text = _bounded(value, _DEPTH)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return cut_line(valid_text(_ADDRESS.sub(f"at 0x{ELLIPSIS}", text)), REPR_LIMIT)


def _bounded(value: object, depth: int) -> str:
    kind = type(value)
    # Not by `isinstance`, which asks the object for its class.
    if NodeBase in kind.__mro__:
        return _node(cast(NodeBase, value))
    if kind is str or kind is bytes:
        text = cast(str, value)
        return repr(text[:REPR_LIMIT]) + (ELLIPSIS if len(text) > REPR_LIMIT else "")
    if kind is int and cast(int, value).bit_length() > _INTEGER_BITS:
        return f"<int of {cast(int, value).bit_length()} bits>"
    if kind in _BRACKETS:
        return _container(cast("Iterable[object]", value), kind, depth)
    if kind is dict:
        return _mapping(cast("dict[object, object]", value), depth)
    if (kind.__module__, kind.__name__) in _ENDLESS and len(cast("list[object]", value)) > _WHOLE:
        return f"<{kind.__name__} of {len(cast('list[object]', value))} elements>"
    shape = getattr(value, "shape", None) if kind.__module__ not in ("builtins", "__main__") else None
    return f"<{kind.__name__} of shape {shape}>" if isinstance(shape, tuple) else repr(value)


_BRACKETS: Final[dict[type, str]] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}


_ENDLESS: Final = frozenset((
    ("builtins", "bytearray"), ("builtins", "dict_keys"), ("builtins", "dict_values"), ("builtins", "dict_items"),
    ("array", "array"), ("collections", "deque"), ("collections", "Counter"), ("collections", "OrderedDict"),
    ("collections", "defaultdict"), ("collections", "ChainMap"), ("collections", "UserDict"),
    ("collections", "UserList"), ("collections", "UserString"), ("builtins", "mappingproxy"),
))  # fmt: skip
"""Module and name, because most of them are not imported: types whose repr is as long as what they hold."""


def _node(node: NodeBase) -> str:
    """What of its state can change. The content shown is the beginning of its digest."""
    shown = str(node.GetDigest().get("revision", ""))[:8]
    title = cut_line(node.title, _TITLE)
    return f"<{node.obj_type} {title} {node.mode} lod={node.lod} tokens={node.tokens!r} {shown}".rstrip() + ">"


def _container(value: Iterable[object], kind: type, depth: int) -> str:
    first, last = _BRACKETS[kind]
    if not depth:
        return f"{first}{ELLIPSIS}{last}"
    items = [_bounded(item, depth - 1) for item in islice(value, _ITEMS)]
    count = len(cast("list[object]", value))
    if kind is set and not count:
        return "set()"
    inner = ", ".join((*items, ELLIPSIS) if count > _ITEMS else items) + ("," if kind is tuple and count == 1 else "")
    return f"frozenset({first}{inner}{last})" if kind is frozenset else f"{first}{inner}{last}"


def _mapping(value: dict[object, object], depth: int) -> str:
    if not depth:
        return f"{{{ELLIPSIS}}}"
    items = [f"{_bounded(k, depth - 1)}: {_bounded(v, depth - 1)}" for k, v in islice(value.items(), _ITEMS)]
    return "{" + ", ".join((*items, ELLIPSIS) if len(value) > _ITEMS else items) + "}"
