"""What the tail block of a prompt is made from: handles as they are, and the news of the log."""

from __future__ import annotations

from msgspec import Struct, field

from ..core.execution import Display
from ..core.text import Exact


class HandleRow(Struct, frozen=True, kw_only=True):
    """One handle as the handle table and `/views` show it. `children` are the ids of the nodes that a group holds.

    `idle`: a running group that nothing changes until a member runs.
    """

    name: Exact
    obj_id: Exact
    obj_type: Exact
    mode: Exact
    freq: Exact
    lod: int
    tokens: int
    used_tokens: int
    changed: bool
    title: str
    pinned: bool = False
    idle: bool = False
    children: tuple[Exact, ...] = ()


class Looked(Struct, frozen=True, kw_only=True):
    """Handles as they are: a row of each, in the order of creation, and what each that was asked for shows.

    That is by the name or the id that was asked for; one that no handle has is not in `shown`. `stale` are the ids of
    those that a tick would find changed.
    """

    rows: tuple[HandleRow, ...] = ()
    shown: dict[str, Display] = field(default_factory=dict[str, Display])
    stale: tuple[Exact, ...] = ()


class FeedItem(Struct, frozen=True):
    """Something that happened by itself: of a node, or with an empty `obj_id` of the namespace.

    `text` is one line, or more with a diff, without a newline at its end.
    """

    obj_id: Exact
    text: str


class MadeHandle(Struct, frozen=True, kw_only=True):
    """A handle that a statement made: in which line of it, from 1, 0 for not known; and what it was called then.

    `changed_by` are the methods that have changed what the handle shows since; `until` is the number of the first
    statement that called one of them, 0 for none.
    """

    obj_id: str
    line: int
    name: str = ""
    changed_by: tuple[str, ...] = ()
    until: int = 0


class PastStatement(Struct, frozen=True, kw_only=True):
    """A statement that a condensation took from the View, by its number.

    Of a long source the end is missing: `lines_left_out`. `ended` is empty where it ended well, else what became of it.
    `files` are paths that it looked at and that its source does not name.
    """

    index: int
    source: str
    lines_left_out: int = 0
    ended: str = ""
    files: tuple[str, ...] = ()
    made: tuple[MadeHandle, ...] = ()


class StandingRender(Struct, frozen=True, kw_only=True):
    """The last render of a handle that a result in the View holds: in that of which statement, and its exact tokens.

    `digest` is the xxh3 hex of its text. `is_old_policy`: the handle has another policy since, and the same content.
    """

    obj_id: str
    statement: int
    tokens: int
    digest: str
    is_old_policy: bool = False


class News(Struct, frozen=True, kw_only=True):
    """What the log has for a tail: what is new to the model, oldest first, and how many older items are not among it.

    `earlier` are changes of nodes that it has read since it was last given the content of those. `expansions` are
    renders that statements from outside its turns asked for, and `expansions_left_out` is the number of older ones.
    `statements` are those that condensations took from the View, oldest first, and `statements_left_out` is the number
    of older ones. `standing` are the renders that the View holds of handles. `diverged` has, by the ids of handles, the
    numbers of statements of theirs that came out differently when they ran again.
    """

    items: tuple[FeedItem, ...] = ()
    left_out: int = 0
    earlier: tuple[FeedItem, ...] = ()
    expansions: tuple[FeedItem, ...] = ()
    expansions_left_out: int = 0
    statements: tuple[PastStatement, ...] = ()
    statements_left_out: int = 0
    standing: tuple[StandingRender, ...] = ()
    diverged: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


class ProjectionPart(Struct, frozen=True, kw_only=True):
    """The worker's share of a projection: the tail block, and exact token counts of the texts it was asked about.

    `sections` and `nodes` say what of the tail's tokens each section, and what is about each handle, takes.
    """

    tail: str
    tail_tokens: int
    text_tokens: tuple[int, ...] = ()
    handles: tuple[HandleRow, ...] = ()
    sections: dict[str, int] = field(default_factory=dict[str, int])
    nodes: dict[str, int] = field(default_factory=dict[str, int])
