"""Values for JSON and msgpack: valid Unicode, 64-bit integers, finite floats, a limited depth.

Encoders refuse surrogates and larger integers and turn NaN into null. User code and files of other programs contain all
of these. Owns the spelling of numbers that no encoder takes. Must not know what the values mean. Used by the worker's
framing and effects, by imports, and for the JSON of cycles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
import xxhash

from .text import valid_text

DEEPEST: Final = 64
"""How deep plain data may be nested."""
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1
_LONG_DIGITS: Final = 20
_DECIMAL_BITS: Final = 4096

T = TypeVar("T")


def clean(value: T) -> T:
    """Return a copy of plain data or msgspec structures with valid texts and encodable numbers.

    Raises:
        TypeError: it contains something else, or is nested more than `DEEPEST` levels deep.
    """
    return cast(T, _clean(value, 0))


def argument_digest(arguments: dict[str, object]) -> str:
    """Return the identity of an effect's arguments: xxh3 hex of their JSON with sorted keys."""
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(arguments, order="deterministic"))


def number(value: float) -> float | str:
    """Return the number, or text if no encoder takes it: `int:<digits>`, `float:nan`, `float:inf`, `float:-inf`.

    Encoders take integers from -2**63 to 2**64 - 1. Integers of more than some thousand bits get hexadecimal digits,
    because decimal ones take quadratic time.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else f"float:{float(value)}"
    if _SMALLEST <= value <= _LARGEST:
        return value
    return f"int:{value:d}" if value.bit_length() <= _DECIMAL_BITS else f"int:{value:#x}"


def integer(digits: str) -> float | str:
    """Return `number` of any amount of decimal digits, as a JSON reader finds them."""
    return number(int(digits)) if len(digits) <= _LONG_DIGITS else f"int:{digits}"


def _clean(value: object, depth: int) -> object:
    if depth > DEEPEST:
        raise TypeError(f"plain data may be nested at most {DEEPEST} levels deep")
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
    raise TypeError(f"{type(value).__name__} is not plain data; pass text, numbers, lists or dicts")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"keys of plain data must be text, not {type(key).__name__}")
    return valid_text(str(key))
