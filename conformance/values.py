"""Reads JSON that may have any shape: each function answers something of its type whatever it is given.

Judges work on what foreign programs sent, so a field that is missing or of another type is ordinary there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

Object = dict[str, Any]


def is_object(value: object) -> TypeGuard[Object]:
    """Whether it is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is an array."""
    return isinstance(value, list)


def as_object(value: object) -> Object:
    """The object, or an empty one."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """The array, or an empty one."""
    return value if is_list(value) else []


def as_text(value: object) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""


def cut(text: str, limit: int) -> str:
    """The text, or its beginning of that many characters and a mark, which says that a value may be cut there."""
    return text if len(text) <= limit else f"{text[:limit]} ..."


def cut_bytes(data: bytes, limit: int) -> bytes:
    """The same of bytes."""
    return data if len(data) <= limit else data[:limit] + b" ..."


def encodable(text: str) -> str:
    """The same with each half of a surrogate pair as an escape, since no file takes it otherwise."""
    return text.encode(errors="backslashreplace").decode()


def at(value: object, path: str) -> Any:
    """What stands at a dotted path of object keys; None where anything on the way is missing."""
    for key in path.split("."):
        value = as_object(value).get(key)
    return value


def walk(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value within one, itself first, each with its JSON pointer."""
    yield path, value
    for key, item in as_object(value).items():
        yield from walk(item, f"{path}/{key}")
    for index, item in enumerate(as_list(value)):
        yield from walk(item, f"{path}/{index}")
