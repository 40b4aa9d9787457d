"""What a glob stands for at one moment: its files, each with a mark that changes with it, as one text and its digest.

A line is `mark size path`, in the order of paths; the text is what the log keeps. A mark is made of what a stat tells
of a file, so that no file has to be read to be listed. Pure. Written by `worker.trees`, read by `glob_member`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import xxhash

from .revision import Revision

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
