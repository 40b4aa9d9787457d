"""One state of a document: its decoded lines, or the reason why there are none.

Immutable. Owns the sentences that stand in for content; `encodings` says what is text. Must not read anything itself;
documents pass in the bytes or the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import xxhash

from ..core.encodings import decode, line_ends
from ..core.text import valid_text
from ..core.tokens import Ruler
from ..core.tokens.counter import BLOCK
from ..log.events.nodes import RevisionState
from .sources import FileStamp

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


# found:
# What a look at a file finds, and what answers looks.
#
# Plain values and one Protocol. Used by documents and by the sources of looks, `live` and `recorded`.


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found.

    `stamp` is None where the next look has to read the file again. `recorded` says that the log has the revision, as
    the newest of its path. `data` is the content where it has just been read.
    """

    revision: Revision
    stamp: FileStamp | None = None
    recorded: bool = False
    data: bytes | None = None


class LookSource(Protocol):
    """What answers looks."""

    def look(
        self,
        path: str,
        title: str,
        last: Found | None,
        number: int,
        *,
        of_glob: bool = False,
        until: float | None = None,
    ) -> Found:
        """What the file at an absolute path holds; `last` itself where nothing has changed. Never raises OSError.

        Args:
            path: absolute.
            title: how sentences name it.
            last: what the document's look before this one found; None before the first.
            number: of this look at the path within its step, from 0.
            of_glob: whether a glob looks, whose looks are recorded together.
            until: in seconds since the epoch, when reading a large file is given up; None for never.
        """
        ...

    def bring(self, path: str, title: str, last: Found | None, number: int, data: bytes) -> Found:
        """As `look`, where somebody else has read the file, and found `data`."""
        ...


def recorded_path(path: str) -> str:
    """The path as a log holds it: what is no valid text in it becomes U+FFFD."""
    return path if path.isascii() else valid_text(path)


# manifest:
# What a glob stands for at one moment: its files, each with a mark that changes with it, as one text and its digest.
#
# A line is `mark size path`, in the order of paths; the text is what the log keeps. A mark is made of what a stat
# tells of a file, so that no file has to be read to be listed. Pure. Written by `worker.trees`, read by
# `glob_member`.

_BETWEEN: Final = "/./"
CUT: Final = "..."
"""Stands alone on the last line where there are more files than are listed."""


def glob_path(root: str, pattern: str) -> str:
    """What stands for a glob where looks are recorded by path; no path that was normalized has a dot alone."""
    return f"{root}{_BETWEEN}{pattern}"


def is_glob(path: str) -> bool:
    """Whether it stands for a glob."""
    return _BETWEEN in path


def place_of(path: str) -> tuple[str, str]:
    """The root and the pattern of what stands for a glob."""
    root, _, pattern = path.partition(_BETWEEN)
    return root or "/", pattern


class Listed(NamedTuple):
    """A file of a manifest: its mark, and its size in bytes."""

    mark: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRevision(Revision):
    """The revision of a glob, with its text in one piece, because nobody asks for its lines."""

    text: str = ""


@dataclass(frozen=True)
class Manifest:
    """A manifest as it was found. `digest` is the xxh3 hex of its text."""

    text: str
    digest: str

    @property
    def number(self) -> int:
        """How many files it lists."""
        return self.text.count("\n") - self.is_cut

    @property
    def is_cut(self) -> bool:
        """Whether there were more files than it lists."""
        return self.text.endswith(f"\n{CUT}\n")

    @cached_property
    def files(self) -> Mapping[str, Listed]:
        """The files by path from the workspace's directory, in order; for a manifest that is not large."""
        return dict(map(_read, self.lines()))

    @cached_property
    def paths_digest(self) -> str:
        """The xxh3 hex of which files there are, whatever they hold."""
        return xxhash.xxh3_64_hexdigest("\n".join(line.split(" ", 2)[2] for line in self.lines()).encode())

    @cached_property
    def directories(self) -> Mapping[str, int]:
        """How many files there are in each directory that has any, in order; the root is ""."""
        numbers: dict[str, int] = {}
        for line in self.lines():
            directory = line.rpartition("/")[0].split(" ", 2)[-1] if "/" in line else ""
            numbers[directory] = numbers.get(directory, 0) + 1
        return numbers

    def lines(self) -> list[str]:
        """A line for each file."""
        lines = self.text.split("\n")
        del lines[self.number :]
        return lines


def _read(line: str) -> tuple[str, Listed]:
    mark, size, path = line.split(" ", 2)
    return path, Listed(mark, int(size))


def manifest_of(revision: Revision) -> Manifest:
    """The manifest that a look has brought; one of no files where it has no content."""
    if isinstance(revision, ManifestRevision):
        return Manifest(revision.text, revision.digest)
    text = "\n".join(revision.lines) + "\n" if revision.state == "text" and revision.lines else ""
    return Manifest(text, revision.digest)


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """How one manifest differs from the one before it: paths, in order."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def change_between(before: Manifest, after: Manifest) -> ManifestChange:
    """What came, what went, and what has another mark. Costs what a comparison of the lines costs."""
    if before.digest == after.digest:
        return ManifestChange()
    lines = before.lines(), after.lines()
    known, found = map(set, lines)
    old = dict(_read(line) for line in lines[0] if line not in found)
    new = dict(_read(line) for line in lines[1] if line not in known)
    return ManifestChange(
        added=tuple(path for path in new if path not in old),
        removed=tuple(path for path in old if path not in new),
        changed=tuple(path for path in new if path in old),
    )
