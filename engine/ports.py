"""What the engine needs from outside, as Protocols, with the plain values that cross them.

Nothing here performs anything. Implementations: `environment` (Environment), `store` (Store), `models`
(Model), `config.system` (Clock, Entropy). Tests bring a fixed clock and counting entropy. One file in spite of its
length, because whoever implements a port reads its neighbours.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Literal, Protocol

from msgspec import Struct, field

from .cutting import between, cut_line
from .domain import Domain, Layer
from .errors import StoreError
from .events import Event
from .events.nodes import OutlineTier, PayloadBasis, PayloadCost, PayloadKind, RevisionState
from .events.session import PermissionOutcome
from .execution import (
    Aspect,
    Captured,
    Display,
    Ending,
    ExceptionInfo,
    ExecutionStatus,
    Location,
    NamespaceDiff,
    TextChange,
)
from .ids import BlobDigest, ExecutionId, ObjId, PayloadId, Seq, SessionId, ToolCallId

# --- time and chance -------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...


class Entropy(Protocol):
    """Where randomness comes from."""

    def bytes(self, count: int) -> bytes:
        """So many random bytes."""
        ...


# --- files, as nodes see them ----------------------------------------------------------------------------------------


class FileStamp(Struct, frozen=True):
    """What decides whether a file has to be read again; equal stamps mean equal content."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


class OpenFile(Protocol):
    """A regular file that is open for reading, whatever is put in its place meanwhile. Errors are OSError."""

    def stamp(self) -> FileStamp:
        """As the file is now."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on; fewer only at the end of the file."""
        ...


class Files(Protocol):
    """Reading for nodes. Errors are OSError, as from the operating system."""

    def stamp(self, path: str) -> FileStamp: ...

    def read(self, path: str, limit: int) -> bytes:
        """The first `limit` bytes of a regular file. Raises OSError for anything else, IsADirectoryError for those."""
        ...

    def opened(self, path: str) -> AbstractContextManager[OpenFile]:
        """The file, to be read in parts. Raises as `read`."""
        ...

    def entries(self, path: str, limit: int) -> list[str]:
        """The names in a directory, in any order, those of directories with a slash; at most `limit` of them."""
        ...


class Buffers(Protocol):
    """What the user's editor holds of files, saved or not, for the views of one session."""

    @property
    def offers(self) -> bool:
        """Whether there is an editor that says anything; where there is none, nothing else is called."""
        ...

    async def take_moved(self) -> Collection[str] | None:
        """The absolute paths of which the texts may be others since the last call; None for all, as at the first.

        Where it is cancelled, nothing was taken.
        """
        ...

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """What it holds of the files at these absolute paths, within seconds; None where it has no text of one.

        A path of which that is not to be learned is missing. Raises nothing.
        """
        ...


class Editor(Protocol):
    """The files of one session as a user's editor offers them; who is attached to a session may have one.

    A text has no byte order mark, and ends its lines as the editor likes.
    """

    @property
    def offers(self) -> bool:
        """Whether `read` has anything to say."""
        ...

    @property
    def writes(self) -> bool:
        """Whether `write` can be asked for."""
        ...

    @property
    def opened(self) -> Collection[str]:
        """The absolute paths of the documents that it says it has open, as it spells them, links in them included."""
        ...

    def take_moved(self) -> Collection[str] | None:
        """The paths that may have another text since the last call, as in `opened` and as `read` was asked for them.

        None for all.
        """
        ...

    async def read(self, path: str) -> str | None:
        """The text that it holds of the file at an absolute path, unsaved or not; None where it has none, or says none.

        Raises:
            TimeoutError: it has not answered in time.
            LookupError: it has the file open, and what it holds of it is not to be learned.
        """
        ...

    async def write(self, path: str, text: str) -> None:
        """Has it put that text into the file, and into what it holds of it. Raises OSError where it does not."""
        ...


class Trees(Protocol):
    """Listing the files that a glob matches, for groups. Errors are OSError."""

    def listing(self, root: str, pattern: str) -> str:
        """The manifest, as `nodes.manifest` has it; the same object as the last time where nothing has changed.

        Files that ignore files leave out are not in it, links and what is no regular file neither; at most 100,000.

        Args:
            root: an absolute directory of the workspace.
            pattern: as `find` takes it, from there.
        """
        ...


