"""The values around one run: the request, the effects asked of the host, the outcome, and what ticks apply and want.

The host, environments and workers exchange them. Data only; must not know how a statement runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal

from msgspec import Struct, field

from ..core.execution import Captured, Display, ExceptionInfo, ExecutionStatus, Location, NamespaceDiff
from ..core.ids import ExecutionId, ObjId, PayloadId
from ..core.pictures import GivenPicture
from ..core.text import Exact
from .events import Event
from .events.nodes import PayloadBasis, PayloadCost, PayloadKind

STEP_CONTENT_BYTES: Final = 64 << 20
"""The most content of revisions that a worker sends for one statement or tick; the rest is not kept."""
PAYLOAD_BYTES: Final = 256 << 10
"""The most data that a payload may have."""


class RunRequest(Struct, frozen=True, kw_only=True):
    """One execution to run. Tracebacks show `label` as the file name; nodes note `round_id` when they are touched.

    `index` is the statement's number, with which the ids of its handles begin. With `plan`, every act outside raises
    PermissionError; that is bookkeeping, not a security boundary. With `answered` it does the same, except for effects,
    which the handler answers from a record. With `keeps`, the small values that it changed follow the outcome, for
    `Environment.kept`. `unread`: it is a re-run, whose result no conversation has, so handles that it shows were shown
    to nobody, except renders that are among `known` (`Display.identity`): the conversation shows them, and with
    `is_known_read` a model has read them. The first tick that it calls applies or drops `payloads`, oldest first.
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
    unread: bool = False
    known: tuple[str, ...] = ()
    is_known_read: bool = False
    payloads: tuple[UpdatePayload, ...] = ()


class RunOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of one execution. `events` are unstamped node and name events in the order in which they happened.

    `contents` are the revisions that nodes adopted, by xxh3 hex; a worker sends each once. `acted`: it asked for an
    effect, or did something outside that a rebuild would stop. `writing` are the files that its process still has open
    for writing. `more` counts acts on files that no `TouchSink` was told of. `stops` are phrases that say what a re-run
    was stopped from doing. `markdown` or `pictures` are the rich form of the value.
    """

    status: ExecutionStatus
    value: str | None = None
    markdown: str = ""
    pictures: tuple[GivenPicture, ...] = ()
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


class EffectRequest(Struct, frozen=True, kw_only=True):
    """An effect that a statement asks of the host: `operation` with plain-data arguments. `ordinal` counts in the run.

    `basis` is the xxh3 hex of the file's content as a view last showed it, None if no view did.
    """

    ordinal: int
    operation: str
    arguments: dict[str, object]
    basis: str | None = None


class EffectAnswer(Struct, frozen=True, kw_only=True):
    """Plain data for the statement, or the exception to raise in it."""

    value: object = None
    error: ExceptionInfo | None = None


EffectHandler = Callable[[EffectRequest], Awaitable[EffectAnswer]]
"""Performs an effect. An exception that it raises becomes the statement's."""
OutputSink = Callable[[Literal["stdout", "stderr"], str], None]
"""Receives the name of a stream and printed text while the statement or program runs."""
ANYTHING: Final = b""
"""Stands for files that nobody can name beforehand, such as those of a process that is about to start."""
BY_LIBRARY: Final = b"library"
"""Stands for files that C code of a library may write, which nothing announces."""
TouchSink = Callable[[bytes, Callable[[], None]], None]
"""Receives the real path of a file that a statement says it is about to write, ANYTHING or BY_LIBRARY, and a callback.

The statement waits until the callback is called, so the sink can read the file first. The path is a claim: nothing else
vouches for it. Returns at once and raises nothing; calls back on the loop's thread.
"""


def ignore_touched(_path: bytes, looked: Callable[[], None]) -> None:
    """A `TouchSink` that keeps nothing."""
    looked()


class UpdatePayload(Struct, frozen=True, kw_only=True):
    """Something prepared for a node between ticks, for a tick to apply. The fields are those of AsyncPayloadPrepared.

    `data` depends on `payload_kind`: for a `render` the content of the file, for a `diff` nothing.
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
    """Something that could be prepared for a node's next tick, given the node's state after this one.

    `work` names the preparer; `detail` is plain data for it. `path` and `title` are the document's, if there is one.
    """

    obj_id: ObjId
    work: Exact
    payload_kind: PayloadKind
    basis: PayloadBasis
    path: Exact = ""
    title: str = ""
    detail: dict[str, Exact | int] = field(default_factory=dict[str, Exact | int])


class TickOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of one tick: unstamped events in the order of the phases; `contents` as in `RunOutcome`.

    `nodes` is how many were running. `stops` are sentences that say what work from before a rebuild was stopped from
    doing. `wants` is everything that could be prepared for later ticks.
    """

    events: tuple[Event, ...] = ()
    time_ms: float = 0.0
    nodes: int = 0
    stops: tuple[str, ...] = ()
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    wants: tuple[Want, ...] = ()
