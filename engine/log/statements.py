"""What a statement is run with, what it asks of the host meanwhile, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal

from msgspec import Struct, field

from ..core.execution import Captured, Display, ExceptionInfo, ExecutionStatus, Location, NamespaceDiff
from ..core.ids import ExecutionId, ObjId, PayloadId
from ..core.text import Exact
from .events import Event
from .events.nodes import PayloadBasis, PayloadCost, PayloadKind


class RunRequest(Struct, frozen=True, kw_only=True):
    """One execution to run. `label` is what tracebacks call the source; `round_id` is what nodes note as touched.

    `index` is the statement's number, which the ids of its handles begin with. With `plan` whatever would change
    something outside raises PermissionError; bookkeeping, not a boundary. So it does with `answered`, but for what the
    handler of effects is asked for, which answers from a record. With `keeps` the small values that it changed follow
    the outcome by themselves, for `Environment.kept`.
    """

    execution_id: ExecutionId
    label: str
    source: str
    index: int = 0
    round_id: int = 0
    time_limit: float | None = None
    plan: bool = False
    answered: bool = False
    keeps: bool = False


class RunOutcome(Struct, frozen=True, kw_only=True):
    """What came of it. `events` are unstamped node and name events in the order in which they happened.

    `contents` are those of the revisions that nodes adopted, by xxh3 hex, each once from one worker. `acted`: it asked
    for an effect, or did something outside that a rebuild would keep it from. `writing` are the files that its process
    has open for writing since; `more` counts acts on files of which no `Touched` says anything. `stops` are phrases on
    what it was kept from, where it ran again.
    """

    status: ExecutionStatus
    value: str | None = None
    exception: ExceptionInfo | None = None
    time_ms: float = 0.0
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)
    displays: tuple[Display, ...] = ()
    locations: tuple[Location, ...] = ()
    diff: NamespaceDiff = field(default_factory=NamespaceDiff)
    stops: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    acted: bool = False
    writing: tuple[bytes, ...] = ()
    more: int = 0


class Touched(Struct, frozen=True, kw_only=True):
    """A file that a statement's own code is about to write, and what it holds until then.

    `path` is its real place, as the file system has it; `digest` is xxh3 hex, empty where there is no file. Where the
    content was not read, `data` is None, `note` says why, and `digest` stands for the state of the file. `mode` are its
    permission bits.
    """

    path: bytes
    digest: str = ""
    data: bytes | None = None
    note: str = ""
    mode: int | None = None


class EffectRequest(Struct, frozen=True, kw_only=True):
    """What a statement asks of the host: `operation` with plain-data arguments; `ordinal` counts within the run.

    `basis` is the xxh3 hex of what a view last showed of the file that it is about, None where no view did.
    """

    ordinal: int
    operation: str
    arguments: dict[str, object]
    basis: str | None = None


class EffectAnswer(Struct, frozen=True, kw_only=True):
    """Plain data for the statement, or the exception it is to see."""

    value: object = None
    error: ExceptionInfo | None = None


EffectHandler = Callable[[EffectRequest], Awaitable[EffectAnswer]]
"""Performs what a statement asks of the host; what it raises is the statement's exception."""


OutputSink = Callable[[Literal["stdout", "stderr"], str], None]
"""Is given the name of the stream and what was printed, while the statement or the program runs."""


TouchSink = Callable[[Touched], None]
"""Is told of each file once in a statement, before it is written; blocks nobody for long and raises nothing."""


def ignore_touched(touched: Touched) -> None:
    """A `TouchSink` that keeps nothing."""


# ticks values:
# What is prepared for a tick, and what comes of one.

STEP_CONTENT_BYTES: Final = 64 << 20
"""Contents of revisions that a worker sends of one statement or tick, at most; what is more is not kept."""


PAYLOAD_BYTES: Final = 256 << 10
"""A payload has at most so many bytes of data."""


class UpdatePayload(Struct, frozen=True, kw_only=True):
    """What was prepared for a node, beside statements and ticks, to be applied by a tick. As in AsyncPayloadPrepared.

    `data` is what `payload_kind` says: for a `render` the content of the file, for a `diff` nothing.
    """

    payload_id: PayloadId
    obj_id: ObjId
    prepared_at: float
    payload_kind: PayloadKind
    basis: PayloadBasis
    payload_hash: str
    data: bytes = b""
    cost: PayloadCost = field(default_factory=PayloadCost)


class Want(Struct, frozen=True, kw_only=True):
    """What a node could use at a tick to come, if somebody prepared it, as the node is after this tick.

    `work` names who can prepare it; `detail` is plain data for them. `path` and `title` are the document's, where there
    is one.
    """

    obj_id: ObjId
    work: Exact
    payload_kind: PayloadKind
    basis: PayloadBasis
    path: Exact = ""
    title: str = ""
    detail: dict[str, Exact | int] = field(default_factory=dict[str, Exact | int])


class TickOutcome(Struct, frozen=True, kw_only=True):
    """The events of one tick, unstamped, in the order of the phases; `contents` as in `RunOutcome`.

    `nodes` is how many were running. `stops` are sentences on what work from before a rebuild was kept from meanwhile.
    `wants` is all that could be prepared for ticks to come.
    """

    events: tuple[Event, ...] = ()
    time_ms: float = 0.0
    nodes: int = 0
    stops: tuple[str, ...] = ()
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    wants: tuple[Want, ...] = ()
