"""The order of many files by what refers to what, for an overview: what much is built on comes first, however large.

A file passes its weight on to the files that declare what it uses (PageRank). The same name means something else in
other files, so a use counts for the files that are imported where one of them declares it. For others it counts little
where the file imports some of the others, or where the name is a plain word, as those of local variables are; and
nothing where both is so.

Pure, and the same for the same files in whatever order they come. Called by the host (`preparing.index`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Final

import msgspec

from .import_targets import targets_of
from .overview import Ranked

_DAMPING: Final = 0.85
_ROUNDS: Final = 20
_COMMON: Final = 16
"""A name that more files declare than that tells nothing of any of them."""
_SHORTEST: Final = 3
_NAMES: Final = 12
"""Names of a file, at most."""
_UNUSED: Final = 4
"""Of these, names that no other file uses, at most, and below in characters."""
_UNUSED_CHARS: Final = 80
_UNLIKELY: Final = 0.03
_PLAIN_WORD: Final = re.compile(r"[a-z]{1,8}")


class Declared(msgspec.Struct, frozen=True):
    """What a file declares, in its order, and how often it uses which names that it does not declare.

    `imports` are as it writes them. `is_code` is False where the names are headings or keys, which nobody refers to.
    """

    names: tuple[str, ...]
    uses: Mapping[str, int]
    imports: tuple[str, ...] = ()
    is_code: bool = True


def ranked(files: Mapping[str, Declared]) -> list[Ranked]:
    """The files, those that matter most first; of equal ones in the order of their paths."""
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
    """What a use of the name counts for a file that is not imported."""
    is_plain = _PLAIN_WORD.fullmatch(name) is not None
    if is_plain and imports_others:
        return 0.0
    return _UNLIKELY if is_plain or imports_others else 1.0


def _ranks(paths: Sequence[str], edges: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    ranks = dict.fromkeys(paths, 1.0)
    for _ in range(_ROUNDS):
        fresh = dict.fromkeys(paths, 1 - _DAMPING)
        for path, below in edges.items():
            # A file whose uses all count little passes little on.
            share = _DAMPING * ranks[path] / max(sum(below.values()), 1.0)
            for home, weight in below.items():
                fresh[home] += share * weight
        ranks = fresh
    return ranks


def _named(path: str, names: Sequence[str], wanted: Mapping[tuple[str, str], float]) -> tuple[str, ...]:
    """The names that others use, those first that they use most; then a few more, where there is room."""
    weights = {name: round(wanted.get((path, name), 0.0), 9) for name in dict.fromkeys(names)}
    used = sorted((name for name, weight in weights.items() if weight), key=lambda name: -weights[name])[:_NAMES]
    unused: list[str] = []
    for name in (name for name, weight in weights.items() if not weight and len(name) >= _SHORTEST):
        if len(used) + len(unused) >= _UNUSED or len(" ".join((*unused, name))) > _UNUSED_CHARS:
            break
        unused.append(name)
    return (*used, *unused)
