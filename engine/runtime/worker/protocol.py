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
from ...files.tails import FeedItem, HandleRow, News
from ...log.events.nodes import OutlineTier, RevisionState
from ...log.past import ValueGroup
from ...log.statements import UpdatePayload, Want

# --- host to zygote, on the control channel of one worker ------------------------------------------------------------


class Fork(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The first message on a control channel: start a worker. Sizes in bytes; `kept_out`, `servers` and
    `domain` as in `EnvironmentSpec`."""

    cwd: str
    directories: tuple[str, ...]
    confined: bool
    kept_out: str
    servers: dict[str, str]
    import_paths: tuple[str, ...]
    variables: dict[str, str]
    data_bytes: int
    open_files: int
    allow_sudo: bool = False
    domain: Domain | None = None


class Execute(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Another first message on a control channel: start the keeper of a program. Sizes in bytes.

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


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """Send SIGINT to the worker, or to the keeper, which then ends its program."""


class Kill(msgspec.Struct, frozen=True, tag=True):
    """End the worker or the keeper, and all its descendants."""


class Watch(msgspec.Struct, frozen=True, tag=True):
    """Limit memory and number of the process and its descendants, while a statement or program runs.

    When it is off, the descendants that were left behind are watched, less often.
    """

    on: bool


class Adopt(msgspec.Struct, frozen=True, tag=True):
    """Another first message on a control channel: expect a copy of a worker, which reports on the socket sent with it.

    Then it is treated like a forked process in that domain. One that `pauses` starts nothing. Size in bytes.
    """

    data_bytes: int
    domain: Domain | None = None
    pauses: bool = False


ToZygote = Fork | Execute | Adopt | Interrupt | Kill | Watch

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
    """In a recording `question` is its operation and the digest of its arguments, None where that is not known.

    `title` is the question in words, empty where they are not known. One that is not to be had there has the reason as
    `lost`, a phrase that follows "the answer".
    """

    ordinal: int
    question: tuple[str, str] | None = None
    title: str = ""
    value: object = None
    error: ExceptionInfo | None = None
    lost: str = ""


class Look(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """In a recording: what the look number `look` at `path` brought, as in `RevisionAdopted`.

    What it has of content was sent as `Content`, once to each worker; where that is not to be had, `lost` says why, in
    a phrase that follows "the content".
    """

    path: str
    look: int
    state: RevisionState
    digest: str = ""
    size: int = 0
    notice: str = ""
    lost: str = ""


class BuffersMoved(msgspec.Struct, frozen=True, tag=True):
    """The user's editor may hold another text of these files, or of all; the first one says that there is an editor.

    Has no answer.
    """

    paths: tuple[str, ...] | None


class BufferTexts(msgspec.Struct, frozen=True, tag=True):
    """The answer to the `AskBuffers` of that number. A path is missing where nothing is known of it."""

    number: int
    texts: dict[str, str | None]


class Noted(msgspec.Struct, frozen=True, tag=True):
    """The host has looked at the file of the `Touching` with that number, or will not look: it may be written now."""

    number: int


class Content(msgspec.Struct, frozen=True, tag=True):
    """The content of a revision, by its xxh3 hex: in a replay to the worker, otherwise to the host. Has no answer."""

    digest: Exact
    data: bytes


class Known(msgspec.Struct, frozen=True, tag=True):
    """In a replay: what was seen in a step that does not run again, and whether a model had read the handles before it.

    Has no answer.
    """

    revisions: tuple[Look, ...]
    after_reading: bool = False


class Outlined(msgspec.Struct, frozen=True, tag=True):
    """In a replay, ahead of its steps: what outlined the contents that were outlined, by digest. Has no answer."""

    tiers: dict[str, OutlineTier]


class Run(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Execute the statement number `index`.

    In a replay, during which nothing outside is touched, `recorded` answers its effects and `revisions` the looks of
    its nodes, None where those were not recorded. With `plan` nothing outside is changed either, and what would is
    refused with PermissionError; with `answered` too, but for what the host is asked for. `after_reading`: a model has
    read the handles since the message before, as they were then. `ticks` are the times of the ticks that it asked for,
    where it runs again. With `keeps` a `Kept` follows.
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


class Tick(msgspec.Struct, frozen=True, tag=True):
    """Applies `payloads`, oldest first, and lets running nodes catch up at `now`. `after_reading` as in `Run`.

    With `replay` their looks are answered from `revisions`, and nobody is told of what changed.
    """

    round_id: int
    now: float
    replay: bool = False
    revisions: tuple[Look, ...] = ()
    after_reading: bool = False
    payloads: tuple[UpdatePayload, ...] = ()


class Project(msgspec.Struct, frozen=True, tag=True):
    """Count `texts` and, where there is a `budget`, render the tail. `after_reading` as in `Run`."""

    texts: tuple[str, ...]
    budget: int
    news: News
    after_reading: bool = False


class LookAt(msgspec.Struct, frozen=True, tag=True):
    """Say which handles there are, and render those of `names`, each within `tokens` where that is given.

    With `at_sources` say also which of those that run are stale.
    """

    names: tuple[str, ...]
    tokens: int | None = None
    at_sources: bool = False


class Foresee(msgspec.Struct, frozen=True, tag=True):
    """Say what a tick in that Round would find at `now`, and change nothing."""

    round_id: int
    now: float


class CleanUp(msgspec.Struct, frozen=True, tag=True):
    """The statement was stopped: end what it has started, and forget an interrupt that came too late for it."""


class Snapshot(msgspec.Struct, frozen=True, tag=True):
    """Make a checkpoint, with the descriptors that came on the hand-over socket. Has no answer: the copy reports."""


class Preserve(msgspec.Struct, frozen=True, tag=True):
    """Pickle the names that changed and are in no answer so far; with `large` also large values, in a child."""

    large: bool


class Collect(msgspec.Struct, frozen=True, tag=True):
    """Say which values the children have pickled by now."""


class SetValues(msgspec.Struct, frozen=True, tag=True):
    """In a replay: bind these names to what was kept of them, and delete those."""

    groups: tuple[ValueGroup, ...]
    delete: tuple[str, ...] = ()


class Settle(msgspec.Struct, frozen=True, tag=True):
    """The history has run again: live statements follow. `after_reading` as in `Run`.

    The next `Preserve` pickles the names in `anew`, too, as far as they are bound.
    """

    after_reading: bool = False
    anew: tuple[str, ...] = ()


class Repeat(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A statement of a batch: it runs again, and what it comes to is compared with `record` where it runs.

    `copies` are what is kept of the names that it had bound, for a statement that is likely to be kept from an act:
    where it is, the worker binds them. None where that is left to the host.
    """

    run: Run
    record: Ending
    copies: tuple[ValueGroup, ...] | None = None


ReplayStep = Repeat | Tick | Known


class Replay(msgspec.Struct, frozen=True, tag=True):
    """Steps of a history, one after the other, each the msgpack of a `ReplayStep`; `contents` are what they see.

    The worker says `Began` and, of what it brought back by itself, `BroughtBack`. The answer is `Replayed` where it
    needs nobody, or the `Ran` of the first statement that came out differently; no step after that has begun.
    """

    steps: tuple[msgspec.Raw, ...]
    contents: tuple[Content, ...] = ()


class OutputTaken(msgspec.Struct, frozen=True, tag=True):
    """The host is about to read what was written while a `Replay` goes on, so that it is not seen to be there."""


ToWorker = (
    Run
    | Tick
    | Project
    | LookAt
    | Foresee
    | Answer
    | BuffersMoved
    | BufferTexts
    | Noted
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
    """The namespace is there and requests may come. `layers` hold it to its domain, where it has one."""

    layers: tuple[Layer, ...] = ()


class Ask(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A statement wants an effect of the host, and waits for its `Answer`. `basis` as in `EffectRequest`.

    The `ordinal` of a question about the record (`toolbox.RECALLS`), which is no effect, is below 0.
    """

    ordinal: int
    operation: Exact
    arguments: dict[str, ExactData]
    basis: Exact | None = None


class RecalledFile(msgspec.Struct, frozen=True):
    """The value of an answer to `RECALL_FILE`: what there was of the file; None where there was none."""

    content: bytes | None


class AskBuffers(msgspec.Struct, frozen=True, tag=True):
    """A statement or a tick looks at these absolute paths: which texts does the user's editor hold of them?"""

    number: int
    paths: tuple[Exact, ...]


TOUCHED_FILES: Final = 5_000
"""So many files one statement tells of; further acts are counted."""


class Touching(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A statement's own code is about to write a file, at any moment while a statement runs, and waits for `Noted`.

    It says where and nothing else: what the file holds, the host reads itself, because a statement can send this too.
    """

    number: int
    path: bytes


class Ran(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """How a statement ended. `events` are event JSON; `stops` says what a replay kept from happening.

    `acted`: it asked for an effect, or did something outside that a replay would keep it from. `writing` and
    `more` as in `RunOutcome`.
    """

    execution_id: Exact
    status: ExecutionStatus
    value: str | None = None
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
    """`nodes` is how many were running, `stops` and `wants` as in `TickOutcome`; of a replay no `wants` are told."""

    events: tuple[bytes, ...]
    time_ms: float
    nodes: int = 0
    stops: tuple[str, ...] = ()
    wants: tuple[Want, ...] = ()


KEPT_BYTES: Final = 1 << 20
"""What the groups of one `Kept` come to at most."""
KEPT_GROUPS: Final = 32
"""How many groups one `Kept` has at most."""


class Kept(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The names that an execution changed, as far as they are small and pickling them calls no code of the user's.

    One-way, as soon as it is there after `Ran`. `left`: of others `Preserve` has to be asked.
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
    """Of a `Replay` the statement begins that is the step of that number, from 0; or, `loading`, that of its copies."""

    step: int
    loading: bool = False


class BroughtBack(msgspec.Struct, frozen=True, tag=True):
    """The step was kept from an act, and the names that came out differently were set from its copies.

    `failures` has the names that could not be set, each with the reason.
    """

    ran: Ran
    failures: dict[str, str]


class Replayed(msgspec.Struct, frozen=True, tag=True):
    """So many steps of a `Replay` are over, and the others have not begun."""

    steps: int


class Projected(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    tail: str
    tail_tokens: int
    text_tokens: tuple[int, ...]
    handles: tuple[HandleRow, ...] = ()
    sections: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    nodes: dict[str, int] = msgspec.field(default_factory=dict[str, int])


class LookedAt(msgspec.Struct, frozen=True, tag=True):
    """The answer to `LookAt`, as `files.tails.Looked`."""

    rows: tuple[HandleRow, ...] = ()
    shown: dict[str, Display] = msgspec.field(default_factory=dict[str, Display])
    stale: tuple[Exact, ...] = ()


class Foreseen(msgspec.Struct, frozen=True, tag=True):
    """The answer to `Foresee`, as `Environment.foresee`."""

    items: tuple[FeedItem, ...] = ()


class CleanedUp(msgspec.Struct, frozen=True, tag=True):
    """The answer to `CleanUp`."""


class Settled(msgspec.Struct, frozen=True, tag=True):
    """The answer to `Settle`: a sentence on each thing that the history left at work, or was kept from by now.

    `absent` are those of its names that are not bound.
    """

    sentences: tuple[str, ...]
    absent: tuple[Exact, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The request could not be served; the worker lives on, unless it never said `Started`."""

    reason: str


FromWorker = (
    Started
    | Ask
    | AskBuffers
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
