"""What happened to context objects: method calls, changes, ticks, and the files behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec import Struct, field

from ...core.execution import StatementNumber
from ...core.ids import BlobDigest, ExecutionId, ObjId, PayloadId
from ...core.text import Exact, Named
from .base import Event

TickKind = Literal["sync", "periodic", "async", "group"]
FileChangeKind = Literal["modified", "created", "deleted", "unreadable"]
RevisionState = Literal["text", "paged", "binary", "missing", "unreadable", "directory", "too large"]
"""What a document is found to be; the last four have no content. A "paged" text is too large to be held."""
OutlineTier = Literal["tree-sitter", "ctags", "indentation"]
"""What made an outline, the best first; the last one never fails."""


class NodeMade(Event, frozen=True, kw_only=True):
    """A statement made a node.

    `statement` is its index and `line` the line of the call in it, from 1, 0 where that is not known. `name` is what
    the namespace called the node when the statement had ended, empty where it had no name.
    """

    kind: ClassVar[str] = "node_made"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    obj_type: Exact
    statement: StatementNumber
    line: int = 0
    name: Named = ""


PayloadKind = Literal["diff", "render", "parse", "index", "other"]
"""What was prepared for a node: that its source differs, without the content; that content; an outline; an index."""
DropReason = Literal["stale", "vanished", "superseded", "too large", "unusable", "secret"]
"""Why a payload was not applied: its basis is not the node's any more; there is no such node; there is a newer one."""


class PayloadBasis(Struct, frozen=True, kw_only=True):
    """What a payload was prepared from, in xxh3 hex: the node's content, its policy, and whatever else it depends on.

    Empty is what it does not depend on.
    """

    obj_digest_hash: Exact = ""
    policy_hash: Exact = ""
    deps_hash: Exact = ""


class PayloadCost(Struct, frozen=True, kw_only=True):
    """What preparing took: milliseconds, bytes of data, tokens that a model read and wrote."""

    time_ms: float = 0.0
    bytes: int = 0
    tokens: int = 0


class MethodCalled(Event, frozen=True, kw_only=True):
    """A mutating method of a node was called. Arguments are bounded reprs; digests are those of `GetDigest`."""

    kind: ClassVar[str] = "method_called"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    obj_type: Exact
    method: Exact
    args: tuple[str, ...] = ()
    kwargs: dict[str, str] = field(default_factory=dict[str, str])
    before_digest: Exact = ""
    after_digest: Exact = ""


class NodeChanged(Event, frozen=True, kw_only=True):
    """A node shows something else than before; `delta` is the line that the change feed shows."""

    kind: ClassVar[str] = "node_changed"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    obj_type: Exact
    delta: str


class TickApplied(Event, frozen=True, kw_only=True):
    """A tick of `tick_kind` changed the node in the Round `turn_id`."""

    kind: ClassVar[str] = "tick_applied"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    tick_kind: TickKind
    turn_id: int
    delta: str


class GroupRecomputed(Event, frozen=True, kw_only=True):
    """A tick made the summary of a group anew; `delta` says which of its members have changed.

    It is empty where those are groups and a group around this one changed, too: the innermost and the outermost say so.
    `files` is the part of `delta` about files of globs, for which there is no FileChanged; empty for none.
    """

    kind: ClassVar[str] = "group_recomputed"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    delta: str
    files: str = ""


class FileChanged(Event, frozen=True, kw_only=True):
    """A file behind a running node was seen to have changed at a tick. Digests are xxh3 hex, empty for no content."""

    kind: ClassVar[str] = "file_changed"
    from_worker: ClassVar[bool] = True

    path: str
    change: FileChangeKind
    before_digest: Exact = ""
    after_digest: Exact = ""
    delta: str = ""


class RevisionAdopted(Event, frozen=True, kw_only=True):
    """A look at a file brought nodes another revision of it, in a statement or at a tick.

    `look` counts the looks at `path` within that, from 0. `digest` is the xxh3 hex of the content, empty where there is
    none; `content` is the content as a blob, None where it is not kept, of one that held a secret with its digest as
    `withheld`. `notice` is the sentence that stands for content, or above it.

    Of a paged text the content is the index of its pages. Each page that was read is a look of its own, at the path
    followed by `/../`, the place of the page and its digest. A path with `/./` in it stands for a glob.
    """

    kind: ClassVar[str] = "revision_adopted"
    from_worker: ClassVar[bool] = True

    path: str
    look: int
    state: RevisionState
    digest: Exact = ""
    size: int = 0
    notice: str = ""
    content: BlobDigest | None = None
    withheld: Exact = ""


