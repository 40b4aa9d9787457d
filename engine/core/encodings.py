"""Encodings and line ends: bytes of a file as text, and changed text as bytes again.

Owns the rules: UTF-8 with or without a byte order mark, UTF-16 with one, Latin-1 as the last resort, and what counts as
binary. Pure. Revisions show files with it, and tools write changes in the encoding in which the file was shown.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

_SNIFFED: Final = 8192
_CONTROL: Final = bytes(set(range(32)) - set(b"\t\n\f\r\x1b"))
_MOST_CONTROL: Final = 0.05
"""The share of control characters above which bytes that are not UTF-8 count as binary."""

LineEnds = Literal["", "LF", "CRLF", "mixed LF and CRLF"]
"""How the lines of a text end; "" if it has no newline."""


class Encoding(NamedTuple):
    """An encoding: Python's `codec` without the mark, the byte order `mark`, and a `name` for people."""

    codec: str
    mark: bytes
    name: str

    def encode(self, text: str) -> bytes:
        """Encode the text of a file. Raises UnicodeEncodeError for characters that the encoding lacks."""
        return self.mark + text.encode(self.codec)


UTF_8: Final = Encoding("utf-8", b"", "UTF-8")
_MARKED: Final = (
    Encoding("utf-8", b"\xef\xbb\xbf", "UTF-8 with byte order mark"),
    Encoding("utf-16-le", b"\xff\xfe", "UTF-16"),
    Encoding("utf-16-be", b"\xfe\xff", "UTF-16"),
)
_LATIN_1: Final = Encoding("latin-1", b"", "Latin-1 (not valid UTF-8)")


class Decoded(NamedTuple):
    """A text and its encoding in the file."""

    text: str
    encoding: Encoding


def decode(data: bytes) -> Decoded | None:
    """Decode the bytes of a file; return None if they are binary."""
    found = expected(data)
    while found is not None:
        try:
            return Decoded(data[len(found.mark) :].decode(found.codec), found)
        except UnicodeDecodeError:
            found = instead_of(found, data)
    return None


def expected(beginning: bytes) -> Encoding | None:
    """Guess the encoding from the first few KiB of a file; return None if it is binary."""
    found = next((each for each in _MARKED if beginning.startswith(each.mark)), UTF_8)
    return found if found.codec.startswith("utf-16") or b"\0" not in beginning[:_SNIFFED] else None


def instead_of(encoding: Encoding, beginning: bytes) -> Encoding | None:
    """Return the encoding of a file that is not in the expected one; None if it is binary."""
    if encoding.codec.startswith("utf-16"):
        return None
    sample = beginning[:_SNIFFED]
    control = len(sample) - len(sample.translate(None, _CONTROL))
    return None if control > _MOST_CONTROL * len(sample) else _LATIN_1


def line_ends(text: str) -> LineEnds:
    """Return how the lines of the text end. A single carriage return ends none."""
    return line_ends_of(text.count("\n"), text.count("\r\n") if "\r" in text else 0)


def line_ends_of(newlines: int, pairs: int) -> LineEnds:
    """Return how lines end in a text with that many newlines, of which `pairs` follow a carriage return."""
    if not newlines:
        return ""
    return "LF" if not pairs else "CRLF" if pairs == newlines else "mixed LF and CRLF"


def with_line_ends(text: str, ends: LineEnds) -> str:
    """Return the text with these line ends; unchanged unless `ends` is LF or CRLF."""
    if ends not in ("LF", "CRLF"):
        return text
    plain = text.replace("\r\n", "\n")
    return plain if ends == "LF" else plain.replace("\n", "\r\n")
