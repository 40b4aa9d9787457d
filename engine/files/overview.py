"""An overview of many files: the most important ones, with the names that other files use of them.

A file passes its weight on to the files that declare what it uses (PageRank), so files that much is built on come
first, however large they are. The result does not depend on the order of the files. Pure: nothing is read. The host
ranks files (`session.preparing`), an `index` payload carries the result, and `globs` renders it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import sqrt
from operator import eq
from posixpath import normpath
from typing import Final

import msgspec

from ..core.text import DOTS, plural
from .filling import Ladder, Spent
from .filling import ladder as filled
from .rendered import RenderedView

# --- the overview as data and text -----------------------------------------------------------------------------------


class Ranked(msgspec.Struct, frozen=True, array_like=True):
    """A file and the names that it declares, most used first."""

    path: str
    names: tuple[str, ...]


def packed(files: Sequence[Ranked], most: int) -> bytes:
    """Encode the first files in at most `most` bytes."""
    data = msgspec.json.encode(files)
    while len(data) > most:
        files = files[: len(files) * most // len(data)]
        data = msgspec.json.encode(files)
    return data


def unpacked(data: bytes) -> tuple[Ranked, ...]:
    """Decode what `packed` made. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(data, type=tuple[Ranked, ...])
    except msgspec.DecodeError as error:
        raise ValueError(f"no overview: {error}") from None


def overview(
    files: Sequence[Ranked], number: int, changes: Sequence[str], limit: int, count: Callable[[str], int]
) -> Ladder:
    """Return the lists of at most `limit` tokens: changes, then the most important files, sorted by path.

    A last line counts the others of `number`.
    """
    rows = [f"{each.path}: {' '.join(each.names)}\n" if each.names else f"{each.path}\n" for each in files]

    def texts() -> Iterator[Spent]:
        used = 0
        for shown, row in enumerate((*changes, *rows), 1 - len(changes)):
            used += count(row)
            rest = _rest(number - shown) if shown > 0 else ""
            yield Spent(used + (count(rest) if rest else 0), used)

    def show(index: int) -> RenderedView:
        shown = max(index + 1 - len(changes), 0)
        by_path = (row for _, row in sorted(zip((each.path for each in files[:shown]), rows, strict=False)))
        rest = _rest(number - shown) if shown else ""
        text = "".join((*changes[: index + 1], *by_path, rest))
        return RenderedView(text=text, tokens=count(text), whole=shown == number)

    return filled(texts(), limit, show)


def _rest(number: int) -> str:
    return f"{DOTS} {number:,} {plural(number, 'file')} that are referenced less\n" if number > 0 else ""


# --- ranking ---------------------------------------------------------------------------------------------------------


_DAMPING: Final = 0.85
_ROUNDS: Final = 20
_COMMON: Final = 16
"""A name that more files declare says nothing about any of them."""
_SHORTEST: Final = 3
_NAMES: Final = 12
"""Largest number of names for each file."""
_UNUSED: Final = 4
"""Largest number of names, among these, that no other file uses; and their characters below."""
_UNUSED_CHARS: Final = 80
_UNLIKELY: Final = 0.03
_PLAIN_WORD: Final = re.compile(r"[a-z]{1,8}")


class Declared(msgspec.Struct, frozen=True):
    """What a file declares, in order, and how often it uses names that it does not declare.

    `imports` are spelled as in the file. `is_code` is False if the names are headings or keys, which other files do not
    refer to.
    """

    names: tuple[str, ...]
    uses: Mapping[str, int]
    imports: tuple[str, ...] = ()
    is_code: bool = True


