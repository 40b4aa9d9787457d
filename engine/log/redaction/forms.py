"""The forms of a secret value: which bytes stand for it where no program has quoted, escaped or broken them.

Pure. Quoting, escapes and line breaks are undone by `spellings`, so no form knows of them. Called by `redactor`, once
for each value.

Two things are not obvious. base64 works on groups of three bytes, so the value looks different at each of the three
places where it may begin in a group; the characters at its ends that also depend on the neighbours belong to no form.
And what is encoded was often text around the value: UTF-16 (PowerShell), or JSON, which escapes some characters.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

LINE: Final = 16
"""Characters that a line of a longer secret has at least, to be secret by itself."""
_ARMOUR: Final = "-----"
_TOKEN: Final = re.compile(rf"(?=\S*[A-Za-z])(?=\S*\d|\S*[a-z]\S*[A-Z]|\S*[A-Z]\S*[a-z])\S{{{LINE},}}")
_ENCODINGS: Final = ("latin-1", "cp1252", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_LATIN_1: Final = 0xFF
_GROUP: Final = 3
_BITS: Final = 6


def plain_forms(value: str) -> set[bytes]:
    """The value, and each line of it that is secret by itself, in all encodings."""
    return {data for text in {value.strip(), *secret_lines(value)} for data in _encoded(text)}


def secret_lines(value: str) -> Iterator[str]:
    """The lines that are secret by themselves, because listings put numbers and indentation between lines.

    Such a line holds LINE characters without a blank, of two kinds (letters and digits, or both cases). Words, keys of
    JSON and the armour of PEM do not, and occur in other texts.
    """
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if _TOKEN.search(line) and not line.startswith(_ARMOUR))


def encoded_forms(value: str) -> set[bytes]:
    """The whole value in base64 and in hexadecimal digits, and with `+` for blanks, as forms on the web have it."""
    value = value.strip()
    data = bytes_of(value)
    inner = {
        data,
        *(json.dumps(value, ensure_ascii=bool(is_ascii))[1:-1].encode("utf-8", "replace") for is_ascii in (0, 1)),
    }
    # Without its last zero, text in UTF-16 is the same in both orders of bytes.
    inner |= {wide[:-1] if value.isascii() else wide for wide in _wide(value)}
    forms = {form for each in inner for form in _in_base64(each)}
    return forms | {data.hex().encode(), data.hex().upper().encode(), data.replace(b" ", b"+")}


def bytes_of(value: str) -> bytes:
    """A value as it stands in a file or in the environment."""
    # A variable of the environment may hold bytes that are not UTF-8.
    with suppress(UnicodeEncodeError):
        return value.encode("utf-8", "surrogateescape")
    return value.encode("utf-8", "replace")


def _encoded(text: str) -> Iterator[bytes]:
    yield bytes_of(text)
    if text.isascii():
        return
    yield text.encode("utf-8", "surrogatepass")
    yield bytes_of(text).decode("utf-8", "replace").encode()
    # `ascii` and JavaScript escape what is in Latin-1 by its byte.
    yield b"".join(char.encode("utf-8" if ord(char) > _LATIN_1 else "latin-1", "surrogatepass") for char in text)
    for encoding in _ENCODINGS:
        with suppress(UnicodeEncodeError):
            yield text.encode(encoding)


def _wide(value: str) -> Iterator[bytes]:
    for encoding in ("utf-16-le",) if value.isascii() else ("utf-16-le", "utf-16-be"):
        with suppress(UnicodeEncodeError):
            yield value.encode(encoding)


def _in_base64(data: bytes) -> Iterator[bytes]:
    for before in range(_GROUP):
        encoded = b2a_base64(bytes(before) + data, newline=False)
        form = encoded[-(-8 * before // _BITS) : 8 * (before + len(data)) // _BITS]
        yield from (form, form.replace(b"+", b"-").replace(b"/", b"_"))
