"""What stands for a text that is read by pages where all of it would be needed: one line with its size, and what works.

Its lines are shown at level 0, a window at a time, as those of any text. Outlines and differences are not made of it,
but where it begins to differ is told.
"""

from __future__ import annotations

from typing import Final

from ..paged_change import change_between, size_of
from ..paged_lines import PageLostError
from ..rendered import RenderedView
from .scene import Scene, one_line

LARGEST_WINDOW: Final = 1_000_000
"""Tokens of the largest window on such a text."""


def instead_of_lines_or_outline(scene: Scene, lod: int) -> RenderedView | None:
    """The line that stands for the scene at a level; None where its lines are shown, or the text is held."""
    revision = scene.revision
    if revision.state != "paged":
        return None
    if lod:
        return _line(scene, f"{size_of(revision)}, too large for an outline; SetLod(0) shows its lines")
    if scene.budget > LARGEST_WINDOW:
        return _line(scene, f"{size_of(revision)}, too large to be shown whole; SetTokens(2000) shows a part")
    return None


def instead_of_differences(scene: Scene) -> RenderedView | None:
    """The line that stands for what changed since the text was shown; None where both texts are held."""
    revision, before = scene.revision, scene.last_shown
    if revision.state not in ("text", "paged") or "paged" not in (revision.state, before and before.state):
        return None
    if before is None:
        return _line(scene, f"not shown before, so there is no difference; lod=0 shows its {len(revision.lines)} lines")
    since = f"since statement {scene.shown_in}" if scene.shown_in else "since it was last shown"
    if revision.same_as(before):
        return _line(scene, f"unchanged {since}")
    return _line(scene, f"changed {since}: {change_between(before, revision).said}")


def _line(scene: Scene, said: str) -> RenderedView:
    return one_line((f"({said})",), scene.budget, scene.count)


def lost_line(scene: Scene, error: PageLostError) -> RenderedView:
    """The line that stands for lines which cannot be read any more."""
    return one_line((str(error), "(cannot be read any more)"), scene.budget, scene.count, whole=False)