def ranked(files: Mapping[str, Declared]) -> list[Ranked]:
    """Sort the files, the most important first, equal ones by path."""
    paths = sorted(files)
    declaring: dict[str, list[str]] = {}
    for path in paths:
        for name in dict.fromkeys(files[path].names if files[path].is_code else ()):
            if len(name) >= _SHORTEST:
                declaring.setdefault(name, []).append(path)
    wanted: dict[tuple[str, str], float] = {}
    edges: dict[str, dict[str, float]] = {}
    imported = targets_of({path: files[path].imports for path in paths})
    for path in paths:
        for name, times in sorted(files[path].uses.items()):
            homes = [home for home in declaring.get(name, ()) if home != path]
            near = [home for home in homes if home in imported[path]]
            homes = near or homes
            if not homes or len(homes) > _COMMON:
                continue
            weight = sqrt(times) / len(homes) * (1.0 if near else _guessed(name, bool(imported[path])))
            if not weight:
                continue
            for home in homes:
                wanted[home, name] = wanted.get((home, name), 0.0) + weight
                below = edges.setdefault(path, {})
                below[home] = below.get(home, 0.0) + weight
    ranks = _ranks(paths, edges)
    order = sorted(paths, key=lambda path: (-round(ranks[path], 9), path))
    return [Ranked(path, _named(path, files[path].names, wanted)) for path in order]


def _guessed(name: str, imports_others: bool) -> float:
    """Return the weight of a use of a name whose file is not imported.

    The same name may mean something else in another file. So such a use counts little if the importing file imports
    other files of these, or if the name is a plain word, like those of local variables; and nothing if both hold.
    """
    is_plain = _PLAIN_WORD.fullmatch(name) is not None
    if is_plain and imports_others:
        return 0.0
    return _UNLIKELY if is_plain or imports_others else 1.0


def _ranks(paths: Sequence[str], edges: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    ranks = dict.fromkeys(paths, 1.0)
    for _ in range(_ROUNDS):
        fresh = dict.fromkeys(paths, 1 - _DAMPING)
        for path, below in edges.items():
            # A file whose uses all have a low weight passes little on.
            share = _DAMPING * ranks[path] / max(sum(below.values()), 1.0)
            for home, weight in below.items():
                fresh[home] += share * weight
        ranks = fresh
    return ranks


def _named(path: str, names: Sequence[str], wanted: Mapping[tuple[str, str], float]) -> tuple[str, ...]:
    """Return the names that other files use, most used first, then some others if there is room."""
    weights = {name: round(wanted.get((path, name), 0.0), 9) for name in dict.fromkeys(names)}
    used = sorted((name for name, weight in weights.items() if weight), key=lambda name: -weights[name])[:_NAMES]
    unused: list[str] = []
    for name in (name for name, weight in weights.items() if not weight and len(name) >= _SHORTEST):
        if len(used) + len(unused) >= _UNUSED or len(" ".join((*unused, name))) > _UNUSED_CHARS:
            break
        unused.append(name)
    return (*used, *unused)


# --- targets of imports ----------------------------------------------------------------------------------------------


_PART: Final = re.compile(r"[\w$-]+")
_STANDS_FOR_FOLDER: Final = frozenset({"__init__", "index", "mod", "lib", "init"})
_DOTS: Final = re.compile(r"^\.+(?![./])")
_ENDING: Final = re.compile(r"\.[A-Za-z]{1,4}$")
_OWN: Final = re.compile(r"^(?:(?:crate|self|super)::)+")
_ITEMS: Final = 2
"""Number of parts at the end of an import that may name an item in a file rather than the file."""
_MOST: Final = 64
"""Number of places with one name that are compared; a name with more is ambiguous."""

Parts = tuple[str, ...]


class ImportTargets:
    """Finds the files among `paths` that imports lead to, in any language.

    A guess: how a build system resolves names is unknown. An import leads to the file, or to all files of the
    directory, whose path ends like the import; a relative import starts at the file that has it.
    """

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
        """Return the other files that the file at `path` imports."""
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
            # An item must be in a place that is named in full.
            if place := self._longest(wanted, folders, least=2 if left_out else 1):
                return self._at(place)
        return ()

    def _at(self, parts: Parts) -> Sequence[str]:
        return self._files.get(parts) or self._below.get(parts) or self._files.get(parts[:-1], ())

    def _longest(self, wanted: Parts, folders: Parts, *, least: int) -> Parts | None:
        """Return the place whose path shares the longest end with an import.

        One of the two must be that end as a whole. Of several, the nearest to `folders`, the importing file's, is
        returned.
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
    """Return, for each file, which of the other files it imports."""
    known = ImportTargets(sorted(imports))
    return {path: known.of(path, names) for path, names in imports.items()}
