"""The messages between host, zygote and worker, as tagged structures; `framing` turns them into bytes.

The host redacts messages of a worker field by field, so the type of a field says what it is: a `str` is text and is
redacted; `Exact`, `ExactData`, literals and bytes are not. Must not know who sends or receives a message. Almost 600
lines, because a reader of one side of a conversation needs the other.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.domain import Domain, Layer
from ...core.execution import Display, Ending, ExceptionInfo, ExecutionStatus, Location, NamespaceDiff
from ...core.text import Exact, ExactData
from ...files.tails import FeedItem, HandleRow, Looked, News
from ...log.events.nodes import OutlineTier, RevisionState
from ...log.past import ValueGroup
from ...log.statements import UpdatePayload, Want

# --- host to zygote, on the control channel of one worker ------------------------------------------------------------


class Start(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The first message on a control channel: start a worker, or the keeper of a program.

    What it shall do, a `Fork` or an `Execute`, is sent on its own socket. The zygote must not know that: all processes
    inherit its memory, and programs have secrets in their arguments, variables and input. Size in bytes.
    """

    is_keeper: bool
    data_bytes: int
    domain: Domain | None = None


class Adopt(msgspec.Struct, frozen=True, tag=True):
    """Another first message on a control channel: expect a copy of a worker, which reports on the socket sent with it.

    Then it is treated like a forked process in that domain. One that `pauses` starts nothing. Size in bytes.
    """

    data_bytes: int
    domain: Domain | None = None
    pauses: bool = False


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """Send SIGINT to the worker, or to the keeper, which then ends its program."""


class Kill(msgspec.Struct, frozen=True, tag=True):
    """End the worker or the keeper, and all its descendants."""


class Watch(msgspec.Struct, frozen=True, tag=True):
    """Limit memory and number of the process and its descendants, while a statement or program runs.

    When it is off, the descendants that were left behind are watched, less often.
    """

    on: bool


ToZygote = Start | Adopt | Interrupt | Kill | Watch

# --- host to a forked process, the first message on its own socket ---------------------------------------------------


