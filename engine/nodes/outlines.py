"""Outlines of what nodes show, each made by the tier that made it first: what a re-run shows depends on that.

Owns the record of tiers: an event for each content that was outlined, and for one whose tier could not make it again.
Must not know how outlines are made. Made by the Board; asked by nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..events.nodes import OutlineMade
from .outline.model import Outline, Outliner, Tier
from .revision import Revision

_KNOWN: Final = 20_000
"""Contents whose tier is remembered, the latest."""


class Outlines:
    """Asks `outliner`, with the tier that is on record.

    A history that runs again leaves the events that it left: what is on record is not told for that reason until the
    history has run (`settle`).
    """

    __slots__ = ("_made", "_outliner", "_tiers", "_told")

    def __init__(self, outliner: Outliner) -> None:
        self._outliner = outliner
        self._tiers: dict[str, Tier] = {}
        self._told: dict[str, Tier] = {}
        self._made: list[OutlineMade] = []

    def of(self, revision: Revision, path: str) -> Outline:
        """What a text declares; `path` is its name or ends in it. Never raises for whatever it holds."""
        digest = revision.digest
        recorded = self._tiers.get(digest)
        outline = self._outliner.outline(lambda: _utf8(revision), digest=digest, path=path, tier=recorded)
        if outline.tier != recorded:
            _note(self._tiers, digest, outline.tier)
        if outline.tier != self._told.get(digest):
            _note(self._told, digest, outline.tier)
            self._made.append(OutlineMade(digest=digest, tier=outline.tier))
        return outline

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


def _utf8(revision: Revision) -> bytes:
    return "".join(f"{line}\n" for line in revision.lines).encode()