class OutlineMade(Event, frozen=True, kw_only=True):
    """A content, known by its xxh3 hex, was outlined by `tier`; what outlines it later is to be the same."""

    kind: ClassVar[str] = "outline_made"
    from_worker: ClassVar[bool] = True

    digest: Exact
    tier: OutlineTier


class AdoptedContent(Struct, frozen=True, kw_only=True):
    """What a look at a file brought; the fields are those of RevisionAdopted."""

    path: str
    look: int
    state: RevisionState
    digest: Exact = ""
    size: int = 0
    notice: str = ""
    content: BlobDigest | None = None
    withheld: Exact = ""


class ContentsAdopted(Event, frozen=True, kw_only=True):
    """The files of globs that a statement or a tick has read, in order: each look is as a RevisionAdopted."""

    kind: ClassVar[str] = "contents_adopted"
    from_worker: ClassVar[bool] = True

    files: tuple[AdoptedContent, ...]


class NodesTicked(Event, frozen=True, kw_only=True):
    """A tick in the Round `round_id` at `now`, seconds since the epoch. `nodes` were running; what changed follows."""

    kind: ClassVar[str] = "nodes_ticked"

    round_id: int
    now: float
    nodes: int


class StatementTicked(Event, frozen=True, kw_only=True):
    """A statement called `tick()` at `now`, seconds since the epoch, in the Round `round_id`; `nodes` were running.

    What changed follows, among the other events of the execution.
    """

    kind: ClassVar[str] = "statement_ticked"
    from_worker: ClassVar[bool] = True

    execution_id: ExecutionId
    round_id: int
    now: float
    nodes: int


class AsyncPayloadPrepared(Event, frozen=True, kw_only=True):
    """Something was prepared for a node, beside statements and ticks. The next tick applies it, or drops it.

    `prepared_at` is in seconds since the epoch. `data` is a blob, None for a `diff`, which has none, and where it
    is not kept because it is too large or held a secret; `payload_hash` is its xxh3 hex. `basis` says of which state of
    the node it holds.
    """

    kind: ClassVar[str] = "async_payload_prepared"

    payload_id: PayloadId
    obj_id: ObjId
    prepared_at: float
    payload_kind: PayloadKind
    basis: PayloadBasis
    payload_hash: Exact
    data: BlobDigest | None = None
    cost: PayloadCost = field(default_factory=PayloadCost)


class AsyncPayloadApplied(Event, frozen=True, kw_only=True):
    """The tick in the Round `turn_id` applied a payload to its node; `delta` is how the node changed by that."""

    kind: ClassVar[str] = "async_payload_applied"
    from_worker: ClassVar[bool] = True

    payload_id: PayloadId
    obj_id: ObjId
    payload_kind: PayloadKind
    turn_id: int
    delta: str = ""


class AsyncPayloadDropped(Event, frozen=True, kw_only=True):
    """A payload was not applied, and will not be. `turn_id` is the Round of the tick that dropped it, None for none."""

    kind: ClassVar[str] = "async_payload_dropped"
    from_worker: ClassVar[bool] = True

    payload_id: PayloadId
    obj_id: ObjId
    payload_kind: PayloadKind
    reason: DropReason
    turn_id: int | None = None


NodeEvent = (
    NodeMade
    | MethodCalled
    | NodeChanged
    | TickApplied
    | GroupRecomputed
    | FileChanged
    | RevisionAdopted
    | ContentsAdopted
    | OutlineMade
    | NodesTicked
    | StatementTicked
    | AsyncPayloadPrepared
    | AsyncPayloadApplied
    | AsyncPayloadDropped
)


def seen_in(event: Event) -> Sequence[RevisionAdopted | AdoptedContent]:
    """The looks at files that an event is the record of, in order."""
    match event:
        case RevisionAdopted():
            return (event,)
        case ContentsAdopted(files=files):
            return files
        case _:
            return ()
