"""Values in a few characters and as digests, for namespace diffs: bounded in time and size whatever the value is.

Calls `repr` and `__reduce__` of user objects, so callers run it under the statement's interrupt flag and time limit;
what raises there becomes part of the summary or an unknown digest. Must not know about names. Used by `namespace`.
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Iterable
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, cast

import xxhash

from ..cutting import ELLIPSIS, cut_line
from ..execution import TypeInfo
from ..text import valid_text

REPR_LIMIT: Final = 80
"""Characters of a short repr."""
PICKLE_LIMIT: Final = 8 << 20
ARRAY_LIMIT: Final = 256 << 20
"""Bytes digested at most; what is larger has an unknown digest."""
_ITEMS: Final = 6
_DEPTH: Final = 3
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
    if _is_array(value):
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


# --- digests ---------------------------------------------------------------------------------------------------------


class _TooLarge(Exception):  # noqa: N818 -- a signal that leaves the pickler, not a failure
    """Raised out of the pickler when the limit is passed."""


class _Sink:
    """A file for the pickler that keeps a digest and no bytes."""

    __slots__ = ("digest", "size")

    def __init__(self) -> None:
        self.digest = xxhash.xxh3_64()
        self.size = 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.size += view.nbytes
        if self.size > PICKLE_LIMIT:
            raise _TooLarge
        self.digest.update(view)
        return view.nbytes


def digest(value: object) -> str | None:
    """xxh3 hex of the content; None, "unknown", where it cannot be told or is too large."""
    try:
        return _digest(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def _digest(value: object) -> str | None:
    if type(value) is FunctionType:
        return _digest_code(value.__code__)
    if isinstance(value, type):
        return None
    if _is_array(value):
        return _digest_array(cast(Any, value))
    sink = _Sink()
    pickle.Pickler(sink, 5).dump(value)
    return sink.digest.hexdigest()


def _digest_code(code: CodeType) -> str:
    state = xxhash.xxh3_64(code.co_code)
    for constant in code.co_consts:
        part = _digest_code(constant) if type(constant) is CodeType else repr(constant)
        state.update(part.encode("utf-8", "replace"))
    state.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode("utf-8", "replace"))
    return state.hexdigest()


def _is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    kind: type | None = getattr(numpy, "ndarray", None)
    return kind is not None and type(value) is kind


def _digest_array(array: Any) -> str | None:
    if array.dtype.hasobject or array.nbytes > ARRAY_LIMIT:
        return None
    contiguous = array if array.flags.c_contiguous else array.copy()
    state = xxhash.xxh3_64(repr((array.shape, str(array.dtype))).encode())
    state.update(contiguous.reshape(-1).view("uint8").data if array.size else b"")
    return state.hexdigest()