# --- the store -------------------------------------------------------------------------------------------------------


_ID_CHARS: Final = 80


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session as a listing shows it. Times are seconds since the epoch.

    `size` is in bytes: its events as JSON, and the contents they name as the store packs them. `contents_size` of them
    are contents, and `droppable_size` of these the session may drop. `damage` names what of the row the store could not
    read; what stands in its place is empty, or as near to it as can be.
    """

    session_id: SessionId
    cwd: str
    directories: tuple[str, ...] = ()
    title: str | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    events: int = 0
    size: int = 0
    contents_size: int = 0
    droppable_size: int = 0
    damage: tuple[str, ...] = ()

    @property
    def complaint(self) -> str | None:
        """One sentence on `damage` that says what to do; None where there is none."""
        if not self.damage:
            return None
        named, lost = cut_line(self.session_id, _ID_CHARS), " and ".join(self.damage)
        return (
            f"session {named} is damaged, its {lost} cannot be read:"
            " restore the store from a copy, or keep what is left with `rewindow export` and delete the session"
        )


Place = tuple[float, str]
"""Where a session stands in a listing: its `updated_at` and its id. The greatest comes first."""


class Droppable(Struct, frozen=True, kw_only=True):
    """Content that a session may drop: the position of the last event that names it, and the bytes it takes, packed."""

    seq: Seq
    size: int


class Collected(Struct, frozen=True, kw_only=True):
    """What `Store.collect` did: which sessions it deleted, which it left because they are in use, bytes given back."""

    deleted: tuple[SessionId, ...] = ()
    in_use: tuple[SessionId, ...] = ()
    freed: int = 0


CommitListener = Callable[[Seq, Exception | None], None]
"""Called on the writer's thread with the highest committed seq, and with the error that made the session read-only.

A StoreBusyError says that what was submitted has to wait; a call without an error follows when it was committed."""


class Store(Protocol):
    """Durable sessions. One writer thread groups whatever was submitted meanwhile into one commit."""

    def create(self, row: SessionRow) -> None:
        """Adds a session and acquires it for writing; durable when the first submitted event is."""
        ...

    def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
        """Makes this process the session's only writer. Raises SessionNotFoundError, SessionInUseError."""
        ...

    def release(self, session_id: SessionId) -> None:
        """Waits until what was submitted is committed or has failed, then lets other processes write."""
        ...

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        """Queues a stamped event for the next commit; returns at once.

        One that `waits` begins none: that is up to the next change that does not, or to `flush`. The same commit drops
        what the event says is to be dropped: `Event.dropped_before`.
        """
        ...

    def flush(self) -> None:
        """Begins the commit of what was submitted and waits, of all sessions; returns at once."""
        ...

    def retitle(self, session_id: SessionId, title: str | None) -> None:
        """Queues a new title for the next commit, of a session that this process writes; `updated_at` stays."""
        ...

    def move(self, session_id: SessionId, cwd: str, directories: tuple[str, ...]) -> None:
        """Queues other directories for the next commit, of a session that this process writes; `updated_at` stays."""
        ...

    def load(self, session_id: SessionId, since: int = 0, limit: int | None = None) -> Sequence[Event]:
        """The committed events from position `since` on, in order, at most `limit`.

        Also of a session that another process writes.
        """
        ...

    def row(self, session_id: SessionId) -> SessionRow:
        """One session. Raises SessionNotFoundError."""
        ...

    def rows(
        self,
        *,
        cwds: Collection[str] | None = None,
        titled: bool = False,
        after: Place | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """The sessions, the most recently updated first: those in one of `cwds`, as these were written, and after that
        place, at most `limit`.

        `titled` leaves out those without a title. Costs what the page costs, and a pass over the places of all.
        """
        ...

    def directories(self) -> Collection[str]:
        """Each `cwd` that a session has, as it was written."""
        ...

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        """The digests that the session's committed events name, of content that was put before them and not dropped."""
        ...

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        """What the session could drop now, as it is committed, the oldest first."""
        ...

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        """A whole session at once, with its times as in `row`: its events in order, contents ahead of who names them.

        All or nothing, whatever `items` raises; durable when it returns, and not acquired. Raises InvalidRequestError
        where the id is taken, InvalidEventError for a gap.
        """
        ...

    def delete(self, session_id: SessionId) -> None:
        """Removes a session with its events, and the contents that no other session names; durable when it returns.

        Raises SessionNotFoundError, SessionInUseError; also where this store holds it: release it first.
        """
        ...

    def collect(self, older_than: float) -> Collected:
        """Deletes the sessions last updated before `older_than` (seconds since the epoch) that nobody has acquired.

        Gives the space of all that was deleted so far back to the system.
        """
        ...

    def blob_put(self, data: bytes) -> BlobDigest:
        """Keeps content for the events that name its digest: the commit of such an event takes it along.

        Returns the digest at once. What no event has named by then is forgotten by `close`.
        """
        ...

    def blob_get(self, digest: BlobDigest) -> bytes:
        """The content. Raises KeyError where there is none: it was never put, or was dropped, or is lost.

        Raises StoreError where it is damaged.
        """
        ...

    def close(self) -> None:
        """Commits what was submitted and frees everything; nothing else may be called afterwards."""
        ...


# --- the environment -------------------------------------------------------------------------------------------------


class Limits(Struct, frozen=True, kw_only=True):
    """What one worker may use. Sizes in bytes, times in seconds.

    `data_bytes` bounds what each process allocates for itself and, while a statement runs, what all hold together.
    """

    data_bytes: int = 4 << 30
    open_files: int = 1024
    statement_seconds: float = 120.0
    grace_seconds: float = 0.5


class EnvironmentSpec(Struct, frozen=True, kw_only=True):
    """Where statements run: absolute directories, the project's import path, and the allowed environment variables.

    With `allow_sudo` the programs they start may gain privileges; then they can read the user's other processes.
    Views of a `confined` environment open nothing outside of `cwd` and `directories`; statements are not held by that.
    `servers` are the names of MCP servers, by those of the modules that stand for them in statements. With a `domain`
    the kernel holds statements, and what they start, to it; which `Environment.layers` says.
    """

    cwd: str
    directories: tuple[str, ...] = ()
    confined: bool = False
    servers: dict[str, str] = field(default_factory=dict[str, str])
    import_paths: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict[str, str])
    limits: Limits = field(default_factory=Limits)
    allow_sudo: bool = False
    domain: Domain | None = None


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


