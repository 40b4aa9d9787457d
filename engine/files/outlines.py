"""The outlines of a board's nodes, each made again by the tier that made it first.

Owns the record of tiers, because what a re-run shows depends on them: an event for each content that was outlined, and
for one whose tier failed later. Also makes provisional outlines of large texts. Must not know how outlines are made.
Made by the Board; called by nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec.structs import replace

from ..log.events.nodes import OutlineMade
from .outline.fallbacks import outline_by_indentation
from .outline.languages import language_of
from .outline.model import Outline, Outliner, Tier
from .revision import Revision

_KNOWN: Final = 20_000
"""Number of contents whose tier is remembered."""
AT_ONCE: Final = 256 << 10
"""Bytes of a text that is outlined while others wait, which takes a tenth of a second."""
_PROVISIONAL: Final = 8
"""Number of provisional outlines in the cache."""


class OutlineOf(Protocol):
    """The signature of `Outlines.of`."""

    def __call__(self, revision: Revision, path: str, *, at_once: bool = True) -> Outline: ...


class Outlines:
    """Calls `outliner` with the recorded tier.

    A re-run leaves its events as they are, so recorded tiers cause no event until it is over (`settle`).
    """

    __slots__ = ("_made", "_outliner", "_provisional", "_tiers", "_told")

    def __init__(self, outliner: Outliner) -> None:
        self._outliner = outliner
        self._tiers: dict[str, Tier] = {}
        self._told: dict[str, Tier] = {}
        self._made: list[OutlineMade] = []
        self._provisional: dict[str, Outline] = {}

    def of(self, revision: Revision, path: str, *, at_once: bool = True) -> Outline:
        """Outline a text; `path` is its name or ends in it.

        Never raises, whatever the text.

        Unless it is wanted `at_once`, the outline of a large text is provisional: its beginning, by indentation. Such
        an outline is not recorded, because it is the same wherever it is made.
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
        """Add recorded tiers, by digest."""
        for digest, tier in tiers.items():
            _note(self._tiers, digest, tier)

    def settle(self) -> None:
        """End the re-run: recorded tiers cause no event any more."""
        for digest, tier in self._tiers.items():
            _note(self._told, digest, tier)

    def take(self) -> tuple[OutlineMade, ...]:
        """Return the events since the last call."""
        made, self._made = tuple(self._made), []
        return made


def _note(tiers: dict[str, Tier], digest: str, tier: Tier) -> None:
    tiers.pop(digest, None)
    tiers[digest] = tier
    if len(tiers) > _KNOWN:
        del tiers[next(iter(tiers))]


def utf8(revision: Revision, most: int | None = None) -> bytes:
    """Return the lines as bytes for an outliner.

    About `most` bytes of a larger text, in whole lines.
    """
    if most is None:
        return "".join(f"{line}\n" for line in revision.lines).encode()
    kept: list[bytes] = []
    for line in revision.lines:
        kept.append(f"{line}\n".encode())
        most -= len(kept[-1])
        if most <= 0:
            break
    return b"".join(kept)
