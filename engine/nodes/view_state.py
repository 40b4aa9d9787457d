"""The state of a view handle as plain data, which outlives the process of the handle.

What a file held is not in it but named by its digest: whoever loads the state finds it on the record. Called by
ViewHandle and the Board.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ..events.nodes import RevisionState
from ..ticks.result import Frequency
from .position import Pos
from .revision import Revision


class ViewState(msgspec.Struct, frozen=True, kw_only=True):
    """A view handle. `text` is what it shows where that is no file's, from `first_line` on, and None for a file.

    `path`, `title` and `outside` are the document's; `state` to `notice` are the revision shown, as the log has them in
    a RevisionAdopted. `tokens` of None are All. The others are as the handle's attributes of that name.
    """

    type: Literal["view"] = "view"
    path: str | None
    title: str
    outside: bool
    text: str | None
    first_line: int
    state: RevisionState
    digest: str
    size: int
    notice: str
    pos: Pos
    tokens: int | None
    lod: int
    running: bool
    freq: Frequency | None
    min_turn_interval: int
    last_tick_turn: int
    last_tick_time: float
    changed: bool
    dirty: list[Literal["pos", "policy", "source"]]

    @property
    def lost(self) -> str:
        """As `SeenRevision` has it: why a content cannot be had is not known here."""
        return ""


def plain(state: ViewState) -> dict[str, object]:
    """The state as a dict of plain values."""
    return msgspec.to_builtins(state)


def view_state(plain: object) -> ViewState:
    """The state that is this plain data. Raises ValueError for anything else."""
    try:
        return msgspec.convert(plain, ViewState)
    except msgspec.ValidationError as error:
        raise ValueError(f"no state of a handle: {error}") from None


def text_of(revision: Revision) -> str | None:
    """The text of a revision that is one; None for what was in a file."""
    if revision.encoding != "text":
        return None
    end = "\n" if revision.final_newline and revision.lines else ""
    return "\n".join(revision.lines) + end