class CommandRequest(Struct, frozen=True, kw_only=True):
    """A program to run beside the statements.

    Its arguments begin with its absolute path; `cwd` is absolute; `seconds` is how long it may take. `stdin` is what it
    reads there, and then the end of the file. With `merged` its stderr goes into its stdout, in order. `kept_bytes` of
    each stream are kept, at most, half of them from the beginning and half from the end. Once it has printed `stop_at`
    bytes to stdout it is ended, and what it printed beyond is dropped. With a `domain` the kernel holds it to that, or
    it is not started. Directories that are `distrusted`, and relative ones, are left out of its `PATH`.
    """

    argv: tuple[str, ...]
    cwd: str
    seconds: float
    kept_bytes: int
    merged: bool = True
    stop_at: int | None = None
    stdin: bytes = b""
    domain: Domain | None = None
    distrusted: tuple[str, ...] = ()


_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""
_CUT_BYTES: Final = 3
"""So many of them a character has at most."""


class CommandOutput(Struct, frozen=True, kw_only=True):
    """What a program printed: the beginning and the end, which together are the whole where `left_out` is 0."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def left_out(self) -> int:
        """Bytes between the two that were not kept."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def text(self) -> str:
        """What was printed, what is no UTF-8 as U+FFFD; between the ends a line counts the bytes that were not kept."""
        if not self.left_out:
            return (self.head + self.tail).decode("utf-8", "replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        head = decoder.decode(self.head)
        # The cut may have gone through a character, of which each end has a part.
        tail = self.tail[:_CUT_BYTES].lstrip(_CONTINUATION) + self.tail[_CUT_BYTES:]
        lost = self.left_out + len(decoder.getstate()[0]) + len(self.tail) - len(tail)
        return head + between(lost, noun="byte") + tail.decode("utf-8", "replace")


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """How a program ended: with an exit `code`, by a `signal`, or by us.

    We end it where it `timed_out`, where it was `stopped` at `stop_at`, and for what `reason` says in words.
    """

    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    stopped: bool = False
    reason: str = ""
    stdout: CommandOutput = field(default_factory=CommandOutput)
    stderr: CommandOutput = field(default_factory=CommandOutput)
    seconds: float = 0.0


class ServerRequest(Struct, frozen=True, kw_only=True):
    """A program that is talked to for as long as it runs: its arguments, which begin with its absolute path, where it
    runs, and its whole environment."""

    argv: tuple[str, ...]
    cwd: str
    variables: dict[str, str]

    def __repr__(self) -> str:
        return "ServerRequest()"  # its arguments and variables may be secret


class ServerProcess(Protocol):
    """A program that was started to be talked to. It ends with `stop`, and with the host however that ends."""

    async def receive(self) -> bytes:
        """The next bytes that it writes to its standard output; none when it has ended, or closed that.

        Raises:
            OSError: it could not be started, by the name of the reason.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Writes to its standard input; waits for as long as it does not read. Raises BrokenPipeError."""
        ...

    def told(self) -> str:
        """How it ended, where it has, and the end of what it wrote to its standard error; in a phrase."""
        ...

    async def stop(self) -> None:
        """Ends its input, then asks it to end, then ends it with all that it started; bounded in time."""
        ...


StartServer = Callable[[EnvironmentSpec, ServerRequest], ServerProcess]
"""Starts a program with the limits of a session. Raises EnvironmentUnavailableError, ValueError."""


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
    work: str
    payload_kind: PayloadKind
    basis: PayloadBasis
    path: str = ""
    title: str = ""
    detail: dict[str, str | int] = field(default_factory=dict[str, str | int])


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


class HandleRow(Struct, frozen=True, kw_only=True):
    """One handle as the handle table and `/views` show it. `children` are the ids of the nodes that a group holds."""

    name: str
    obj_id: str
    obj_type: str
    mode: str
    freq: str
    lod: int
    tokens: int
    used_tokens: int
    changed: bool
    title: str
    pinned: bool = False
    children: tuple[str, ...] = ()


class Looked(Struct, frozen=True, kw_only=True):
    """Handles as they are: a row of each, in the order of creation, and what each that was asked for shows.

    That is by the name or the id that was asked for; one that no handle has is not in `shown`. `stale` are the ids of
    those that a tick would find changed.
    """

    rows: tuple[HandleRow, ...] = ()
    shown: dict[str, Display] = field(default_factory=dict[str, Display])
    stale: tuple[str, ...] = ()


class FeedItem(Struct, frozen=True):
    """Something that happened by itself: of a node, or with an empty `obj_id` of the namespace.

    `text` is one line, or more with a diff, without a newline at its end.
    """

    obj_id: str
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


class ValueGroup(Struct, frozen=True):
    """Names whose values share objects, and the pickle of their values; only an environment may load it."""

    names: tuple[str, ...]
    data: bytes


class Preserved(Struct, frozen=True, kw_only=True):
    """Values as they were after a statement. `unkept` has names of which there is no copy, with the reason, a phrase.

    `pending`: more of that statement's are being pickled, for `Environment.collect` to take.
    """

    groups: tuple[ValueGroup, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])
    pending: bool = False