class Fork(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Become a worker. Sizes in bytes; `kept_out`, `servers` and `domain` as in `EnvironmentSpec`."""

    cwd: str
    directories: tuple[str, ...]
    confined: bool
    kept_out: tuple[str, ...]
    servers: dict[str, str]
    import_paths: tuple[str, ...]
    variables: dict[str, str]
    data_bytes: int
    open_files: int
    allow_sudo: bool = False
    domain: Domain | None = None


class Execute(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Become the keeper of this program. Sizes in bytes.

    With a `directory`, a device and an inode, `cwd` must lead there without links. If `stdin` is None, its descriptor
    was sent with those of the keeper. With a `domain` the program starts only if its layers are active
    (`domain.is_held`).
    """

    argv: tuple[bytes, ...]
    cwd: bytes
    variables: dict[str, str]
    stdin: bytes | None
    merged: bool
    directory: tuple[int, int] | None = None
    data_bytes: int
    open_files: int
    allow_sudo: bool = False
    domain: Domain | None = None


ToForked = Fork | Execute

# --- zygote to host --------------------------------------------------------------------------------------------------


class Forked(msgspec.Struct, frozen=True, tag=True):
    pid: int


class Interrupted(msgspec.Struct, frozen=True, tag=True):
    """SIGINT was sent: messages that the host sends from now on arrive after it."""


class Died(msgspec.Struct, frozen=True, tag=True):
    """The process was reaped, its descendants were sent SIGKILL. `wait_status` as from `waitpid`; -1 for no fork."""

    wait_status: int
    reason: str = ""


FromZygote = Forked | Interrupted | Died

# --- keeper of a program to host -------------------------------------------------------------------------------------


class Finished(msgspec.Struct, frozen=True, tag=True):
    """The program and its descendants have ended. `wait_status` as from `waitpid`."""

    wait_status: int


class NotStarted(msgspec.Struct, frozen=True, tag=True):
    """The program could not start: the number and message of the system's error, and its subject."""

    number: int
    reason: str
    about: str


FromKeeper = Finished | NotStarted

# --- checkpoint to host, on its own socket ---------------------------------------------------------------------------


class Paused(msgspec.Struct, frozen=True, tag=True):
    """The copy exists, and the worker was blocked for so many seconds.

    `shared`: phrases on what it shares with others or lacks.
    """

    seconds: float
    shared: tuple[str, ...] = ()


class NotTaken(msgspec.Struct, frozen=True, tag=True):
    """There is no copy, because of a reason in a phrase."""

    reason: str


FromCheckpoint = Paused | NotTaken

# --- host to worker --------------------------------------------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The answer to an `Ask`; also one of a recording.

    In a recording, `question` is the operation and the digest of its arguments, None if unknown; `title` is the
    question in words, "" if unknown. `lost` is the reason why the answer is missing, a phrase that follows "the
    answer".
    """

    ordinal: int
    question: tuple[str, str] | None = None
    title: str = ""
    value: object = None
    error: ExceptionInfo | None = None
    lost: str = ""


class Look(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """In a recording: the result of the look number `look` at `path`, as in `RevisionAdopted`.

    Its content was sent as `Content`, once to each worker. `lost` is the reason why it is missing, a phrase that
    follows "the content".
    """

    path: str
    look: int
    state: RevisionState
    digest: str = ""
    size: int = 0
    notice: str = ""
    lost: str = ""


class BuffersMoved(msgspec.Struct, frozen=True, tag=True):
    """The editor's texts of these files, or of all, may have changed. The first one announces an editor.

    Has no answer.
    """

    paths: tuple[str, ...] | None


class BufferTexts(msgspec.Struct, frozen=True, tag=True):
    """The answer to the `AskBuffers` of that number. Unknown paths are missing."""

    number: int
    texts: dict[str, str | None]


class HiddenLines(msgspec.Struct, frozen=True, tag=True):
    """The answer to the `AskHidden` of that number: lines with secrets, without these, by their number from 0."""

    number: int
    lines: dict[int, str]


class Noted(msgspec.Struct, frozen=True, tag=True):
    """The host has read the file of the `Touching` with that number, or will not: it may be written now."""

    number: int


class Stopping(msgspec.Struct, frozen=True, tag=True):
    """An interrupt follows, which stops the running statement: by its time limit of `seconds`, or by a cancel."""

    seconds: float | None = None


class Content(msgspec.Struct, frozen=True, tag=True):
    """The content of a revision, by its xxh3 hex: to the worker in a replay, otherwise to the host. Has no answer."""

    digest: Exact
    data: bytes


class Known(msgspec.Struct, frozen=True, tag=True):
    """In a replay: the looks of a step that does not run again, and whether a model had read the handles before it.

    Has no answer.
    """

    revisions: tuple[Look, ...]
    after_reading: bool = False


class Outlined(msgspec.Struct, frozen=True, tag=True):
    """In a replay, before its steps: what made the outline of each content, by digest. Has no answer."""

    tiers: dict[str, OutlineTier]


class Run(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Execute the statement number `index`.

    In a replay, which touches nothing outside, `recorded` answers its effects, and `revisions` the looks of its nodes;
    None if they were not recorded. With `plan`, changes outside are refused with PermissionError. So they are with
    `answered`, except requests to the host. `after_reading`: a model has read the handles since the last message.
    `ticks` are the recorded times of the ticks that it requested. With `keeps` a `Kept` follows. `unread`,
    `known`, `is_known_read` and `payloads` as in `RunRequest`.
    """

    execution_id: str
    label: str
    source: str
    round_id: int
    index: int = 0
    recorded: tuple[Answer, ...] | None = None
    revisions: tuple[Look, ...] | None = None
    plan: bool = False
    answered: bool = False
    after_reading: bool = False
    ticks: tuple[float, ...] = ()
    keeps: bool = False
    unread: bool = False
    known: tuple[str, ...] = ()
    is_known_read: bool = False
    payloads: tuple[UpdatePayload, ...] = ()


class Tick(msgspec.Struct, frozen=True, tag=True):
    """Apply `payloads`, oldest first, and let running nodes catch up at `now`. `after_reading` as in `Run`.

    With `replay`, `revisions` answer their looks, and changes are not reported.
    """

    round_id: int
    now: float
    replay: bool = False
    revisions: tuple[Look, ...] = ()
    after_reading: bool = False
    payloads: tuple[UpdatePayload, ...] = ()


class Project(msgspec.Struct, frozen=True, tag=True):
    """Count `texts`, and render the tail if there is a `budget`. `after_reading` as in `Run`."""

    texts: tuple[str, ...]
    budget: int
    news: News
    after_reading: bool = False


class LookAt(msgspec.Struct, frozen=True, tag=True):
    """Report the handles, and render those of `names`, each within `tokens` if given.

    With `at_sources`, also report the running ones that are stale.
    """

    names: tuple[str, ...]
    tokens: int | None = None
    at_sources: bool = False


class Foresee(msgspec.Struct, frozen=True, tag=True):
    """Report what a tick in that Round would find at `now`, and change nothing."""

    round_id: int
    now: float


class CleanUp(msgspec.Struct, frozen=True, tag=True):
    """After a stopped statement: end what it started, and forget an interrupt that came too late."""


class Snapshot(msgspec.Struct, frozen=True, tag=True):
    """Make a checkpoint, with the descriptors that came on the hand-over socket. Has no answer: the copy reports."""


class Preserve(msgspec.Struct, frozen=True, tag=True):
    """Pickle the names that changed and are in no answer so far; with `large` also large values, in a child."""

    large: bool


class Collect(msgspec.Struct, frozen=True, tag=True):
    """Report the values that the children have pickled so far."""


class SetValues(msgspec.Struct, frozen=True, tag=True):
    """In a replay: bind some names to their saved values, and delete others."""

    groups: tuple[ValueGroup, ...]
    delete: tuple[str, ...] = ()


class Settle(msgspec.Struct, frozen=True, tag=True):
    """End a rebuild: live statements follow. `after_reading` as in `Run`.

    The next `Preserve` also pickles the names in `anew` that are bound.
    """

    after_reading: bool = False
    anew: tuple[str, ...] = ()


class Repeat(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A statement of a batch: it runs again, and the worker compares its result with `record`.

    `copies` are the saved values of the names that it had bound. They are sent if one of its acts is likely to be
    prevented; when one is, the worker binds them. None leaves that to the host.
    """

    run: Run
    record: Ending
    copies: tuple[ValueGroup, ...] | None = None


ReplayStep = Repeat | Tick | Known


class Replay(msgspec.Struct, frozen=True, tag=True):
    """Run steps of a history in order, each the msgpack of a `ReplayStep`; `contents` are the contents that they see.

    The worker reports `Began`, and `BroughtBack` for names that it restored by itself. The answer is `Replayed` if the
    host has nothing to decide, else the `Ran` of the first statement with a difference; no later step has begun then.
    """

    steps: tuple[msgspec.Raw, ...]
    contents: tuple[Content, ...] = ()


class OutputTaken(msgspec.Struct, frozen=True, tag=True):
    """The host is about to read the output during a `Replay`, so the worker will not find it in the pipes any more."""


ToWorker = (
    Run
    | Tick
    | Project
    | LookAt
    | Foresee
    | Answer
    | BuffersMoved
    | BufferTexts
    | HiddenLines
    | Noted
    | Stopping
    | CleanUp
    | Snapshot
    | Preserve
    | Collect
    | Content
    | Known
    | Outlined
    | SetValues
    | Settle
    | Replay
    | OutputTaken
)

# --- worker to host --------------------------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True, tag=True):
    """The namespace is ready for requests. `layers` enforce its domain, if it has one and is fresh.

    A worker that is restored from a checkpoint does not say them, because statements ran in it.
    """

    layers: tuple[Layer, ...] = ()


class Ask(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A statement requests an effect, and waits for the `Answer`. `basis` as in `EffectRequest`.

    A question about the record (`toolbox.RECALLS`) is not an effect, and its `ordinal` is below 0.
    """

    ordinal: int
    operation: Exact
    arguments: dict[str, ExactData]
    basis: Exact | None = None


class RecalledFile(msgspec.Struct, frozen=True):
    """The value of an answer to `RECALL_FILE`: the recorded content; None if there was no file."""

    content: bytes | None


class AskBuffers(msgspec.Struct, frozen=True, tag=True):
    """Request the editor's texts of these absolute paths, for a statement or a tick."""

    number: int
    paths: tuple[Exact, ...]


class AskHidden(msgspec.Struct, frozen=True, tag=True):
    """Request the lines of a text in UTF-8 that have secrets, which the worker does not know. Can come at any time
    while the host waits for an answer.
    """

    number: int
    text: bytes


TOUCHED_FILES: Final = 5_000
"""The most files that one statement reports; further acts are counted."""


class Touching(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A statement's own code is about to write a file, and waits for `Noted`. Can come at any time during a statement.

    It has only the path: the host reads the content itself, because a statement can send this message too.
    """

    number: int
    path: bytes


class ShownPicture(msgspec.Struct, frozen=True):
    """A picture that a statement made, as its library wrote it; `pixels` as in `GivenPicture`.

    Only the decoder opens it.
    """

    media_type: Exact
    data: bytes
    name: str = ""
    pixels: int = 0


class Ran(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The end of a statement. `events` are event JSON; `stops` has phrases on acts that a replay prevented.

    `acted`: it requested an effect, or did something outside that a replay would prevent. `writing` and `more` as in
    `RunOutcome`.
    """

    execution_id: Exact
    status: ExecutionStatus
    value: str | None = None
    markdown: str = ""
    pictures: tuple[ShownPicture, ...] = ()
    exception: ExceptionInfo | None = None
    time_ms: float = 0.0
    displays: tuple[Display, ...] = ()
    locations: tuple[Location, ...] = ()
    diff: NamespaceDiff = msgspec.field(default_factory=NamespaceDiff)
    events: tuple[bytes, ...] = ()
    stops: tuple[str, ...] = ()
    acted: bool = False
    writing: tuple[bytes, ...] = ()
    more: int = 0


class Ticked(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The answer to `Tick`. `nodes` counts the running ones; `stops` and `wants` as in `TickOutcome`.

    A replay reports no `wants`.
    """

    events: tuple[bytes, ...]
    time_ms: float
    nodes: int = 0
    stops: tuple[str, ...] = ()
    wants: tuple[Want, ...] = ()


KEPT_BYTES: Final = 1 << 20
"""The largest size of all groups of one `Kept`."""
KEPT_GROUPS: Final = 32
"""The most groups of one `Kept`."""


class Kept(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The changed names of an execution that are small, and whose pickling calls no user code.

    Sent without a request, soon after `Ran`. `left`: other names remain, for `Preserve`.
    """

    execution_id: Exact
    groups: tuple[ValueGroup, ...] = ()
    unkept: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    left: bool = False


class Pickled(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The answer to `Preserve` and `Collect`, as `log.past_values.Preserved`."""

    groups: tuple[ValueGroup, ...] = ()
    unkept: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    pending: bool = False


class ValuesSet(msgspec.Struct, frozen=True, tag=True):
    """The answer to `SetValues`: the names that could not be bound, each with the reason."""

    failures: dict[str, str]


class Began(msgspec.Struct, frozen=True, tag=True):
    """In a `Replay`, the statement at that step, counted from 0, begins; or, if `loading`, its copies are loaded."""

    step: int
    loading: bool = False


class BroughtBack(msgspec.Struct, frozen=True, tag=True):
    """An act of the step was prevented, and the differing names were set from its copies.

    `failures` has the names that could not be set, each with the reason.
    """

    ran: Ran
    failures: dict[str, str]


class Replayed(msgspec.Struct, frozen=True, tag=True):
    """The number of steps of a `Replay` that are over; the others have not begun."""

    steps: int


class Projected(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    tail: str
    tail_tokens: int
    text_tokens: tuple[int, ...]
    handles: tuple[HandleRow, ...] = ()
    sections: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    nodes: dict[str, int] = msgspec.field(default_factory=dict[str, int])


class LookedAt(msgspec.Struct, frozen=True, tag=True):
    """The answer to `LookAt`."""

    looked: Looked


class Foreseen(msgspec.Struct, frozen=True, tag=True):
    """The answer to `Foresee`, as `Environment.foresee`."""

    items: tuple[FeedItem, ...] = ()


class CleanedUp(msgspec.Struct, frozen=True, tag=True):
    """The answer to `CleanUp`."""


class Settled(msgspec.Struct, frozen=True, tag=True):
    """The answer to `Settle`: sentences on work that continues, and on prevented acts.

    `absent` are those of its names that are not bound.
    """

    sentences: tuple[str, ...]
    absent: tuple[Exact, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The request failed. The worker lives on, unless it never sent `Started`."""

    reason: str


FromWorker = (
    Started
    | Ask
    | AskBuffers
    | AskHidden
    | Touching
    | Content
    | Ran
    | Ticked
    | Projected
    | LookedAt
    | Foreseen
    | CleanedUp
    | Kept
    | Pickled
    | ValuesSet
    | Settled
    | Began
    | BroughtBack
    | Replayed
    | Failed
)
