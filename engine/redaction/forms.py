"""The forms in which a secret value appears in texts: as it is, as programs quote it, as URLs and base64 carry it.

Pure, and without knowledge of what is done with the forms. Called by `redactor`, once for each value.

Two things are not obvious. `repr` and JSON quote a *text around* the value, so that whether a quotation mark of the
value gets a backslash depends on the rest of that text: both spellings are forms. And base64 works on groups of three
bytes, so the value looks different at each of the three places where it may begin in a group; the characters at its
ends that also depend on the neighbours belong to no form.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Final

_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_SAFE: Final = (b"", b"/", b"!'()*", b";,/?:@&=+$!'()*#")
"""What different quoters leave as it is, beside letters, digits and `_.-~`."""
_TOLD_BY: Final = 4_096
_WIDE_ENCODINGS: Final = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_ENCODINGS: Final = (*_WIDE_ENCODINGS, "latin-1", "cp1252")
_GROUP: Final = 3
_BITS: Final = 6


def forms_of(value: str, shortest: int) -> set[str]:
    """Every form of the value, and those of each line of it that has `shortest` characters or more.

    A line is a secret by itself, because listings put numbers and indentation between the lines.
    """
    found = _quoted(value)
    for whole in {value, value.strip()}:
        found |= {*_in_urls(whole), *_in_base64(whole)}
    for line in {value.strip(), *map(str.strip, value.splitlines())}:
        if len(line) >= shortest:
            found |= _quoted(line)
    return found


def in_other_encodings(value: str, shortest: int) -> Iterator[bytes]:
    """The value, and each line of it that is long enough, as files hold it that are not UTF-8."""
    for line in {value.strip(), *map(str.strip, value.splitlines())}:
        if len(line) < shortest:
            continue
        for encoding in _ENCODINGS if not line.isascii() else _WIDE_ENCODINGS:
            with suppress(UnicodeEncodeError):
                yield line.encode(encoding)


def encodings_of(data: bytes) -> tuple[str, ...]:
    """How the text in a content may be encoded, of which the beginning tells whether it is worth a try."""
    beginning = data[:_TOLD_BY]
    if beginning.count(0) > len(beginning) // 5:
        return ("utf-8", *_WIDE_ENCODINGS)
    try:
        beginning[:-4].decode()
    except UnicodeDecodeError:
        return ("utf-8", "latin-1")
    return ("utf-8",)


def _quoted(value: str) -> set[str]:
    """As it is, quoted once by Python or JSON, and what one of these is when it is quoted again."""
    valid = bytes_of(value).decode("utf-8", "replace")
    once = {value, valid, *_spelled(value), *_spelled_bytes(value)}
    return once | {twice for form in once for twice in _spelled(form)}


def _spelled(value: str) -> Iterator[str]:
    # A double quote beside it makes `repr` give a single one inside a backslash.
    escaped = repr(value + '"')[1:-2]
    yield from (escaped, escaped.replace("\\'", "'"))
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    if not value.isascii():
        escaped = ascii(value + '"')[1:-2]
        yield from (escaped, escaped.replace("\\'", "'"))
    yield json.dumps(value)[1:-1]


def _spelled_bytes(value: str) -> Iterator[str]:
    escaped = repr(bytes_of(value) + b'"')[2:-2]
    yield from (escaped, escaped.replace("\\'", "'"))


def _in_urls(value: str) -> Iterator[str]:
    data = bytes_of(value)
    if not _UNRESERVED.issuperset(data):
        for spelling in _url_spellings():
            quoted = "".join(map(spelling.__getitem__, data))
            yield from (quoted, quoted.replace("%20", "+"))


@cache
def _url_spellings() -> tuple[tuple[str, ...], ...]:
    """How each byte is spelled, by what is left as it is and by the case of the digits."""
    return tuple(
        tuple(chr(byte) if byte in _UNRESERVED or byte in safe else percent.format(byte) for byte in range(256))
        for safe in _SAFE
        for percent in ("%{:02X}", "%{:02x}")
    )


def _in_base64(value: str) -> Iterator[str]:
    data = bytes_of(value)
    for before in range(_GROUP):
        encoded = b2a_base64(bytes(before) + data, newline=False).decode()
        first = -(-8 * before // _BITS)
        last = 8 * (before + len(data)) // _BITS
        form = encoded[first:last]
        yield from (form, form.replace("+", "-").replace("/", "_"))


def bytes_of(value: str) -> bytes:
    """A value as it stands in a file or in the environment."""
    # A variable of the environment may hold bytes that are no UTF-8.
    return value.encode("utf-8", "surrogateescape" if _is_from_bytes(value) else "replace")


def _is_from_bytes(value: str) -> bool:
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