class PastQuestion(Struct, frozen=True, kw_only=True):
    """What a recorded answer was the answer to. `title` is the call in words, empty where it is not on the log."""

    ordinal: int
    operation: str
    argument_digest: str
    title: str = ""


class PastAnswer(Struct, frozen=True, kw_only=True):
    """A recorded answer to an effect: a value's JSON as content, or the exception that the statement saw.

    `withheld`: it held a secret and was not kept. Where the log does not say what it answered, `question` is None, and
    the answer's place counts. Of an answer about one file `path` is where that really is, and `digest` the xxh3 hex of
    what it held.
    """

    content: BlobDigest | None = None
    error: ExceptionInfo | None = None
    withheld: bool = False
    question: PastQuestion | None = None
    path: str = ""
    digest: str = ""


class PastRevision(Struct, frozen=True, kw_only=True):
    """What the look number `look` at `path` brought in a step; see `RevisionAdopted`.

    Where there is a `digest` and no content, it was not kept: because it was too large, or `withheld`, for a secret.
    """

    path: str
    look: int
    state: RevisionState
    digest: str = ""
    size: int = 0
    notice: str = ""
    content: BlobDigest | None = None
    withheld: bool = False


class PastValues(Struct, frozen=True, kw_only=True):
    """Names whose values were kept together, and their pickle: as `data`, or as content; neither where it is not kept.

    `dropped`: the session has dropped it since, unless something else of it names the same content. `size` in bytes.
    """

    names: tuple[str, ...]
    content: BlobDigest | None
    dropped: bool = False
    size: int = 0
    data: bytes = b""


