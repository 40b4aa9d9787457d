"""Revisions: one state of a document, its decoded lines or the reason why there are none.

Immutable. Owns the sentences that replace content; `core.encodings` decides what is text. Reads nothing: documents
pass in the bytes or the error. `Found` is a revision as a look found it.

The lines of a revision are already without secrets (`Hide`). So whatever is made of them, an outline, a diff or a
summary, has none, and where a view can be placed does not depend on any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import xxhash

from ..core.encodings import decode, line_ends
from ..core.text import valid_text
from ..core.tokens import Ruler
from ..core.tokens.counter import BLOCK
from ..log.events.nodes import RevisionState
from .sources import FileStamp

LARGEST: Final = 16 << 20
"""Bytes of the largest file that is held in memory; a larger text is read by pages."""
MOST_ENTRIES: Final = 100_000
"""Largest number of names that a directory lists."""
_BYTES_MEASURED: Final = 64 << 10
"""About the bytes that are measured together, because long lines may have to be read for it."""
Hide = Callable[[str], Mapping[int, str]]
"""Returns the lines of a text that have a part of a secret, by their number from 0, with `***` instead of it."""
_BYTES_SHOWN: Final = 4
"""Bytes of binary content that are shown: enough to tell its format, too few for a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The content of a document at one moment.

    `lines` have no newline but keep a carriage return before it, and secrets are hidden. `digest` is the xxh3 of the
    bytes, empty without content. `notice` is a sentence without a newline, shown instead of the lines or above them.
    `first_line` is the number of the first line, above 1 if only a part of a file is known.
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
        """Whether there is content to show, even if it is empty."""
        return self.state in {"text", "paged", "binary"} or self.is_listing

    @property
    def reason(self) -> str:
        """Why there is no content: a clause without the advice that follows it in `notice`; empty with content."""
        clause, _, advice = self.notice.removeprefix("(").removesuffix(")").rpartition("; ")
        return "" if self.has_content else clause or advice

    @property
    def is_listing(self) -> bool:
        """Whether the lines are the names in a directory."""
        return self.state == "directory" and bool(self.digest)

    def same_as(self, other: Revision) -> bool:
        """Return whether both look the same."""
        return (self.state, self.digest, self.notice) == (other.state, other.digest, other.notice)

    @property
    def mark(self) -> str:
        """xxh3 hex of the fields that `same_as` compares."""
        return xxhash.xxh3_64_hexdigest("\0".join((self.state, self.digest, self.notice)).encode("utf-8", "replace"))

    def ruler(self, piece: Callable[[int], str], count: Callable[[str], int]) -> Ruler:
        """Return the measure of the lines as `piece` shows them.

        It is made once, so callers must always pass the same two functions. Neither may refer to this revision.
        """
        if not self._rulers:
            number = len(self.lines)
            block = max(min(BLOCK, _BYTES_MEASURED * number // max(self.size, 1)), 1)
            self._rulers.append(Ruler(number, piece, count, block))
        return self._rulers[0]


def show_all(text: str) -> Mapping[int, str]:
    """Hide nothing: for a text whose differences are redacted where they go."""
    del text
    return {}


def without_content(state: RevisionState, notice: str, size: int = 0) -> Revision:
    """Make a revision that says why there is no content: `notice` is "(REASON)" or "(REASON; ADVICE)"."""
    return Revision(state=state, notice=notice, size=size)


def digest_of(data: bytes) -> str:
    """Return the xxh3 of the content, 16 hex digits."""
    return xxhash.xxh3_64_hexdigest(data)


def decoded(data: bytes, hide: Hide) -> Revision:
    """Make the revision of a file with these bytes."""
    found = decode(data)
    if found is None:
        return binary(digest_of(data), len(data), data)
    return _text(found.text, found.encoding.name, data, hide)


def from_text(text: str, hide: Hide, first_line: int = 1) -> Revision:
    """Make the revision of a text that is not a file's.

    Lone surrogates become U+FFFD.

    `first_line`: the text is a part of a file, from this line on.
    """
    clean = valid_text(text)
    revision = _text(clean, "text", clean.encode(), hide)
    if first_line <= 1 or not revision.lines:
        return revision
    notice = f"(lines {first_line} to {first_line + len(revision.lines) - 1} alone)"
    return replace(revision, first_line=first_line, notice=notice)


def listing(data: bytes) -> Revision:
    """Make the revision of a directory with these names, one on each line."""
    names = data.decode().splitlines()
    amount = f"{len(names):,} {'entry' if len(names) == 1 else 'entries'}"
    more = " or more" if len(names) == MOST_ENTRIES else ""
    notice = f"(directory, {amount}{more})" if names else "(empty directory)"
    return Revision(state="directory", lines=names, digest=digest_of(data), size=len(data), notice=notice)


def lines_of(text: str, hide: Hide) -> list[str]:
    """Return the lines of a text without secrets; the last one is empty if the text ends with a newline."""
    lines = text.split("\n")
    for number, line in hide(text).items():
        lines[number] = line
    return lines


def _text(text: str, encoding: str, data: bytes, hide: Hide) -> Revision:
    lines = lines_of(text, hide)
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
    """Make the revision of a binary file with this beginning."""
    notice = f"(binary, {size:,} bytes, beginning with {beginning[:_BYTES_SHOWN].hex(' ')})"
    return binary_as_seen(digest, size, notice)


def binary_as_seen(digest: str, size: int, notice: str) -> Revision:
    """Make the revision of a binary file from its recorded notice."""
    return Revision(state="binary", digest=digest, size=size, encoding="binary", notice=notice)


# --- looks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a look.

    `stamp` is None if the next look has to read the file again. `recorded`: the log has this revision as the newest of
    its path. `data` is the content if this look read it.
    """

    revision: Revision
    stamp: FileStamp | None = None
    recorded: bool = False
    data: bytes | None = None


def recorded_path(path: str) -> str:
    """Return the path as the log has it: invalid text in it becomes U+FFFD."""
    return path if path.isascii() else valid_text(path)
