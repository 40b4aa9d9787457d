"""Reads JSON of any shape: each function returns a value of its type, whatever it gets.

Judges read messages of foreign programs, where missing and mistyped fields are normal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeGuard

Object = dict[str, Any]

_SEPARATOR: Final = re.compile(r"[\s\"'`,;<>\[\]{}|]")
"""What is in no key."""
_OF_BYTES: Final = re.compile(_SEPARATOR.pattern.encode())
"""The same in bytes; other bytes may be parts of letters."""


def is_object(value: object) -> TypeGuard[Object]:
    """Whether the value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether the value is an array."""
    return isinstance(value, list)


def as_object(value: object) -> Object:
    """Return the object, or an empty one."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """Return the array, or an empty one."""
    return value if is_list(value) else []


def as_text(value: object) -> str:
    """Return the string, or an empty one."""
    return value if isinstance(value, str) else ""


def truncate(text: str, limit: int) -> str:
    """Cut a text to at most a length and append a mark. No part is left of a word that may be a key."""
    if len(text) <= limit:
        return text
    if not _SEPARATOR.match(text, limit):
        limit = max((found.end() for found in _SEPARATOR.finditer(text, 0, limit)), default=0)
    return f"{text[:limit]} ..."


def truncate_bytes(data: bytes, limit: int) -> bytes:
    """Cut bytes to at most a length and append a mark. No part is left of a word that may be a key."""
    if len(data) <= limit:
        return data
    if not _OF_BYTES.match(data, limit):
        limit = max((found.end() for found in _OF_BYTES.finditer(data, 0, limit)), default=0)
    return data[:limit] + b" ..."


def escape_surrogates(text: str) -> str:
    """Replace lone surrogates by escapes, because files cannot contain them."""
    return text.encode(errors="backslashreplace").decode()


def at(value: object, path: str) -> Any:
    """Return the value at a dotted path of keys, or None."""
    for key in path.split("."):
        value = as_object(value).get(key)
    return value


def walk(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the value and every value inside it, each with its JSON pointer."""
    yield path, value
    for key, item in as_object(value).items():
        yield from walk(item, f"{path}/{key}")
    for index, item in enumerate(as_list(value)):
        yield from walk(item, f"{path}/{index}")
