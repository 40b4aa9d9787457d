r"""Bytes as they read when what programs put into them is undone: colours, line breaks, quoting, escapes.

Pure. A value may be spelled in more ways than can be listed: which characters of a URL are escaped is each program's
choice, a terminal's colours may begin anywhere, and base64 is broken into lines. So nothing here knows a value. `fold`
undoes all of that in any bytes, and **what is looked for is folded as well**: a slice of a text spells a value if both
fold to the same. A value that looks spelled, such as `a%41b`, is found like any other.

A pass of folding undoes, in this order:

- NUL vanishes, so UTF-16 reads as ASCII;
- sequences for terminals vanish; the text in one (a title, the address of a link) is set apart before the rest;
- white space and quotation marks vanish, with a backslash before, so broken lines are whole;
- `%41`, `\u0041`, `\x41`, `\101`, `&#65;` and `&amp;` become UTF-8; `\n` and other backslashes vanish.

There are LEVELS passes, because JSON may stand in HTML, and that in a URL. Each rule looks at a bounded number of
bytes, so that a text in pieces reads as the whole does. A rule may take the first bytes of a value for the end of an
escape (`100%` before `abc`): SWALLOWED says how many.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import unescape
from typing import Final

LEVELS: Final = 4
"""Passes; each of a text's spellings takes one, and the last looks whether anything is left."""
STRING_BYTES: Final = 2_000
"""The longest text in a sequence for terminals."""
_HEX: Final = b"[0-9A-Fa-f]"


def _pattern(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern.replace(b"H", _HEX))


_LAST_CHARACTER: Final = 0x10FFFF
_CODE: Final = rb"[0-?]{0,64}[ -/]{0,8}[@-~]"
_STRING: Final = rb"[\]P^_X](?:[0-9]{0,4};)?([^\x07\x1b\n]{0,%d})(?:\x07|\x1b\\)" % STRING_BYTES
SEQUENCE: Final = _pattern(rb"\x1b(?:\[" + _CODE + rb"|" + _STRING + rb"|[ -/]{0,8}[0-~])|\xc2\x9b" + _CODE)
APART: Final = b"\xff"
"""Not a byte of UTF-8."""
_INDENT: Final = rb"[ \t\r\n]*+(?:>[> \t]*+)?"
GAP: Final = re.compile(
    rb"\n" + _INDENT + rb"|\r" + _INDENT + rb"|\\(?<!\\\\)\\*+(?:[\r\nrn]" + _INDENT + rb"|[ \t'\"`])"
)
"""Between lines, also of a quotation, and what is quoted by a backslash and vanishes without it."""
NOISE: Final = b" \t\r\n\v\f'\"`"
NUL: Final = b"\0"
_ESCAPE: Final = rb"UHHHHHHHH|u[dD][89abAB]HH\\+u[dD][c-fC-F]HH|uHHHH|xHH|[0-3][0-7]{2}|[tvfab]|e(?=\[)"
_ENTITY: Final = rb"&(?:#[0-9]{1,7}|#[xX]H{1,6}|[A-Za-z][A-Za-z0-9]{1,7});"
_STRING_END: Final = rb"(?:u001[bB]|x1[bB]|033)\1\1\\\\(?!\\)"
"""The end of a sequence's text, spelled: its backslash takes twice as many as the escape before it."""
_OTHER_UNITS: Final = rb"|\\(\\*)(?:" + _STRING_END + rb"|" + _ESCAPE + rb")?|" + _ENTITY
UNIT: Final = _pattern(rb"%HH" + _OTHER_UNITS)
_UNITS: Final = _pattern(rb"%HH(?:%HH)*" + _OTHER_UNITS)
"""Like that of sequences, these begin with single bytes, which `re` looks for at once."""
_CONTROLS: Final = {b"a": b"\x07", b"b": b"\x08", b"e": b"\x1b"}
"""What single letters after a backslash stand for, but for white space."""
UNFINISHED_SEQUENCE: Final = re.compile(
    rb"(?:(?:\x1b\[|\xc2\x9b)[0-?]{0,64}[ -/]{0,8}|\xc2|\x1b(?:[\]P^_X][^\x07\x1b\n]{0,%d}\x1b?|[ -/]{0,8}))\Z"
    % (STRING_BYTES + 5)
)
UNFINISHED_UNIT: Final = _pattern(
    rb"(?:%H?|\\(?:UH{0,7}|u[dD][89abAB]HH(?:\\+(?:u(?:[dD](?:[c-fC-F]H?)?)?)?)?|uH{0,3}|xH?|[0-3][0-7]?|e)?"
    rb"|&(?:#(?:[0-9]{0,7}|[xX]H{0,6})|[A-Za-z][A-Za-z0-9]{0,7})?)\Z"
)
"""What may become one of these when more comes."""
SWALLOWED: Final = tuple(
    map(_pattern, (b"H", b"HH", b"HHH", b"HHHH", _CODE, rb"[ -/]{0,8}[0-~]", rb"\[" + _CODE, rb"[A-Za-z0-9#]{0,8};",
                   rb"uHHHH|xHH|[nrtvfab]", rb">[> \t]*"))
)  # fmt: skip
"""What an escape, a sequence or the mark of a quoted line may take of the bytes after it."""