class PastExecution(Struct, frozen=True, kw_only=True):
    """A step of a history: an execution with what it then saw.

    `again`: it ended by itself, so it runs again; otherwise its names come from kept values alone. `hindrance` is a
    phrase on why one that ended by itself does not run again, where that is not for a secret. `bound` are the
    names that it added or changed, or may have, `unbound` those it deleted. `kept` are values as they were after it,
    `unkept` says of which names there is no copy, and why. `revisions` are those that nodes adopted; None where a log
    of an earlier version does not say. `after_reading`: a model had read the handles since the step before. `ticks` are
    the times of the ticks that it asked for. `record` is what it came to, None where whoever compares has more to go by
    than that. `acted` by itself, it is likely to be kept from it, and to need what is kept of its names.
    """

    request: RunRequest
    status: ExecutionStatus
    again: bool = True
    answers: tuple[PastAnswer, ...] = ()
    revisions: tuple[PastRevision, ...] | None = ()
    bound: tuple[str, ...] = ()
    unbound: tuple[str, ...] = ()
    kept: tuple[PastValues, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])
    hindrance: str = ""
    after_reading: bool = False
    ticks: tuple[float, ...] = ()
    record: Ending | None = None
    acted: bool = False


class PastPayload(Struct, frozen=True, kw_only=True):
    """A payload that a tick applied or dropped; its data is `content`, None where that is not kept."""

    payload: UpdatePayload
    content: BlobDigest | None = None


class PastTick(Struct, frozen=True, kw_only=True):
    """A step of a history: a tick at `now`, seconds since the epoch, with the revisions that it brought.

    `payloads` are those that it was given and that came to an end in it, in the order in which they were prepared.
    """

    round_id: int
    now: float
    revisions: tuple[PastRevision, ...] = ()
    payloads: tuple[PastPayload, ...] = ()
    after_reading: bool = False


class PastLooks(Struct, frozen=True, kw_only=True):
    """A step that does not run again: the revisions that nodes adopted in it, which later steps may show."""

    revisions: tuple[PastRevision, ...]


class PastRebuild(Struct, frozen=True, kw_only=True):
    """An earlier rebuild: what it left of names that it had no copy of, which is what the steps after it found.

    `kept` and `unkept` are of the names in `anew`; those in `absent` were bound to nothing.
    """

    anew: tuple[str, ...]
    absent: tuple[str, ...]
    kept: tuple[PastValues, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])


PastStep = PastExecution | PastTick | PastLooks | PastRebuild
"""What a history consists of."""


class RestorePlan(Struct, frozen=True, kw_only=True):
    """How a namespace came about, in the order of the log. `after_reading`: a model read the handles after that.

    `tiers` says what outlined the contents that were outlined, by their xxh3 hex. From the position `whole_from` of the
    steps on nothing is left out: what ends its worker there ends the restore. The namespace has the steps in `behind`
    behind it already; what was kept of their names still counts.
    """

    steps: tuple[PastStep, ...] = ()
    behind: tuple[PastStep, ...] = ()
    whole_from: int | None = None
    after_reading: bool = False
    tiers: dict[str, OutlineTier] = field(default_factory=dict[str, OutlineTier])


Contents = Callable[[Collection[BlobDigest]], Awaitable[Mapping[BlobDigest, bytes | StoreError]]]
"""Gives what the log names by its digest: contents, or how they are damaged; what is missing is not in the answer."""


class Divergence(Struct, frozen=True):
    """One thing that came out differently: what it was `before` and is `after`, short, empty for nothing.

    `phrase` says the same after the statement's label.
    """

    aspect: Aspect
    before: str
    after: str
    phrase: str


