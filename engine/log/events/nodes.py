"""Context objects (nodes): method calls, changes, ticks, prepared payloads, and the files behind them."""

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
"""The state of a document; the last four have no content. A "paged" text is too large to keep in memory."""
OutlineTier = Literal["tree-sitter", "ctags", "indentation"]
"""The maker of an outline, the best first; the last one never fails."""
PayloadKind = Literal["diff", "render", "parse", "index", "other"]
"""The content of a payload: the fact that the source differs, the new content, an outline, or an index."""
DropReason = Literal["stale", "vanished", "superseded", "too large", "unusable", "secret"]
"""Why a payload was not applied. "stale": its basis is no longer the node's; "vanished": the node is gone;
"superseded": there is a newer payload."""


class NodeMade(Event, frozen=True, kw_only=True):
    """A statement made a node.

    `statement` is the statement's number. `line` is the line of the call in that statement, from 1; 0 if unknown.
    `name` is the variable that held the node when the statement ended, empty if none did.
    """

    kind: ClassVar[str] = "node_made"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    obj_type: Exact
    statement: StatementNumber
    line: int = 0
    name: Named = ""


class PayloadBasis(Struct, frozen=True, kw_only=True):
    """The inputs of a payload in xxh3 hex: the node's content, its policy, and further ones; empty for none."""

    obj_digest_hash: Exact = ""
    policy_hash: Exact = ""
    deps_hash: Exact = ""


class PayloadCost(Struct, frozen=True, kw_only=True):
    """The cost of preparing: milliseconds, bytes of data, tokens that a model read and wrote."""

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
    """The content of a node changed; `delta` is the line for the change feed.

    `is_source`: its source has other content, of which `delta` has the diff.
    """

    kind: ClassVar[str] = "node_changed"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    obj_type: Exact
    delta: str
    is_source: bool = False


class TickApplied(Event, frozen=True, kw_only=True):
    """A tick of `tick_kind` changed the node in the Round `turn_id`."""

    kind: ClassVar[str] = "tick_applied"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    tick_kind: TickKind
    turn_id: int
    delta: str


class GroupRecomputed(Event, frozen=True, kw_only=True):
    """A tick updated the summary of a group; `delta` says which members changed.

    It is empty if only groups changed and a group around this one changed, too: the innermost and outermost groups
    report that. `files` is the part of `delta` about the files of globs, which have no FileChanged; empty for none.
    Diffs of these files follow in the next lines of `delta`.
    """

    kind: ClassVar[str] = "group_recomputed"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    delta: str
    files: str = ""


class FileChanged(Event, frozen=True, kw_only=True):
    """A tick found that the file of a running view or group had changed.

    The digests are xxh3 in hexadecimal; an empty one means that there is no content.
    """

    kind: ClassVar[str] = "file_changed"
    from_worker: ClassVar[bool] = True

    path: str
    change: FileChangeKind
    before_digest: Exact = ""
    after_digest: Exact = ""
    delta: str = ""


class RevisionAdopted(Event, frozen=True, kw_only=True):
    """Nodes adopted another revision of a file after a look at it, in a statement or at a tick.

    `look` is the number of this look at `path` in that statement or tick, from 0. `digest` is the xxh3 hex of the
    content, empty if there is none. `content` names the blob with the content; None if it was not kept. If the content
    had a secret, `withheld` is the digest of the content.
    `notice` is the sentence shown instead of content, or above it.

    The content of a paged text is the index of its pages. Each page that was read is a look by itself, at the path
    followed by `/../`, the page's position and its digest. A path with `/./` in it stands for a glob.
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
    """The content with that xxh3 hex was outlined by `tier`. Re-runs use the same tier."""

    kind: ClassVar[str] = "outline_made"
    from_worker: ClassVar[bool] = True

    digest: Exact
    tier: OutlineTier


class AdoptedContent(Struct, frozen=True, kw_only=True):
    """The result of a look at a file; the fields are those of RevisionAdopted."""

    path: str
    look: int
    state: RevisionState
    digest: Exact = ""
    size: int = 0
    notice: str = ""
    content: BlobDigest | None = None
    withheld: Exact = ""


class ContentsAdopted(Event, frozen=True, kw_only=True):
    """A statement or tick read files of globs, in this order. Each counts as a RevisionAdopted."""

    kind: ClassVar[str] = "contents_adopted"
    from_worker: ClassVar[bool] = True

    files: tuple[AdoptedContent, ...]


class NodesTicked(Event, frozen=True, kw_only=True):
    """A tick ran in the Round `round_id` at `now`, in epoch seconds. `nodes` were running; their changes follow."""

    kind: ClassVar[str] = "nodes_ticked"

    round_id: int
    now: float
    nodes: int


class StatementTicked(Event, frozen=True, kw_only=True):
    """A statement called `tick()` at `now`, seconds since the epoch, in the Round `round_id`, with `nodes` running.

    Its changes follow among the other events of the execution.
    """

    kind: ClassVar[str] = "statement_ticked"
    from_worker: ClassVar[bool] = True

    execution_id: ExecutionId
    round_id: int
    now: float
    nodes: int


class AsyncPayloadPrepared(Event, frozen=True, kw_only=True):
    """A payload was prepared for a node between ticks. The next tick applies or drops it.

    `prepared_at` is in seconds since the epoch. `data` is a blob: None for a `diff`, which has no data, and if it was
    not kept, because it is too large or has a secret. `payload_hash` is its xxh3 hex. `basis` is the node's state that
    it was made for.
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
    """The tick in the Round `turn_id` applied a payload to its node; `delta` describes the change."""

    kind: ClassVar[str] = "async_payload_applied"
    from_worker: ClassVar[bool] = True

    payload_id: PayloadId
    obj_id: ObjId
    payload_kind: PayloadKind
    turn_id: int
    delta: str = ""


class AsyncPayloadDropped(Event, frozen=True, kw_only=True):
    """A payload was dropped and will not be applied. `turn_id` is the Round of the tick that dropped it, or None."""

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
    """Return the looks at files that an event records, in order."""
    match event:
        case RevisionAdopted():
            return (event,)
        case ContentsAdopted(files=files):
            return files
        case _:
            return ()
