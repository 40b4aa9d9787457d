"""All that a render may depend on, as one value, and what the levels have in common: one line where one is enough.

Pure. Must not know handles. Made by whoever renders (`ViewHandle`, groups), read by the levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.cutting import DOTS
from ..outline.model import Outline
from ..position import Place
from ..rendered import RenderedView
from ..revision import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One revision at one place within one budget.

    `budget` is in tokens, at least 1, and `count` gives exact tokens. `last_shown` is the revision that the model read
    last of this node, None where it has read none, and `shown_in` the index of the statement that showed it, 0 where
    that is not known. `outline` is of the revision, for the levels that need one. `summary` is what a model wrote about
    the revision, empty where nothing is prepared.
    """

    revision: Revision
    place: Place
    budget: int
    count: Callable[[str], int]
    title: str = ""
    last_shown: Revision | None = None
    shown_in: int = 0
    outline: Outline | None = None
    summary: str = ""


def one_line(
    candidates: Sequence[str], budget: int, count: Callable[[str], int], *, whole: bool = True
) -> RenderedView:
    """The first of the lines that fits, given without their newlines; "..." where none does, and at last nothing.

    Args:
        whole: whether the first of them says all.
    """
    for candidate in (*candidates, DOTS):
        tokens = count(candidate + "\n")
        if tokens <= budget:
            return RenderedView(text=candidate + "\n", tokens=tokens, whole=whole and candidate == candidates[0])
    return RenderedView(text="", tokens=0, whole=False)


def instead_of_lines(scene: Scene) -> RenderedView | None:
    """What stands for a revision that has no lines, at every level; None for one that has some."""
    revision = scene.revision
    if revision.lines:
        return None
    short = "(empty)" if revision.state == "text" else f"({revision.state})"
    return one_line((revision.notice, short), scene.budget, scene.count)