def fold(data: bytes) -> bytes:
    """The bytes as they read; slices of a text that fold to the same spell the same."""
    for _ in range(LEVELS):
        data = before = _without_gaps(data)
        if has_units(data):
            data = _UNITS.sub(lambda unit: undone(unit[0]), data)
        elif not has_sequences(data):
            break
        if data == before:
            break
    return _without_gaps(data)


def has_sequences(data: bytes) -> bool:
    """Whether there may be a sequence for terminals."""
    return b"\x1b" in data or b"\xc2\x9b" in data


def has_gaps(data: bytes) -> bool:
    """Whether there may be a gap that is more than white space and quotation marks."""
    return b"\\" in data or b">" in data


def has_units(data: bytes) -> bool:
    """Whether there may be an escape."""
    return b"%" in data or b"\\" in data or b"&" in data


def _without_gaps(data: bytes) -> bytes:
    if NUL in data:
        data = data.translate(None, NUL)
    if has_sequences(data):
        data = b"".join([*map(_apart, SEQUENCE.findall(data)), SEQUENCE.sub(b"", data)])
    if has_gaps(data):
        data = GAP.sub(b"", data)
    return data.translate(None, NOISE)


def _apart(text: bytes) -> bytes:
    return text and text + APART


@lru_cache(maxsize=4_096)
def undone(spelled: bytes) -> bytes:
    """The bytes that an escape, or a run of backslashes, stands for."""
    if spelled.endswith(b"\\") and spelled.strip(b"\\"):
        return b"\x1b\\"
    match spelled[:1], (escape := spelled.lstrip(b"\\"))[:1]:
        case b"%", _:
            return bytes.fromhex(spelled.replace(b"%", b"").decode())
        case b"&", _ if spelled[1:2] == b"#":
            digits = spelled[2:-1].decode()
            return _character(int(digits[1:], 16) if digits[0] in "xX" else int(digits))
        case b"&", _:
            return unescape(spelled.decode()).encode("utf-8", "surrogatepass")
        case _, b"U":
            return _character(int(escape[1:], 16))
        case _, b"u":
            units = re.split(rb"\\+u", escape[1:])
            wide = b"".join(int(unit, 16).to_bytes(2, "big") for unit in units)
            return wide.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        case _, b"x":
            return bytes.fromhex(escape[1:].decode())
        case _, digit if digit.isdigit():
            return bytes([int(escape, 8)])
        case _:
            return _CONTROLS.get(escape, b"")


def _character(code: int) -> bytes:
    return (chr(code) if code <= _LAST_CHARACTER else "").encode("utf-8", "surrogatepass")
