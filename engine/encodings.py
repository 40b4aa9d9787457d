"""How a file's bytes are text, and how a changed text becomes bytes again: encoding and line ends.

Owns the rules: UTF-8, with or without a byte order mark, UTF-16 with one, Latin-1 as the last resort, and what counts
as binary. Pure. Used by revisions, which show files, and by the tools that change them, because a change has to be
written in the encoding in which it was shown.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

_SNIFFED: Final = 8192
_CONTROL: Final = bytes(set(range(32)) - set(b"\t\n\f\r\x1b"))
_MOST_CONTROL: Final = 0.05
"""Share of control characters above which bytes that are not UTF-8 are taken for binary."""

LineEnds = Literal["", "LF", "CRLF", "mixed LF and CRLF"]
"""How a text's lines end; "" where it has no newline."""


class Encoding(NamedTuple):
    """`codec` is Python's name of it without the mark, `mark` the byte order mark, `name` what people read."""

    codec: str
    mark: bytes
    name: str

    def encode(self, text: str) -> bytes:
        """The text as bytes of a file. Raises UnicodeEncodeError for what the encoding has no bytes for."""
        return self.mark + text.encode(self.codec)


UTF_8: Final = Encoding("utf-8", b"", "UTF-8")
_MARKED: Final = (
    Encoding("utf-8", b"\xef\xbb\xbf", "UTF-8 with byte order mark"),
    Encoding("utf-16-le", b"\xff\xfe", "UTF-16"),
    Encoding("utf-16-be", b"\xfe\xff", "UTF-16"),
)
_LATIN_1: Final = Encoding("latin-1", b"", "Latin-1 (not valid UTF-8)")


class Decoded(NamedTuple):
    """A text and the encoding it was in."""

    text: str
    encoding: Encoding


def decode(data: bytes) -> Decoded | None:
    """The text that these bytes are; None where they are binary."""
    found = next((each for each in _MARKED if data.startswith(each.mark)), UTF_8)
    if not found.codec.startswith("utf-16") and b"\0" in data[:_SNIFFED]:
        return None
    try:
        return Decoded(data[len(found.mark) :].decode(found.codec), found)
    except UnicodeDecodeError:
        return None if found.codec.startswith("utf-16") else _as_latin_1(data)


def _as_latin_1(data: bytes) -> Decoded | None:
    sample = data[:_SNIFFED]
    if len(sample) - len(sample.translate(None, _CONTROL)) > _MOST_CONTROL * len(sample):
        return None
    return Decoded(data.decode(_LATIN_1.codec), _LATIN_1)


def line_ends(text: str) -> LineEnds:
    """How the lines of the text end. A carriage return alone ends none."""
    newlines = text.count("\n")
    if not newlines:
        return ""
    pairs = text.count("\r\n") if "\r" in text else 0
    return "LF" if not pairs else "CRLF" if pairs == newlines else "mixed LF and CRLF"


def with_line_ends(text: str, ends: LineEnds) -> str:
    """The text with every line ended so; as it is where `ends` names no single one."""
    if ends not in ("LF", "CRLF"):
        return text
    plain = text.replace("\r\n", "\n")
    return plain if ends == "LF" else plain.replace("\n", "\r\n")
