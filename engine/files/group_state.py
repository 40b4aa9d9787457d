"""The states of groups and of their globs as plain data, which outlive the process of the handle.

Its members are not in it but beside it, as the nodes that they are, each with a state of its own. Called by GroupHandle
and by who keeps handles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import asdict

from ..log.events.nodes import RevisionState
from .glob_member import Glob
from .revision import Revision, without_content
from .shown_revisions import ShownRevisions
from .ticks.result import Frequency


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group. `tokens` of None are All. The others are as the handle's attributes of that name."""

    type: Literal["group"] = "group"
    tokens: int | None
    lod: int
    running: bool
    freq: Frequency | None
    min_turn_interval: int
    last_tick_turn: int
    last_tick_time: float
    changed: bool
    dirty: bool
    last_touched: int = 0
    pinned: str | None = None


def group_state(plain: object) -> GroupState:
    """The state that is this plain data. Raises ValueError for anything else."""
    try:
        return msgspec.convert(plain, GroupState)
    except msgspec.ValidationError as error:
        raise ValueError(f"no state of a group: {error}") from None


class SeenState(msgspec.Struct, frozen=True, kw_only=True):
    """What a glob has seen of a file, with its `path` and `mark` in the manifest, or of the manifest itself."""

    path: str = ""
    mark: str = ""
    state: RevisionState
    digest: str
    size: int
    notice: str

    @property
    def lost(self) -> str:
        """As `SeenRevision` has it: why a content cannot be had is not known here."""
        return ""


class ShownFileState(SeenState, frozen=True, kw_only=True):
    """What was displayed of a file by the statement of that index, and whether a model has read it."""

    statement: int
    is_read: bool


class GlobState(msgspec.Struct, frozen=True, kw_only=True):
    """A glob that is a member of a group. What its files held is named by digests."""

    type: Literal["glob"] = "glob"
    root: str
    pattern: str
    text: str
    manifest: SeenState
    contents: list[SeenState]
    shown: list[ShownFileState] = msgspec.field(default_factory=list[ShownFileState])


def glob_state(glob: Glob) -> GlobState:
    """The state of a glob that has been looked at."""
    contents = [_seen(revision, path, mark) for path, (mark, revision) in glob.contents.items()]
    manifest = _seen(glob.revision or without_content("missing", ""))
    shown = [state for path, revisions in glob.shown.items() for state in _shown(path, revisions)]
    return GlobState(
        root=glob.root, pattern=glob.pattern, text=glob.text, manifest=manifest, contents=contents, shown=shown
    )


def _shown(path: str, shown: ShownRevisions) -> Iterator[ShownFileState]:
    for each, is_read in ((shown.read, True), *((each, False) for each in shown.unread)):
        if each is not None:
            seen = asdict(_seen(each.revision, path))
            yield ShownFileState(**seen, statement=each.statement, is_read=is_read)


def glob_state_from(plain: object) -> GlobState:
    """The state that is this plain data. Raises ValueError for anything else."""
    try:
        return msgspec.convert(plain, GlobState)
    except msgspec.ValidationError as error:
        raise ValueError(f"no state of a glob: {error}") from None


def _seen(revision: Revision, path: str = "", mark: str = "") -> SeenState:
    return SeenState(
        path=path,
        mark=mark,
        state=revision.state,
        digest=revision.digest,
        size=revision.size,
        notice=revision.notice,
    )
