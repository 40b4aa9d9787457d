"""The state of a view handle as plain data, which outlives the process of the handle.

What a file held is not in it but named by its digest: whoever loads the state finds it on the record. Called by
ViewHandle and the Board.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ..log.events.nodes import RevisionState
from .position import Pos
from .revision import Revision
from .shown_revisions import ShownRevision
from .ticks.result import Frequency


class ShownState(msgspec.Struct, frozen=True, kw_only=True):
    """A revision that was displayed, as plain data; the fields mean what those of `ViewState` do.

    `is_present`: it is the one that the handle shows, and the other fields are empty.
    """

    statement: int
    is_present: bool = False
    text: str | None = None
    first_line: int = 1
    state: RevisionState = "text"
    digest: str = ""
    size: int = 0
    notice: str = ""

    @property
    def lost(self) -> str:
        """As `ViewState.lost`."""
        return ""


class ViewState(msgspec.Struct, frozen=True, kw_only=True):
    """A view handle. `text` is what it shows where that is no file's, from `first_line` on, and None for a file.

    `path`, `title` and `outside` are the document's; `state` to `notice` are the revision shown, as the log has them in
    a RevisionAdopted. `tokens` of None are All. `read` is the revision that a model read last, `unread` the first and
    the last that were displayed since. `symbol_line` is where the symbol is that `pos` names, counted from 0, and
    `symbol_gone` says that it is no more. The others are as the handle's attributes of that name.
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
    symbol_line: int = 0
    symbol_gone: bool = False
    tokens: int | None
    lod: int
    running: bool
    freq: Frequency | None
    min_turn_interval: int
    last_tick_turn: int
    last_tick_time: float
    changed: bool
    dirty: list[Literal["pos", "policy", "source"]]
    summary: str = ""
    read: ShownState | None = None
    unread: list[ShownState] = msgspec.field(default_factory=list[ShownState])
    last_touched: int = 0
    pinned: str | None = None

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


def shown_state(shown: ShownRevision, present: Revision) -> ShownState:
    """What was displayed, as plain data of a handle that shows `present`."""
    revision = shown.revision
    if revision.same_as(present) and revision.first_line == present.first_line:
        return ShownState(statement=shown.statement, is_present=True)
    return ShownState(
        statement=shown.statement,
        text=text_of(revision),
        first_line=revision.first_line,
        state=revision.state,
        digest=revision.digest,
        size=revision.size,
        notice=revision.notice,
    )


def text_of(revision: Revision) -> str | None:
    """The text of a revision that is one; None for what was in a file."""
    if revision.encoding != "text":
        return None
    end = "\n" if revision.final_newline and revision.lines else ""
    return "\n".join(revision.lines) + end
