"""The levels of detail, one file each, and the table that finds them.

A renderer is pure: the same revision, place, budget and counter give the same text. Called by ViewHandle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..position import Place
from ..rendered import RenderedView
from ..revision import Revision
from . import raw

Renderer = Callable[[Revision, Place, int, Callable[[str], int]], RenderedView]
"""Revision, place, budget in tokens (at least 1), counter."""

LEVELS: Final[dict[int, Renderer]] = {0: raw.render}


def checked_lod(lod: object) -> int:
    """`lod` if there is such a level.

    Raises:
        ValueError: there is none; the message says which there are.
    """
    if isinstance(lod, int) and not isinstance(lod, bool) and lod in LEVELS:
        return int(lod)
    known = ", ".join(map(str, LEVELS))
    raise ValueError(f"lod={lod!r}: lod {known} is what this version renders (raw excerpt)")
