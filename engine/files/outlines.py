"""Outlines of what nodes show, each made by the tier that made it first: what a re-run shows depends on that.

Owns the record of tiers: an event for each content that was outlined, and for one whose tier could not make it again.
Owns too what a large text is shown by until somebody has prepared its outline. Must not know how outlines are made.
Made by the Board; asked by nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from ..core.text import DOTS, plural
from ..log.events.nodes import OutlineMade
from .import_targets import targets_of
from .outline.indentation import outline_by_indentation
from .outline.languages import language_of
from .outline.model import Outline, Outliner, Tier
from .rendered import RenderedView
from .revision import Revision

_KNOWN: Final = 20_000
"""Contents whose tier is remembered, the latest."""
AT_ONCE: Final = 256 << 10
"""Bytes of a text that is outlined while others wait: a tenth of a second."""
_PROVISIONAL: Final = 8
"""Outlines of larger texts that are kept, the latest."""


class OutlineOf(Protocol):
    """`Outlines.of`."""

    def __call__(self, revision: Revision, path: str, *, at_once: bool = True) -> Outline: ...


class Outlines:
    """Asks `outliner`, with the tier that is on record.

    A history that runs again leaves the events that it left: what is on record is not told for that reason until the
    history has run (`settle`).
    """

    __slots__ = ("_made", "_outliner", "_provisional", "_tiers", "_told")

    def __init__(self, outliner: Outliner) -> None:
        self._outliner = outliner
        self._tiers: dict[str, Tier] = {}
        self._told: dict[str, Tier] = {}
        self._made: list[OutlineMade] = []
        self._provisional: dict[str, Outline] = {}

    def of(self, revision: Revision, path: str, *, at_once: bool = True) -> Outline:
        """What a text declares; `path` is its name or ends in it. Never raises for whatever it holds.

        Where it is not to be had `at_once`, that of a large text is provisional: its beginning by indentation. No
        record is kept of such a one, because it comes out alike wherever it is made.
        """
        digest = revision.digest
        if not at_once and revision.size > AT_ONCE:
            return self._roughly(revision, path)
        recorded = self._tiers.get(digest)
        outline = self._outliner.outline(lambda: utf8(revision), digest=digest, path=path, tier=recorded)
        if outline.tier != recorded:
            _note(self._tiers, digest, outline.tier)
        if outline.tier != self._told.get(digest):
            _note(self._told, digest, outline.tier)
            self._made.append(OutlineMade(digest=digest, tier=outline.tier))
        return outline

    def _roughly(self, revision: Revision, path: str) -> Outline:
        found = self._provisional.pop(revision.digest, None)
        if found is None:
            text = utf8(revision, AT_ONCE)
            language = language_of(path, text)
            made = outline_by_indentation(text)
            found = replace(
                made,
                language=language.name if language else "",
                lines=len(revision.lines),
                is_provisional=True,
            )
        self._provisional[revision.digest] = found
        while len(self._provisional) > _PROVISIONAL:
            del self._provisional[next(iter(self._provisional))]
        return found

    def know(self, tiers: Mapping[str, Tier]) -> None:
        """The tiers on record, by the digests of the contents."""
        for digest, tier in tiers.items():
            _note(self._tiers, digest, tier)

    def settle(self) -> None:
        """The history has run again: what is on record need not be told any more."""
        for digest, tier in self._tiers.items():
            _note(self._told, digest, tier)

    def take(self) -> tuple[OutlineMade, ...]:
        """The record since the last time this was called."""
        made, self._made = tuple(self._made), []
        return made


def _note(tiers: dict[str, Tier], digest: str, tier: Tier) -> None:
    tiers.pop(digest, None)
    tiers[digest] = tier
    if len(tiers) > _KNOWN:
        del tiers[next(iter(tiers))]


def utf8(revision: Revision, most: int | None = None) -> bytes:
    """The lines as an outliner takes them; of more than `most` bytes about so many, of whole lines."""
    if most is None:
        return "".join(f"{line}\n" for line in revision.lines).encode()
    kept: list[bytes] = []
    for line in revision.lines:
        kept.append(f"{line}\n".encode())
        most -= len(kept[-1])
        if most <= 0:
            break
    return b"".join(kept)


# overview:
# An overview of many files: those that matter most, and the names for which the others refer to them.
#
# Ranked in the host (`ranking`), carried by an `index` payload, written out by `glob_member`. Pure.


class Ranked(msgspec.Struct, frozen=True, array_like=True):
    """A file, and what it declares: what others use most comes first."""

    path: str
    names: tuple[str, ...]


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


# ranking:
# The order of many files by what refers to what, for an overview: what much is built on comes first, however large.
#
# A file passes its weight on to the files that declare what it uses (PageRank). The same name means something else in
# other files, so a use counts for the files that are imported where one of them declares it. For others it counts
# little where the file imports some of the others, or where the name is a plain word, as those of local variables
# are; and nothing where both is so.
#
# Pure, and the same for the same files in whatever order they come. Called by the host (`preparing.index`).

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
