"""The timeline: statements, their executions, the effects they asked of the host, and copies of their values."""

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
from ...core.pictures import Picture
from ...core.text import Exact, Named
from .base import Event


class StatementRecorded(Event, frozen=True, kw_only=True):
    """One cell of Python source joined the timeline. `index` counts from 1 along the branch.

    `parent` is the statement before it on its branch; `fingerprint` is xxh3 hex over source and environment facts;
    `label` is the file name in tracebacks. If the source contained a secret, `source` is redacted, `withheld` is the
    digest of the original, and the statement cannot run again. `tag_names` are the tags that comments of the source
    set, and those that the caller gave. Older logs have an empty object `tags` instead.
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
    tag_names: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"<statement {self.index}>"


class ExecutionStarted(Event, frozen=True, kw_only=True):
    """An execution began, in the namespace that the execution `parent` left.

    `round_id` is its Round, and `plan` says whether it ran in plan mode; older logs have neither. In a replay, `mode`
    is the kind of replay and `against` the earlier execution that it is compared with. `answered`: it ran in place of
    `against` and changed nothing outside, because its effects were answered from the record. Older logs have `plan`
    instead, and such an execution could not open files for writing. `known` are the renders of the statement
    that the conversation shows; `is_known_read`: a model has read them.
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
    known: tuple[str, ...] = ()
    is_known_read: bool = False

    @property
    def waits(self) -> bool:
        return True

    @property
    def counts(self) -> bool:
        """Whether the namespace includes it. Executions of recorded and dry replays are reports only."""
        return self.mode in (None, "live")

    @property
    def rerun_call(self) -> ToolCallId:
        """The id of the call that shows it in a replay; the calls of its effects are below that."""
        return ToolCallId(self.execution_id)


class ExecutionFinished(Event, frozen=True, kw_only=True):
    """The whole record of one run. Times are seconds since the epoch; `time_ms` is the statement's own time.

    `value` is the repr of the last expression. If notebooks would show it as Markdown or as a picture, so do readers:
    they show `markdown` in its place, or the `pictures` after it.

    `acted`: it asked for an effect, or did something outside that a rebuild would stop; older logs lack it. `mode` as
    in its ExecutionStarted.
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
    markdown: str = ""
    pictures: tuple[Picture, ...] = ()
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
    def identities(self) -> tuple[str, ...]:
        """The `Display.identity` of each render that it showed."""
        return tuple(display.identity for display in self.displays)

    @property
    def counts(self) -> bool:
        """As in its ExecutionStarted."""
        return self.mode in (None, "live")


class EffectRequested(Event, frozen=True, kw_only=True):
    """A statement asked the host for an effect; `ordinal` counts from 0 within the execution."""

    kind: ClassVar[str] = "effect_requested"

    execution_id: ExecutionId
    ordinal: int
    operation: Named
    argument_digest: Exact
    tool_call_id: ToolCallId | None = None


class EffectAnswered(Event, frozen=True, kw_only=True):
    """The host answered an effect: with a result, a blob, or with an error. Replays use the answer.

    An answer with a secret is not kept: `withheld` is then its digest, and replays cannot use it. For an answer about
    one file, `path` is its real path and `digest` the xxh3 hex of the whole file.
    """

    kind: ClassVar[str] = "effect_answered"

    execution_id: ExecutionId
    ordinal: int
    operation: Named
    result: BlobDigest | None = None
    error: ExceptionInfo | None = None
    withheld: Exact = ""
    path: str = ""
    digest: Exact = ""


class FileTouched(Event, frozen=True, kw_only=True):
    """A statement is about to write a file. `path` is its real path; `before` is its content, a blob.

    `before_digest` is the xxh3 hex of the content, empty if there was no file. If the content was not read, `note` says
    why, and `before_digest` identifies the state of the file (`unread-...`). If the content has a secret, `withheld`
    replaces `before_digest`. If the file changes, a FileWritten follows. `mode`: the file's permission bits.

    `found`: the statement did not report it. The host found it afterwards, and other programs run it.

    `tool_call_id`: the call of the tool that writes it, None for the statement's own code. This event is on disk before
    the file changes. So if a kill interrupts the call, the next load still finds and records the change.
    """

    kind: ClassVar[str] = "file_touched"

    execution_id: ExecutionId
    path: str
    before: BlobDigest | None = None
    before_digest: Exact = ""
    note: str = ""
    withheld: Exact = ""
    mode: int | None = None
    found: bool = False
    tool_call_id: ToolCallId | None = None


class FileWritten(Event, frozen=True, kw_only=True):
    """A file was written for a statement. `path` is its real path.

    `before` and `after` are the contents as blobs: None for no file, for content that is too large to keep, and for
    content with a secret, which `withheld` replaces. `before_digest` and `after_digest` are their xxh3 hex, empty
    for no file, or begin with `unread-` and stand for the file's state. `changes` are shown to people. `note` says
    why they are empty, or which content was not read. `before_mode` and `after_mode` are permission bits, None for
    no file or if they are unknown.

    A digest may also stand for a symbolic link (`link-...`, whose content is the path that it names), or for a
    directory (`directory`), as in `core.execution`.

    `noticed`: the statement's own code, a command or a server wrote or removed it, not the host. `unshown`: it is not
    shown on its own, because a change of the file tree shows only its last name, and a call shows only the number of
    very many files. `unsure`: why it may be somebody else's change, which a rewind leaves as it is; usually empty.
    `source`: the path that it had before, if it was moved here. `protected`: other programs run it, and the user
    allowed the change, so both contents are the user's choice.
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
    unsure: str = ""
    source: str = ""
    protected: bool = False


class CommandEnded(Event, frozen=True, kw_only=True):
    """A program that the host ran for a statement has ended. `cwd` is its absolute working directory.

    `code` is its exit code, None if a `signal` ended it, or the host: at its time limit (`timed_out`), or for `reason`.
    `output` has both ends of what it printed, including stderr unless that is in `errors`. The `reason` of a cancelled
    one is `CANCELLED`; its output is what was shown until then.
    """

    kind: ClassVar[str] = "command_ended"
    CANCELLED: ClassVar[str] = "Cancelled"

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
    """Copies of values that a re-run may not restore were kept, as they were after an execution.

    `unkept` are the names without a copy, each with the reason, a phrase.
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
    """The oldest copies of values were dropped, because the session's contents took more than `limit` bytes.

    They are the copies that `values_kept` events before position `before` name, and no later event: `copies` in number,
    from `executions` executions, which took `size` bytes of the store. A rebuild names the copies that it misses.
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
    """A paused copy of the process keeps the namespace as that execution left it, as long as the copy lives.

    The namespace was paused for `time_ms`. `shared` has a phrase for each thing that the copy lacks or
    shares: child processes, the far ends of pipes and sockets, shared memory.
    """

    kind: ClassVar[str] = "checkpoint_taken"

    execution_id: ExecutionId
    time_ms: float = 0.0
    shared: tuple[str, ...] = ()


class CheckpointDropped(Event, frozen=True, kw_only=True):
    """A checkpoint of that execution could not be made, or is lost, so a rebuild has more to run again.

    Recorded once for equal `reason`s in a row, and not for checkpoints that made room for newer ones.
    """

    kind: ClassVar[str] = "checkpoint_dropped"

    execution_id: ExecutionId
    reason: str


class StatementOmitted(Event, frozen=True, kw_only=True):
    """The user omitted a statement from the namespace, or included it again, from the next rebuild on."""

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
