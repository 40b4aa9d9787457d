"""Which of some files the others import, told by paths and by what imports are called, in any language.

Pure, and no more than likely: nothing is read, and what a build system makes of a name is not known. An import leads to
the file, or to all files of the directory, whose path ends as the import does; a relative one from where it is written.
Used by `ranking`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from operator import eq
from posixpath import normpath
from typing import Final

_PART: Final = re.compile(r"[\w$-]+")
_STANDS_FOR_FOLDER: Final = frozenset({"__init__", "index", "mod", "lib", "init"})
_DOTS: Final = re.compile(r"^\.+(?![./])")
_ENDING: Final = re.compile(r"\.[A-Za-z]{1,4}$")
_OWN: Final = re.compile(r"^(?:(?:crate|self|super)::)+")
_ITEMS: Final = 2
"""Parts at the end of an import that may name what is in a file, not the file."""
_MOST: Final = 64
"""Places of the same name that are looked at; a name of more leads nowhere."""

Parts = tuple[str, ...]


class ImportTargets:
    """Finds what imports lead to among `paths`."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._files: dict[Parts, list[str]] = {}
        self._below: dict[Parts, list[str]] = {}
        for path in paths:
            folders = tuple(path.split("/")[:-1])
            stem = path.rpartition("/")[2].partition(".")[0]
            own = folders if stem in _STANDS_FOR_FOLDER else (*folders, stem)
            self._files.setdefault(own, []).append(path)
            for depth in range(1, len(folders) + 1):
                self._below.setdefault(folders[:depth], []).append(path)
        self._ending: dict[str, list[Parts]] = {}
        for parts in {**self._files, **self._below}:
            if parts:
                self._ending.setdefault(parts[-1], []).append(parts)

    def of(self, path: str, imports: Iterable[str]) -> frozenset[str]:
        """The other files that the file at `path` imports."""
        found: set[str] = set()
        for name in imports:
            found.update(self._of(path, name))
        found.discard(path)
        return frozenset(found)

    def _of(self, path: str, name: str) -> Sequence[str]:
        folders = tuple(path.split("/")[:-1])
        if dots := _DOTS.match(name):
            base = folders[: len(folders) - len(dots[0]) + 1]
            return self._at((*base, *_PART.findall(name)))
        if name.startswith("."):
            return self._at(tuple(normpath("/".join((*folders, _ENDING.sub("", name)))).split("/")))
        name = _OWN.sub("", name)
        parts = tuple(_PART.findall(_ENDING.sub("", name) if "/" in name else name))
        for left_out in range(min(_ITEMS, len(parts))):
            wanted = parts[: len(parts) - left_out]
            # What may be an item has to be in a place that is named in full.
            if place := self._longest(wanted, folders, least=2 if left_out else 1):
                return self._at(place)
        return ()

    def _at(self, parts: Parts) -> Sequence[str]:
        return self._files.get(parts) or self._below.get(parts) or self._files.get(parts[:-1], ())

    def _longest(self, wanted: Parts, folders: Parts, *, least: int) -> Parts | None:
        """The place that has the longest end in common with it, where the shorter of the two is all of that end.

        Of several the one that is nearest to `folders`, where the import is written.
        """
        places = self._ending.get(wanted[-1], ())
        found: list[tuple[int, int, Parts]] = []
        for place in places if len(places) <= _MOST else ():
            size = min(len(place), len(wanted))
            if size >= min(least, len(wanted)) and place[-size:] == wanted[-size:]:
                shared = sum(takewhile(bool, map(eq, place, folders)))
                found.append((size, shared, place))
        return max(found, key=lambda each: each[:2])[2] if found else None


def targets_of(imports: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """For each file, by its path, those of the files that it imports."""
    known = ImportTargets(sorted(imports))
    return {path: known.of(path, names) for path, names in imports.items()}
