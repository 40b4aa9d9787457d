"""The one place where values are made fit for the outside: valid Unicode, 64-bit integers, finite floats.

Encoders refuse lone surrogates and larger integers and turn NaN into null; user code produces all three. Called by
`framing` for whatever it could not encode, by `effects` for arguments, and by `summaries`. Must not know what the
values mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1
_DECIMAL_BITS: Final = 4096
_DEPTH: Final = 64

T = TypeVar("T")


def sanitize_text(text: str) -> str:
    """The text with every lone surrogate replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text)
    return text


def sanitize(value: T) -> T:
    """A copy with clean texts and numbers, of the same shape.

    Integers beyond 64 bit become `"int:<digits>"`, non-finite floats `"float:nan"`, `"float:inf"` or `"float:-inf"`.
    Accepts plain data and msgspec structures.

    Raises:
        TypeError: something in it is none of these, or it is nested more than 64 deep.
    """
    return cast(T, _sanitize(value, 0))


def _sanitize(value: object, depth: int) -> object:
    if depth > _DEPTH:
        raise TypeError(f"plain data is at most {_DEPTH} levels deep")
    match value:
        case None | bool() | bytes():
            return value
        case str():
            return sanitize_text(str(value))
        case int():
            return value if _SMALLEST <= value <= _LARGEST else _big(value)
        case float():
            return value if math.isfinite(value) else f"float:{float(value)}"
        case _:
            return _sanitize_compound(value, depth + 1)


def _big(value: int) -> str:
    return f"int:{value:d}" if value.bit_length() <= _DECIMAL_BITS else f"int:{value:#x}"


def _sanitize_compound(value: object, depth: int) -> object:
    if isinstance(value, (list, tuple)):
        items = [_sanitize(item, depth) for item in cast("list[object]", value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_key(key): _sanitize(item, depth) for key, item in pairs}
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: _sanitize(getattr(value, name), depth) for name in value.__struct_fields__})
    raise TypeError(f"{type(value).__name__} is no plain data; pass text, numbers, lists or dicts")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"keys of plain data are text, not {type(key).__name__}")
    return sanitize_text(str(key))