class Differences(Struct, frozen=True, kw_only=True):
    """How an execution that ran again differs from its record; nothing in `divergences` where it does not.

    `same` are names that both have bound to values of the same content, as far as is known for certain. `is_told`:
    whoever compared says what came out differently, and `Restored` is to say nothing but which names have no copy.
    """

    divergences: tuple[Divergence, ...] = ()
    same: frozenset[str] = frozenset()
    is_told: bool = False

    @property
    def phrases(self) -> tuple[str, ...]:
        """Of each divergence that which follows the statement's label."""
        return tuple(each.phrase for each in self.divergences)


Comparison = Callable[[PastExecution, RunOutcome], Differences]
"""Says what came out differently when that execution ran again."""


class CheckpointNews(Struct, frozen=True, kw_only=True):
    """What became of a checkpoint of the state after an execution: it is there, or, `dropped` for a reason, is not.

    `surplus`: it made room for newer ones. `seconds` is how long it kept the namespace from its work. `shared` are
    phrases on what it has in common with others, or lacks: processes, what is behind pipes and sockets, shared memory.
    `dropped` is a phrase.
    """

    execution_id: ExecutionId
    seconds: float = 0.0
    shared: tuple[str, ...] = ()
    dropped: str = ""
    surplus: bool = False


class Restored(Struct, frozen=True, kw_only=True):
    """How a rebuild went: how many executions ran again, and a sentence on each thing that came out differently.

    What was before the first of those comes from the checkpoint after the execution `checkpoint`, if there is one.

    Of the names in `anew` there was no copy, and they may be other values than they were; those in `absent` are not
    bound for the same reason. What `preserve` gives next has those in `anew`.
    """

    executions: int
    divergences: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    checkpoint: ExecutionId | None = None


