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
    """Asks `outliner`, with the tier that is on record."""

    __slots__ = ("_made", "_outliner", "_tiers")

    def __init__(self, outliner: Outliner) -> None:
        self._outliner = outliner
        self._tiers: dict[str, Tier] = {}
        self._made: list[OutlineMade] = []

    def of(self, revision: Revision, path: str) -> Outline:
        """What a text declares; `path` is its name or ends in it. Never raises for whatever it holds."""
        digest = revision.digest
        recorded = self._tiers.get(digest)
        outline = self._outliner.outline(lambda: _utf8(revision), digest=digest, path=path, tier=recorded)
        if outline.tier != recorded:
            self._note(digest, outline.tier)
            self._made.append(OutlineMade(digest=digest, tier=outline.tier))
        return outline

    def know(self, tiers: Mapping[str, Tier]) -> None:
        """The tiers on record, by the digests of the contents."""
        for digest, tier in tiers.items():
            self._note(digest, tier)

    def take(self) -> tuple[OutlineMade, ...]:
        """The record since the last time this was called."""
        made, self._made = tuple(self._made), []
        return made

    def _note(self, digest: str, tier: Tier) -> None:
        self._tiers.pop(digest, None)
        self._tiers[digest] = tier
        if len(self._tiers) > _KNOWN:
            del self._tiers[next(iter(self._tiers))]


def _utf8(revision: Revision) -> bytes:
    return "".join(f"{line}\n" for line in revision.lines).encode()
