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
    found = expected(data)
    while found is not None:
        try:
            return Decoded(data[len(found.mark) :].decode(found.codec), found)
        except UnicodeDecodeError:
            found = instead_of(found, data)
    return None


def expected(beginning: bytes) -> Encoding | None:
    """The encoding that a file which begins so should be in; None where it is binary. A few KiB are enough."""
    found = next((each for each in _MARKED if beginning.startswith(each.mark)), UTF_8)
    return found if found.codec.startswith("utf-16") or b"\0" not in beginning[:_SNIFFED] else None


def instead_of(encoding: Encoding, beginning: bytes) -> Encoding | None:
    """The encoding of a file that begins so and is not in the one expected; None where it is binary."""
    if encoding.codec.startswith("utf-16"):
        return None
    sample = beginning[:_SNIFFED]
    control = len(sample) - len(sample.translate(None, _CONTROL))
    return None if control > _MOST_CONTROL * len(sample) else _LATIN_1


def line_ends(text: str) -> LineEnds:
    """How the lines of the text end. A carriage return alone ends none."""
    return line_ends_of(text.count("\n"), text.count("\r\n") if "\r" in text else 0)


def line_ends_of(newlines: int, pairs: int) -> LineEnds:
    """The same of a text with so many newlines, of which `pairs` follow a carriage return."""
    if not newlines:
        return ""
    return "LF" if not pairs else "CRLF" if pairs == newlines else "mixed LF and CRLF"


def with_line_ends(text: str, ends: LineEnds) -> str:
    """The text with every line ended so; as it is where `ends` names no single one."""
    if ends not in ("LF", "CRLF"):
        return text
    plain = text.replace("\r\n", "\n")
    return plain if ends == "LF" else plain.replace("\n", "\r\n")
