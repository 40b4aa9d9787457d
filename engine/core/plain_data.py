"""Values made fit for JSON and msgpack: valid Unicode, 64-bit integers, finite floats, a bounded depth.

Encoders refuse surrogates and larger integers and turn NaN into null; user code and other programs' files have all
three. Owns how a number that no encoder takes is spelled as text, wherever it becomes one. Must not know what the
values mean. Called by the worker's framing and effects, by imports, and by whoever shows cycles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
import xxhash

from .text import valid_text

DEEPEST: Final = 64
"""Levels that plain data may be nested."""
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1
_LONG_DIGITS: Final = 20
_DECIMAL_BITS: Final = 4096

T = TypeVar("T")


def clean(value: T) -> T:
    """A copy with valid texts and numbers that can be encoded, of the same shape.

    Accepts plain data and msgspec structures.

    Raises:
        TypeError: something in it is none of these, or it is nested more than `DEEPEST` levels.
    """
    return cast(T, _clean(value, 0))


def argument_digest(arguments: dict[str, object]) -> str:
    """xxh3 hex over the arguments of an effect as JSON with sorted keys: which question it was."""
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(arguments, order="deterministic"))


def number(value: float) -> float | str:
    """The number, or its text where no encoder takes it: `int:<digits>`, `float:nan`, `float:inf`, `float:-inf`.

    Integers are taken from -2**63 to 2**64 - 1. One of more than some thousand bits is spelled in hexadecimal digits,
    because decimal ones take quadratic time.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else f"float:{float(value)}"
    if _SMALLEST <= value <= _LARGEST:
        return value
    return f"int:{value:d}" if value.bit_length() <= _DECIMAL_BITS else f"int:{value:#x}"


def integer(digits: str) -> float | str:
    """`number` of decimal digits, as many as there may be: what a JSON reader has found."""
    return number(int(digits)) if len(digits) <= _LONG_DIGITS else f"int:{digits}"


def _clean(value: object, depth: int) -> object:
    if depth > DEEPEST:
        raise TypeError(f"plain data is at most {DEEPEST} levels deep")
    match value:
        case None | bool() | bytes():
            return value
        case str():
            return valid_text(str(value))
        case int() | float():
            return number(value)
        case _:
            return _clean_compound(value, depth + 1)


def _clean_compound(value: object, depth: int) -> object:
    if isinstance(value, (list, tuple)):
        items = [_clean(item, depth) for item in cast("list[object]", value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_key(key): _clean(item, depth) for key, item in pairs}
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: _clean(getattr(value, name), depth) for name in value.__struct_fields__})
    raise TypeError(f"{type(value).__name__} is no plain data; pass text, numbers, lists or dicts")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"keys of plain data are text, not {type(key).__name__}")
    return valid_text(str(key))
