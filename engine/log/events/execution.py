"""The timeline: statements, their executions, and what an execution asked of the host."""

# A little over 300 lines, because each event says what older logs lack.

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from ...core.execution import (
    Artifact,
    Captured,
    Display,
    ExceptionInfo,
    ExecutionStatus,
    KeptGroup,
    Location,
    NamespaceDiff,
    ReplayMode,
    StatementKind,
    StatementNumber,
    TextChange,
)
from ...core.ids import BlobDigest, ExecutionId, Seq, StatementId, ToolCallId
from ...core.text import Exact
from .base import Event


class StatementRecorded(Event, frozen=True, kw_only=True):
    """One cell of Python source joined the timeline. `index` counts from 1 along the branch.

    `parent` is the statement before it on its branch; `fingerprint` is xxh3 hex over source and environment facts;
    `label` is the file name that tracebacks show. Where the source held a secret, `source` is not what ran: `withheld`
    is then the digest of that, and the statement cannot be run again.
    """

    kind: ClassVar[str] = "statement_recorded"

    statement_id: StatementId
    index: StatementNumber
    source: str
    tool_call_id: ToolCallId
    statement_kind: StatementKind = "python"
    parent: StatementId | None = None
    fingerprint: Exact = ""
    withheld: Exact = ""

    @property
    def waits(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"<statement {self.index}>"


class ExecutionStarted(Event, frozen=True, kw_only=True):
    """`parent` is the execution whose namespace this one starts from.

    `round_id` is the Round it belongs to, `plan` whether it ran in plan mode; older logs say neither. In a replay
    `mode` says of which kind, and `against` is the earlier execution that it is compared with. `answered`: it ran in
    the place of that one and changed nothing outside: what it asked for was answered from the record. Older logs say
    `plan` of such a one, which then opened no file for writing.
    """

    kind: ClassVar[str] = "execution_started"

    execution_id: ExecutionId
    statement_id: StatementId
    parent: ExecutionId | None = None
    round_id: int | None = None
    plan: bool | None = None
    mode: ReplayMode | None = None
    against: ExecutionId | None = None
    answered: bool = False

    @property
    def waits(self) -> bool:
        return True

    @property
    def counts(self) -> bool:
        """Whether the namespace goes by it, which it does not by what a recorded or a dry replay has found."""
        return self.mode in (None, "live")

    @property
    def rerun_call(self) -> ToolCallId:
        """In a replay the call that it is shown as, and that those of its effects are within."""
        return ToolCallId(self.execution_id)


class ExecutionFinished(Event, frozen=True, kw_only=True):
    """The whole record of one run. Times are seconds since the epoch; `time_ms` is what the statement itself took.

    `acted`: it asked for an effect, or did something outside that a rebuild keeps it from. Older logs do not say.
    `mode` as in its ExecutionStarted.
    """

    kind: ClassVar[str] = "execution_finished"

    execution_id: ExecutionId
    statement_id: StatementId
    status: ExecutionStatus
    started_at: float
    ended_at: float
    time_ms: float = 0.0
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)
    value: str | None = None
    exception: ExceptionInfo | None = None
    displays: tuple[Display, ...] = ()
    locations: tuple[Location, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    diff: NamespaceDiff = field(default_factory=NamespaceDiff)
    acted: bool = False
    mode: ReplayMode | None = None

    @property
    def waits(self) -> bool:
        return True

    @property
    def counts(self) -> bool:
        """As of its ExecutionStarted."""
        return self.mode in (None, "live")


class EffectRequested(Event, frozen=True, kw_only=True):
    """A statement asked the host for something; `ordinal` counts from 0 within the execution."""

    kind: ClassVar[str] = "effect_requested"

    execution_id: ExecutionId
    ordinal: int
    operation: Exact
    argument_digest: Exact
    tool_call_id: ToolCallId | None = None


class EffectAnswered(Event, frozen=True, kw_only=True):
    """What the host answered: the digest of the result's blob, or the error the statement saw. A replay reads it.

    An answer that held a secret is not kept: `withheld` is then its digest, and a replay cannot use it. Of an answer
    about one file `path` is where that really is, and `digest` the xxh3 hex of the whole file.
    """

    kind: ClassVar[str] = "effect_answered"

    execution_id: ExecutionId
    ordinal: int
    operation: Exact
    result: BlobDigest | None = None
    error: ExceptionInfo | None = None
    withheld: Exact = ""
    path: str = ""
    digest: Exact = ""


class FileTouched(Event, frozen=True, kw_only=True):
    """A statement's own code is about to write a file. `path` is where it really is; `before` is what it holds, a blob.

    `before_digest` is the xxh3 hex of that, empty where there is no file. Where the content was not read, `note` says
    why, and `before_digest` stands for the state of the file (`unread-...`); where it holds a secret, `withheld` stands
    for it. Whether the file is otherwise afterwards, a FileWritten says, or none. `mode` are its permission bits.
    """

    kind: ClassVar[str] = "file_touched"

    execution_id: ExecutionId
    path: str
    before: BlobDigest | None = None
    before_digest: Exact = ""
    note: str = ""
    withheld: Exact = ""
    mode: int | None = None


class FileWritten(Event, frozen=True, kw_only=True):
    """The host wrote a file for a statement. `path` is where it really is; digests are xxh3 hex, empty for no file.

    `before` and `after` are the digests of the contents as blobs: None where there was no file, where the content is
    too large to be kept, and where it holds a secret, which `withheld` then stands for. `changes` are what a person is
    shown; for contents that are no text they are empty and `note` says so.

    Modes are permission bits, None where there was no file or nobody looked.

    `noticed`: not the host but the statement's own code wrote it, or removed it. `note` says then, too, which content
    was not read; a digest that begins with `unread-` stands for its state. `unshown`: its call says all
    that a person is told of it: an act on the file tree in its words, with the `changes` of its last name as the diff,
    one of very many by their number.
    """

    kind: ClassVar[str] = "file_written"

    execution_id: ExecutionId
    tool_call_id: ToolCallId
    path: str
    before: BlobDigest | None = None
    after: BlobDigest | None = None
    before_digest: Exact = ""
    after_digest: Exact = ""
    changes: tuple[TextChange, ...] = ()
    note: str = ""
    withheld: Exact = ""
    noticed: bool = False
    unshown: bool = False
    before_mode: int | None = None
    after_mode: int | None = None


class CommandEnded(Event, frozen=True, kw_only=True):
    """A program that the host ran for a statement has ended. `cwd` is where it ran, an absolute path.

    `code` is its exit code; None where a `signal` ended it, or the host: at its time limit (`timed_out`), or for what
    `reason` says. Of `output` both ends are kept; what went to stderr is in it, too, unless it is in `errors`.
    """

    kind: ClassVar[str] = "command_ended"

    execution_id: ExecutionId
    tool_call_id: ToolCallId
    cwd: str
    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    reason: str = ""
    time_ms: float = 0.0
    output: Captured = field(default_factory=Captured)
    errors: Captured = field(default_factory=Captured)


class ValuesKept(Event, frozen=True, kw_only=True):
    """Values that a rebuild may not bring back were kept, as they were after an execution.

    `unkept` names those of which there is no copy, each with the reason, a phrase.
    """

    kind: ClassVar[str] = "values_kept"
    droppable: ClassVar[bool] = True

    execution_id: ExecutionId
    groups: tuple[KeptGroup, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def waits(self) -> bool:
        return True


class ValuesDropped(Event, frozen=True, kw_only=True):
    """Copies of values went from the store, the oldest first, because the session's contents took more than `limit`.

    They are those that `values_kept` events before the position `before` name, and no event from there on: `copies` of
    them, of values that so many `executions` left, which took `size` bytes of the store. A rebuild names what it misses
    for that.
    """

    kind: ClassVar[str] = "values_dropped"

    before: Seq
    executions: int
    copies: int
    size: int
    limit: int

    @property
    def dropped_before(self) -> Seq | None:
        return self.before


class CheckpointTaken(Event, frozen=True, kw_only=True):
    """The namespace as that execution left it is held by a paused copy of its process, for as long as that lives.

    It kept the namespace from its work for `time_ms`. `shared` are phrases on what the copy lacks or has in common with
    others: child processes, what is behind pipes and sockets, shared memory.
    """

    kind: ClassVar[str] = "checkpoint_taken"

    execution_id: ExecutionId
    time_ms: float = 0.0
    shared: tuple[str, ...] = ()


class CheckpointDropped(Event, frozen=True, kw_only=True):
    """A copy of the namespace as that execution left it could not be made, or is lost; a rebuild runs more again.

    Said once for each `reason` in a row, and not of those that made room for newer ones.
    """

    kind: ClassVar[str] = "checkpoint_dropped"

    execution_id: ExecutionId
    reason: str


class StatementOmitted(Event, frozen=True, kw_only=True):
    """The user left a statement out of the namespace, or took it in again: the next rebuild goes by that."""

    kind: ClassVar[str] = "statement_omitted"

    statement_id: StatementId
    omitted: bool = True


class NamesRebound(Event, frozen=True, kw_only=True):
    """A statement rebound injected names (`view`, `ls` ...); `restore_names()` undoes it."""

    kind: ClassVar[str] = "names_rebound"
    from_worker: ClassVar[bool] = True

    execution_id: ExecutionId | None
    names: tuple[Exact, ...]


ExecutionEvent = (
    StatementRecorded
    | ExecutionStarted
    | ExecutionFinished
    | EffectRequested
    | EffectAnswered
    | FileTouched
    | FileWritten
    | CommandEnded
    | ValuesKept
    | ValuesDropped
    | CheckpointTaken
    | CheckpointDropped
    | StatementOmitted
    | NamesRebound
)
