"""The levels of detail at which a view shows text: their numbers, names and comments for models. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple


class LevelOfDetail(NamedTuple):
    """One level of detail of a view: its name for users, and a `comment` for models.

    `is_outlined`: it is about the outline of the whole text or a region, not about consecutive lines.
    """

    name: str
    comment: str
    is_outlined: bool = False


LEVELS_OF_DETAIL: Final = (
    LevelOfDetail("text", "text"),
    LevelOfDetail("outline", "symbols with their lines", is_outlined=True),
    LevelOfDetail("summary", "summary", is_outlined=True),
    LevelOfDetail("changes", "what changed since you read it"),
)
"""What a view shows at each `lod`; the position is the number. `files.detail` has their renderers."""
LOD: Final = {level.name: lod for lod, level in enumerate(LEVELS_OF_DETAIL)}
"""The numbers of the levels by name."""
OUTLINED: Final = frozenset(lod for lod, level in enumerate(LEVELS_OF_DETAIL) if level.is_outlined)
LEVELS_LINE: Final = ", ".join(f"{lod} {name}" for name, lod in LOD.items())