class Environment(Protocol):
    """The live Python namespace with its nodes, and programs beside it.

    One request at a time; `interrupt` and `command` may come at any moment.

    A worker that dies is an outcome of `run` (status `error`, exception type `WorkerDied`), never an exception;
    `EnvironmentUnavailableError` is raised where none can be started.

    Two implementations share one contract suite: a worker process, and `environment.in_process` for tests and
    embedding. The worker's alone are: limits, variables, import paths and working directory of the spec, an end for
    whatever a statement does, and the output of children and of C code.
    """

    @property
    def alive(self) -> bool:
        """Whether there is a namespace to run in; after a kill there is none until `restore`."""
        ...

    @property
    def idle(self) -> bool:
        """Whether it is alive, and a statement that is run now is on its way before `run` awaits anything.

        False is always safe: then `begun` is nobody's concern.
        """
        ...

    @property
    def layers(self) -> Collection[Layer]:
        """What of the sandbox holds the present namespace to its domain; nothing where it has none, or none lives."""
        ...

    async def start(self, spec: EnvironmentSpec) -> None:
        """Makes a fresh namespace, in place of one that may be there."""
        ...

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        """Runs one statement to its end, whatever that is.

        `begun` is called when the statement is on its way, before anything of it is heard: what takes time then takes
        none of the statement's. Not where it never gets that far. What it raises stops the statement.
        """
        ...

    def interrupt(self) -> None:
        """Ends the statement that is running: SIGINT, after the grace SIGKILL. Its outcome is `cancelled`.

        Does nothing when no statement is running.
        """
        ...

    async def command(self, request: CommandRequest, output: OutputSink) -> CommandOutcome:
        """Runs a program beside whatever else goes on, also while a statement waits for its effect.

        It has the variables and the limits that the environment was started with, and nothing of what statements
        changed since; no terminal, and nobody to ask. `output` is given what is kept of what it prints: the beginning
        while it runs, the rest at its end. All that it started ends with it, and it ends with the wait that is
        cancelled, and with `close`.

        Raises:
            OSError: it cannot be started, by the name of the reason: FileNotFoundError, PermissionError ...
            ValueError: an argument holds a NUL character, or the request is too long to be sent.
            EnvironmentUnavailableError: the environment was not started, or is closed.
        """
        ...

    async def tick(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickOutcome:
        """Applies what was prepared, then lets running nodes catch up; `now` in seconds since the Unix epoch."""
        ...

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        """Renders the tail within `budget` tokens and counts `texts`; a budget of 0 counts alone. Changes nothing."""
        ...

    async def foresee(self, round_id: int, now: float) -> Sequence[FeedItem]:
        """What a tick in that Round would find at `now`: a line for each node that it would change. Changes nothing.

        Of what is prepared beside ticks nothing is foreseen.
        """
        ...

    async def look(self, names: Collection[str] = (), tokens: int | None = None, *, at_sources: bool = False) -> Looked:
        """The handles there are, and what those of `names` show, each at its own policy and within `tokens` tokens.

        Names are those in the namespace, or ids. With `at_sources` also which of those that run are stale, for which
        the disk is asked. Changes nothing: nothing is ticked, drained, or taken for shown. Without namespace there are
        none.
        """
        ...

    def read(self) -> None:
        """A model has read the handles as they are; the namespace hears of it ahead of the next request."""
        ...

    def follow(self, buffers: Buffers | None) -> None:
        """Has views show what an editor holds, from the next request on; with None nobody is asked."""
        ...

    def kept(self) -> Preserved | None:
        """What followed a run that `keeps`, once; None where it is not there yet, or not all, which `preserve` has."""
        ...

    async def preserve(self, large: bool) -> Preserved:
        """Pickles the values of all names that changed and were not preserved so far.

        Each group up to 64 KiB at once; with `large` up to 64 MiB, which may go on while the next statement runs. What
        code of the statements' own does meanwhile is bounded in time and touches nothing outside.
        """
        ...

    async def collect(self) -> Preserved:
        """What `preserve` has left to be taken, and is there now."""
        ...

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        """Replaces the namespace by a fresh one in which the plan's steps have run again, touching nothing outside.

        Where there is a checkpoint of the state after some of them, it begins there. A step that runs again and has no
        `record` runs in any case, with all that follow it. They see what they saw then. Where one is stopped, or comes
        out differently, the names that it bound are set from what was kept of them. What ends its worker now, or leaves
        Python unusable in it, is left out.

        What `compare` raises ends it, and there is no namespace then.

        Raises:
            StatementLostError: a statement that the plan will not have left out ended its worker.
        """
        ...

    async def snapshot(self, execution_id: ExecutionId) -> bool:
        """Begins to keep the present state, which is that after this execution, so that `restore` can be fast.

        Returns without waiting; what comes of it is among `checkpoints`. False where this environment cannot.
        """
        ...

    def checkpoints(self) -> Sequence[CheckpointNews]:
        """What became of checkpoints since this was asked last."""
        ...

    async def end(self) -> None:
        """Ends the namespace with all that it started; `restore` gives another, and has the checkpoints for that."""
        ...

    async def close(self) -> None:
        """Ends it with all that it started; may be repeated."""
        ...


# --- permissions -----------------------------------------------------------------------------------------------------


ASKED_CHARS: Final = 1_000_000
"""The longest text that a user is shown when they are asked; one of that length can be in one message."""


class StatementSubject(Struct, frozen=True):
    """A statement that would run.

    `note` says that it ran with fewer rights before, and which it would have. No remembered answer is one to that.
    """

    source: str
    note: str = ""


class FileSubject(Struct, frozen=True, kw_only=True):
    """A file that would be written: where it really is, and its changes, or a note where its content is no text."""

    path: str
    changes: tuple[TextChange, ...] = ()
    note: str = ""


class TreeSubject(Struct, frozen=True, kw_only=True):
    """Names in the file tree that would be made, removed or given to something else: `act` says that in words.

    `paths` are where they really are. `changes` and `note` are about the file that has the last of them, as in
    `FileSubject`; a file that is removed holds nothing afterwards.
    """

    act: str
    paths: tuple[str, ...]
    changes: tuple[TextChange, ...] = ()
    note: str = ""


class CommandSubject(Struct, frozen=True, kw_only=True):
    """A shell command that would run in the directory `cwd`; `outside` of the sandbox that the mode has it run in."""

    command: str
    cwd: str
    outside: bool = False


class ServerCallSubject(Struct, frozen=True, kw_only=True):
    """A tool of an MCP server that would be called, with its arguments as JSON."""

    server: str
    tool: str
    arguments: str


class RebuildSubject(Struct, frozen=True, kw_only=True):
    """Statements by their numbers, which are to run again for the names they bound, with more rights than they had.

    These are the user's own where they are not `held`; else they may write below `writable`, have TCP with `network`,
    change modes, owners and times of all files where they are `bare`, and do what parts of the sandbox would hold that
    the kernel `lacks`. `before` says which they had, as the end of "they ran".
    """

    statements: tuple[int, ...]
    held: bool
    writable: tuple[str, ...] = ()
    network: bool = False
    bare: bool = False
    lacks: tuple[Layer, ...] | None = None
    before: str = ""


PermissionSubject = RebuildSubject | StatementSubject | FileSubject | TreeSubject | CommandSubject | ServerCallSubject
"""What a user may be asked about."""


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """May this be done? Whoever asks shows all of `subject`, whose texts have at most `ASKED_CHARS` characters: of a
    longer change of a file the beginning, which its `note` says, and its last `TextChange`.

    `seq` is the event that announced the call; whoever asks shows everything up to it first. `always` says in a few
    words what a remembered answer would cover; where it is empty, none may be offered. `rest`: an answer may allow all
    further changes of files by the same statement, too.
    """

    tool_call_id: ToolCallId
    subject: PermissionSubject
    seq: Seq
    always: str = ""
    rest: bool = False


class PermissionAnswer(Struct, frozen=True, kw_only=True):
    """The user's word. Whatever is not clearly `allowed` is not. `asked` is False where there was nobody to ask.

    `rest` is for a question that offered it, and for `allowed` alone.
    """

    outcome: PermissionOutcome
    remember: bool = False
    rest: bool = False
    asked: bool = True


class Permissions(Protocol):
    """Somebody to ask. Cancelled by cancelling the wait."""

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """The user's answer, whenever it comes."""
        ...


# --- the model -------------------------------------------------------------------------------------------------------


class Prompt(Struct, frozen=True, kw_only=True):
    """One model call: stable instructions, the View's events, and the tail block that is never stored.

    `statements` says whether the reply may ask for one; a summary may not. With `calls_tools` a model asks by calling
    the tool `python`; without, no tool is mentioned to it, and statements and results are text. `typed` is the text of
    the user's message that is last, as it was typed: what runs it as it is must not run what redaction has made of it.
    It is for no provider.
    """

    instructions: str
    messages: tuple[Event, ...]
    tail: str
    typed: str | None = None
    statements: bool = True
    calls_tools: bool = True


class TextDelta(Struct, frozen=True):
    """A piece of the reply's text."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    """A piece of reasoning. A `signature` is `provider`'s, and worth something to that provider alone."""

    text: str
    signature: str | None = None
    provider: str | None = None


class StatementAsked(Struct, frozen=True):
    """The model wants one cell of Python to be run; of several in a reply the first counts.

    What the user `typed` is never asked. `rest_left_out`: the reply held more than its text before this, and that is
    not recorded.
    """

    source: str
    tool_call_id: str | None = None
    typed: bool = False
    rest_left_out: bool = False


class ReplyEnded(Struct, frozen=True):
    """The reply is complete, was cut for its length, or was refused."""

    cause: Literal["end", "length", "refusal"] = "end"


class TokensUsed(Struct, frozen=True):
    """What the provider counted for this call, in its own tokens; the last word of a reply counts.

    Of `input_tokens` so many are `cached_tokens`, which it had seen before; None where it does not say.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None


ModelSignal = TextDelta | ReasoningDelta | StatementAsked | TokensUsed | ReplyEnded
"""What a model's reply consists of, in the order in which it comes."""


class Model(Protocol):
    """Streams one reply. Cancelled by closing the generator, at any point; a failure is raised as ModelError."""

    @property
    def name(self) -> str: ...

    @property
    def summarizes(self) -> bool:
        """Whether it can be asked to sum up a conversation; where it cannot, the host does."""
        ...

    def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """One reply, as it comes. Raises ModelError, ContextTooLongError."""
        ...

    async def aclose(self) -> None:
        """Closes what replies have opened, such as connections; called when the session that has it is closed."""
        ...


class ModelError(Exception):
    """Raised by a model for what its provider or its script did wrong; shown to the user as it is."""


class ModelUnusableError(ModelError):
    """The model cannot be used before the user changes something: no key or one that is refused, no such provider."""


class ContextTooLongError(ModelError):
    """The provider takes no prompt of this length."""
