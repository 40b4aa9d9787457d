"""Outlines of what nodes show, each made by the tier that made it first: what a re-run shows depends on that.

Owns the record of tiers: an event for each content that was outlined, and for one whose tier could not make it again.
Owns too what a large text is shown by until somebody has prepared its outline. Must not know how outlines are made.
Made by the Board; asked by nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec.structs import replace

from ..log.events.nodes import OutlineMade
from .outline.indentation import outline_by_indentation
from .outline.languages import language_of
from .outline.model import Outline, Outliner, Tier
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
