"""An overview of many files: which of them the others refer to most, and the names for which they do.

A file passes its weight on to the files that declare what it uses (PageRank): what much is built on stands out, however
large it is. Pure, and the same for the same files in whatever order they come. Ranked in the host (`preparing.index`),
carried by an `index` payload, written out by `glob_member`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Final

import msgspec

from ..cutting import DOTS, plural
from .rendered import RenderedView

_DAMPING: Final = 0.85
_ROUNDS: Final = 20
_COMMON: Final = 16
"""A name that more files declare than that tells nothing of any of them."""
_SHORTEST: Final = 3
_NAMES: Final = 12
"""Names of a file, at most."""


class Ranked(msgspec.Struct, frozen=True, array_like=True):
    """A file, and what it declares: what others use most comes first."""

    path: str
    names: tuple[str, ...]


class Declared(msgspec.Struct, frozen=True):
    """What a file declares, in its order, and how often it uses which names that it does not declare."""

    names: tuple[str, ...]
    uses: Mapping[str, int]


def ranked(files: Mapping[str, Declared]) -> list[Ranked]:
    """The files, those that matter most first; of equal ones in the order of their paths."""
    paths = sorted(files)
    declaring: dict[str, list[str]] = {}
    for path in paths:
        for name in dict.fromkeys(files[path].names):
            if len(name) >= _SHORTEST:
                declaring.setdefault(name, []).append(path)
    wanted: dict[tuple[str, str], float] = {}
    edges: dict[str, dict[str, float]] = {}
    for path in paths:
        for name, times in sorted(files[path].uses.items()):
            homes = [home for home in declaring.get(name, ()) if home != path]
            if not homes or len(homes) > _COMMON:
                continue
            weight = sqrt(times) / len(homes)
            for home in homes:
                wanted[home, name] = wanted.get((home, name), 0.0) + weight
                below = edges.setdefault(path, {})
                below[home] = below.get(home, 0.0) + weight
    ranks = _ranks(paths, edges)
    order = sorted(paths, key=lambda path: (-round(ranks[path], 9), path))
    return [Ranked(path, _named(path, files[path].names, wanted)) for path in order]


def _ranks(paths: Sequence[str], edges: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    ranks = dict.fromkeys(paths, 1.0)
    for _ in range(_ROUNDS):
        fresh = dict.fromkeys(paths, 1 - _DAMPING)
        for path, below in edges.items():
            share = _DAMPING * ranks[path] / sum(below.values())
            for home, weight in below.items():
                fresh[home] += share * weight
        ranks = fresh
    return ranks


def _named(path: str, names: Sequence[str], wanted: Mapping[tuple[str, str], float]) -> tuple[str, ...]:
    distinct = list(dict.fromkeys(names))
    return tuple(sorted(distinct, key=lambda name: -round(wanted.get((path, name), 0.0), 9))[:_NAMES])


def packed(files: Sequence[Ranked], most: int) -> bytes:
    """The first of the files as plain data of at most so many bytes."""
    data = msgspec.json.encode(files)
    while len(data) > most:
        files = files[: len(files) * most // len(data)]
        data = msgspec.json.encode(files)
    return data


def unpacked(data: bytes) -> tuple[Ranked, ...]:
    """What `packed` made. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(data, type=tuple[Ranked, ...])
    except msgspec.DecodeError as error:
        raise ValueError(f"no overview: {error}") from None


def overview(files: Sequence[Ranked], number: int, budget: int, count: Callable[[str], int]) -> RenderedView:
    """As many of the files as fit, in the order of their paths, with a line that counts the others of `number`."""
    room = budget - count(_rest(number))
    kept: list[tuple[str, str]] = []
    for each in files:
        row = f"{each.path}: {' '.join(each.names)}\n" if each.names else f"{each.path}\n"
        room -= count(row)
        if room < 0:
            break
        kept.append((each.path, row))
    if not kept:
        return RenderedView(text="", tokens=0, whole=False)
    text = "".join(row for _, row in sorted(kept)) + _rest(number - len(kept))
    return RenderedView(text=text, tokens=count(text), whole=len(kept) == number)


def _rest(number: int) -> str:
    return f"{DOTS} {number:,} {plural(number, 'file')} that fewer refer to\n" if number > 0 else ""
