"""Levels of detail: a module for each, and the table of them.

A renderer is pure: equal scenes give equal text. Called by ViewHandle and by groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...core.execution import LEVELS_LINE, LEVELS_OF_DETAIL, OUTLINED
from ..filling import Ladder, single
from ..outline.model import Outline
from ..paging import PageLostError
from ..rendered import RenderedView
from ..revision import Revision
from . import diff, raw, summary, symbols
from .scene import Scene, instead_of_differences, instead_of_lines_or_outline, lost_line

Renderer = Callable[[Scene], RenderedView]
"""Renders within the scene's budget. Never raises, whatever the revision contains."""

_RENDERERS: Final[dict[str, Renderer]] = {
    "text": raw.render,
    "outline": symbols.render,
    "summary": summary.render,
    "changes": diff.render,
}
LEVELS: Final = {level: _RENDERERS[name] for level, name in enumerate(LEVELS_OF_DETAIL)}
"""The renderer of each level."""
DIFFERENCES: Final = 3
"""The only level that depends on earlier displays."""
SUMMED_UP: Final = 2
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
    raise ValueError(f"lod={lod!r}: no such level of detail; there are {LEVELS_LINE}")


def ladder_at(scene: Scene, lod: int, outline: Callable[[Revision], Outline]) -> Ladder:
    """Return the texts of the scene at a level, from the shortest to the longest that its budget allows.

    Unlike the level alone, level 0 begins with the outline, so that a group shows names before lines.
    """
    try:
        differs = lod == DIFFERENCES
        instead = instead_of_differences(scene) if differs else instead_of_lines_or_outline(scene, lod)
        if instead is not None:
            return single(instead)
        if differs:
            return diff.ladder(scene)
        if scene.revision.state != "text" or (lod == 0 and scene.revision.size <= _TINY):
            return raw.ladder(scene)
        scene = replace(scene, outline=outline(scene.revision))
        return summary.ladder(scene) if lod == SUMMED_UP else symbols.ladder(scene, to_lines=lod == 0)
    except PageLostError as error:
        return single(lost_line(scene, error))


def rendered_at(scene: Scene, lod: int, outline: Callable[[Revision], Outline]) -> RenderedView:
    """Render the scene at a level, with an outline of its revision if the level needs one."""
    try:
        differs = lod == DIFFERENCES
        instead = instead_of_differences(scene) if differs else instead_of_lines_or_outline(scene, lod)
        if instead is not None:
            return instead
        if lod in OUTLINED and scene.revision.state == "text":
            scene = replace(scene, outline=outline(scene.revision))
        return LEVELS[lod](scene)
    except PageLostError as error:
        return lost_line(scene, error)
