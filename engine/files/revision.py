"""One state of a document: its decoded lines, or the reason why there are none.

Immutable. Owns the sentences that stand in for content; `encodings` says what is text. Must not read anything itself;
documents pass in the bytes or the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import xxhash

from ..core.encodings import decode, line_ends
from ..core.text import valid_text
from ..core.tokens import Ruler
from ..core.tokens.ruler import BLOCK
from ..log.events.nodes import RevisionState

LARGEST: Final = 16 << 20
"""Bytes of the largest file that is held; a larger one is read by pages, if at all."""
MOST_ENTRIES: Final = 100_000
"""Names of a directory that are listed."""
_BYTES_MEASURED: Final = 64 << 10
"""About so many are measured together, because lines that are long may have to be read for it."""
_BYTES_SHOWN: Final = 4
"""Of binary content: what tells its format, and too little for a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What a document held at one moment.

    `lines` carry no newline but keep a carriage return before it. `digest` is the xxh3 of the bytes, empty where there
    is no content. `notice` says in one sentence, without a newline, what is shown instead of or above the lines.
    `first_line` is the number of the first line, counted from 1: above that where only a part of a file is known.
    """

    state: RevisionState
    lines: Sequence[str] = ()
    digest: str = ""
    size: int = 0
    encoding: str = ""
    line_ends: str = ""
    final_newline: bool = True
    notice: str = ""
    first_line: int = 1
    _rulers: list[Ruler] = field(default_factory=list[Ruler], compare=False, repr=False)

    @property
    def has_content(self) -> bool:
        """Whether there are lines to show, or would be if the document were not empty."""
        return self.state in {"text", "paged", "binary"} or self.is_listing

    @property
    def is_listing(self) -> bool:
        """Whether the lines are the names in a directory."""
        return self.state == "directory" and bool(self.digest)

    def same_as(self, other: Revision) -> bool:
        """Whether both would look the same."""
        return (self.state, self.digest, self.notice) == (other.state, other.digest, other.notice)

    @property
    def mark(self) -> str:
        """xxh3 hex of what decides whether another revision would look the same."""
        return xxhash.xxh3_64_hexdigest("\0".join((self.state, self.digest, self.notice)).encode("utf-8", "replace"))

    def ruler(self, piece: Callable[[int], str], count: Callable[[str], int]) -> Ruler:
        """Measures the lines as `piece` shows them; made once, so callers must always pass the same two.

        Neither may refer to this revision.
        """
        if not self._rulers:
            number = len(self.lines)
            block = max(min(BLOCK, _BYTES_MEASURED * number // max(self.size, 1)), 1)
            self._rulers.append(Ruler(number, piece, count, block))
        return self._rulers[0]


def without_content(state: RevisionState, notice: str, size: int = 0) -> Revision:
    """A revision that says why there is nothing to show."""
    return Revision(state=state, notice=notice, size=size)


def digest_of(data: bytes) -> str:
    """xxh3 of the content, 16 hex digits."""
    return xxhash.xxh3_64_hexdigest(data)


def decoded(data: bytes) -> Revision:
    """The revision that a file with these bytes is at."""
    found = decode(data)
    return binary(digest_of(data), len(data), data) if found is None else _text(found.text, found.encoding.name, data)


def from_text(text: str, first_line: int = 1) -> Revision:
    """The revision of a text that is no file. Lone surrogates become U+FFFD.

    `first_line`: the text is a part of a file, from this line on.
    """
    clean = valid_text(text)
    revision = _text(clean, "text", clean.encode())
    if first_line <= 1 or not revision.lines:
        return revision
    notice = f"(lines {first_line} to {first_line + len(revision.lines) - 1} alone)"
    return replace(revision, first_line=first_line, notice=notice)


def listing(data: bytes) -> Revision:
    """The revision that a directory with these names is at, one on each line."""
    names = data.decode().splitlines()
    amount = f"{len(names):,} {'entry' if len(names) == 1 else 'entries'}"
    more = " or more" if len(names) == MOST_ENTRIES else ""
    notice = f"(directory, {amount}{more})" if names else "(empty directory)"
    return Revision(state="directory", lines=names, digest=digest_of(data), size=len(data), notice=notice)


def _text(text: str, encoding: str, data: bytes) -> Revision:
    lines = text.split("\n")
    final_newline = not lines[-1]
    if final_newline:
        lines.pop()
    return Revision(
        state="text",
        lines=lines,
        digest=digest_of(data),
        size=len(data),
        encoding=encoding,
        line_ends=line_ends(text),
        final_newline=final_newline,
        notice="" if lines else "(empty file)",
    )


def binary(digest: str, size: int, beginning: bytes) -> Revision:
    """The revision of a file that is no text and begins so."""
    notice = f"(binary, {size:,} bytes, beginning with {beginning[:_BYTES_SHOWN].hex(' ')})"
    return binary_as_seen(digest, size, notice)


def binary_as_seen(digest: str, size: int, notice: str) -> Revision:
    """The same, of which that is known."""
    return Revision(state="binary", digest=digest, size=size, encoding="binary", notice=notice)
