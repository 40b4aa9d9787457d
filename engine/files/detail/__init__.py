"""Levels of detail: a module for each, and the table of them.

A renderer is pure: equal scenes give equal text. Called by ViewHandle and by groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ...core.levels import LEVELS_LINE, LEVELS_OF_DETAIL, LOD, OUTLINED
from ..filling import Ladder, single
from ..outline.model import Outline
from ..paging import PageLostError
from ..rendered import RenderedView
from ..revision import Revision
from . import changes, outline, summary, text
from .scene import Scene, instead_of_differences, instead_of_large_text, instead_of_outline, lost_line

Renderer = Callable[[Scene], RenderedView]
"""Renders within the scene's budget. Never raises, whatever the revision contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """How a level is rendered.

    Views call `render`; groups call `ladder`, for texts from the shortest to the longest. `instead` returns one line if
    the text is too large for the level, else None. `climbs_outline`: the ladder needs the outline of a text; a revision
    without text gets the ladder of level 0.
    """

    render: Renderer
    ladder: Callable[[Scene], Ladder]
    instead: Callable[[Scene], RenderedView | None]
    climbs_outline: bool


_LEVELS: Final = {
    "text": _Level(
        render=text.render,
        # So that a group shows names before lines.
        ladder=partial(outline.ladder, to_lines=True),
        instead=instead_of_large_text,
        climbs_outline=True,
    ),
    "outline": _Level(render=outline.render, ladder=outline.ladder, instead=instead_of_outline, climbs_outline=True),
    "summary": _Level(render=summary.render, ladder=summary.ladder, instead=instead_of_outline, climbs_outline=True),
    "changes": _Level(
        render=changes.render, ladder=changes.ladder, instead=instead_of_differences, climbs_outline=False
    ),
}
_ROWS: Final = tuple(_LEVELS[level.name] for level in LEVELS_OF_DETAIL)
LEVELS: Final = {lod: row.render for lod, row in enumerate(_ROWS)}
"""The renderer of each level."""
CHANGES_LEVEL: Final = LOD["changes"]
"""The only level that depends on earlier displays."""
SUMMARY_LEVEL: Final = LOD["summary"]
"""The level that a model's summary replaces."""
_TINY: Final = 256
"""Bytes of a text whose lines are as short as its outline."""


def checked_lod(lod: object) -> int:
    """Validate a level.

    Raises:
        ValueError: there is no such level; the message lists them.
    """
    if isinstance(lod, int) and not isinstance(lod, bool) and lod in LEVELS:
        return int(lod)
    raise ValueError(f"lod={lod!r}: no such level of detail; use one of {LEVELS_LINE}")


def ladder_at(scene: Scene, lod: int, outline: Callable[[Revision], Outline]) -> Ladder:
    """Return the texts of the scene at a level, from the shortest to the longest that its budget allows."""
    level = _ROWS[lod]
    try:
        instead = level.instead(scene)
        if instead is not None:
            return single(instead)
        if level.climbs_outline:
            if scene.revision.state != "text" or (lod == LOD["text"] and scene.revision.size <= _TINY):
                return text.ladder(scene)
            scene = replace(scene, outline=outline(scene.revision))
        return level.ladder(scene)
    except PageLostError as error:
        return single(lost_line(scene, error))


def rendered_at(scene: Scene, lod: int, outline: Callable[[Revision], Outline]) -> RenderedView:
    """Render the scene at a level, with an outline of its revision if the level needs one."""
    level = _ROWS[lod]
    try:
        instead = level.instead(scene)
        if instead is not None:
            return instead
        if lod in OUTLINED and scene.revision.state == "text":
            scene = replace(scene, outline=outline(scene.revision))
        return level.render(scene)
    except PageLostError as error:
        return lost_line(scene, error)
