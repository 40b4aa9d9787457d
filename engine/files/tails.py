"""The input of a prompt's tail: the handles, and the news of the log.

Plain data that crosses processes.
"""

from __future__ import annotations

from msgspec import Struct, field

from ..core.execution import Display
from ..core.text import Exact


class HandleRow(Struct, frozen=True, kw_only=True):
    """A row of the handle table and `/views`.

    `path` is the absolute path of a view's file, empty for other handles. `children` are the ids of a group's nodes.
    `idle`: a running group that cannot change until a member runs.
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
    path: str = ""
    pinned: bool = False
    idle: bool = False
    children: tuple[Exact, ...] = ()


class Policy(Struct, frozen=True):
    """A handle now: its name, and the arguments that would make it, as Python; None for one that need not be written.

    `members` are the positional arguments of a group; None if one cannot be written, and for views.
    """

    name: Exact
    arguments: dict[str, str | None]
    members: tuple[str, ...] | None = None


class Looked(Struct, frozen=True, kw_only=True):
    """The handles: a row for each, in the order of creation, and the renders that were asked for.

    `shown` and `policies` are by the requested name or id; unknown ones are missing. `stale` are the ids of handles
    that a tick would change.
    """

    rows: tuple[HandleRow, ...] = ()
    shown: dict[str, Display] = field(default_factory=dict[str, Display])
    policies: dict[str, Policy] = field(default_factory=dict[str, Policy])
    stale: tuple[Exact, ...] = ()


class FeedItem(Struct, frozen=True):
    """A change of a node, or of the namespace if `obj_id` is empty, that no statement caused.

    `text` is one line, or more with a diff, without a newline at its end. `is_source`: the node's source, or members of
    the group, have other content.
    """

    obj_id: Exact
    text: str
    is_source: bool = False


class Expansion(Struct, frozen=True):
    """A handle that a statement from outside the model's turns showed, at `lod` within `tokens`, 0 for All.

    `is_own`: at the handle's own policy, and the other fields mean nothing.
    """

    obj_id: Exact
    lod: int = 0
    tokens: int = 0
    is_own: bool = True


class MadeHandle(Struct, frozen=True, kw_only=True):
    """A handle that a statement made: the line in it, from 1 (0: unknown), and the handle's name then.

    `changed_by` are the methods that have changed its content since; `until` is the number of the first statement that
    called one of them, 0 for none.
    """

    obj_id: str
    line: int
    name: str = ""
    changed_by: tuple[str, ...] = ()
    until: int = 0


class PastStatement(Struct, frozen=True, kw_only=True):
    """A statement that a condensation removed from the View, by its number.

    `lines_left_out` counts missing lines at the end of a long source. `ended` is empty for success, else the failure.
    `files` are paths that it looked at and that its source does not name.
    """

    index: int
    source: str
    lines_left_out: int = 0
    ended: str = ""
    files: tuple[str, ...] = ()
    made: tuple[MadeHandle, ...] = ()


class StandingRender(Struct, frozen=True, kw_only=True):
    """The last render of a handle in a result of the View: the statement, and exact tokens.

    `digest` is the xxh3 hex of its text. `is_old_policy`: the handle's policy changed since, and its content did not.
    """

    obj_id: str
    statement: int
    tokens: int
    digest: str
    is_old_policy: bool = False


class News(Struct, frozen=True, kw_only=True):
    """The log's input of a tail: news for the model, oldest first, and the number of older items.

    `earlier` are the last changes of nodes that the model has read in tails. `expansions` are the handles that
    statements from outside its turns showed, with `expansions_left_out` older ones. `statements` are those that
    condensations removed from the View, oldest first, with `statements_left_out` older ones. `standing` are the renders
    in the View. `diverged` has the numbers of statements that diverged when they ran again, by handle id. `plan` are
    the lines of the plan that the user sees.
    """

    items: tuple[FeedItem, ...] = ()
    left_out: int = 0
    earlier: tuple[FeedItem, ...] = ()
    expansions: tuple[Expansion, ...] = ()
    expansions_left_out: int = 0
    statements: tuple[PastStatement, ...] = ()
    statements_left_out: int = 0
    standing: tuple[StandingRender, ...] = ()
    diverged: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    plan: tuple[str, ...] = ()


class ProjectionPart(Struct, frozen=True, kw_only=True):
    """The worker's share of a projection: the tail block, and exact tokens of the texts that it was given.

    `sections` and `nodes` are the tail's tokens for each section and for each handle.
    """

    tail: str
    tail_tokens: int
    text_tokens: tuple[int, ...] = ()
    handles: tuple[HandleRow, ...] = ()
    sections: dict[str, int] = field(default_factory=dict[str, int])
    nodes: dict[str, int] = field(default_factory=dict[str, int])
