"""The shapes of `session/1`, the JSON of a whole session that pages and other programs read.

A document has a head, tables of entries, and contents. An entry has a `key` that never changes; a later state of the
session replaces the entry with that key. Positions on the log (`Seq`) are keys of what one event says. A field that is
absent has its default. `docs/session-json.md` is generated from this module.

Values only; `document` makes them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct, field

from ...core.execution import ExecutionStatus, ReplayMode, StatementKind
from ...log.events.going_back import ReplayOutcome
from ...log.events.session import PlanEntry

SCHEMA: Final = "session/1"
"""The name and version of the format. Fields may be added; a field never changes its meaning."""


class Text(Struct, frozen=True, omit_defaults=True):
    """A text. If `digest` is there, `text` is only its beginning, and the whole is the content of that digest.

    `size` is then the length of the whole in characters.
    """

    text: str
    digest: str | None = None
    size: int = 0


class PictureEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A picture; its bytes are the content of `digest`. Without one, `problem` says why."""

    name: str
    media_type: str = ""
    digest: str | None = None
    width: int = 0
    height: int = 0
    size: int = 0
    problem: str = ""


class SpentEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What some model calls took, in the provider's tokens. `unpriced` of them have no known price."""

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0


class SessionHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session. Times are seconds since the epoch; `events` is the number of events that the document covers.

    `branch` is the active branch. `is_running`: a request had not ended. `spent` has all model calls, those for
    summaries too, and `models` the same by model ("" for calls whose log does not name it).
    """

    session_id: str
    cwd: str = ""
    directories: tuple[str, ...] = ()
    title: str = ""
    client: str = ""
    confined: bool = False
    python: str = ""
    opened_at: float = 0.0
    changed_at: float = 0.0
    events: int = 0
    branch: str = "main"
    is_running: bool = False
    mode: str = ""
    options: dict[str, str] = field(default_factory=dict[str, str])
    plan: tuple[PlanEntry, ...] = ()
    spent: SpentEntry = field(default_factory=SpentEntry)
    models: dict[str, SpentEntry] = field(default_factory=dict[str, SpentEntry])


class BranchEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A branch: the path of `parent` before the position `before`, then the entries that have its name as `branch`.

    So an entry is on a branch if its `branch` is that one; or an ancestor, and its `key` is smaller than each `before`
    on the way. `shared` is the number of the last statement in common with `parent`, `last` that of the branch's last.
    """

    key: str
    parent: str | None = None
    before: int = 0
    shared: int = 0
    last: int = 0
    is_active: bool = False


class StatementEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A statement. `index` is its number on its branch, from 1; on two branches a number can be two statements.

    `by`: a `model` wrote it, or the `user` in a prompt; it came from `outside` a request (`/run`, a program); or the
    `session` itself ran it (`kind` is `meta`). `is_withheld`: its source contained a secret, so it cannot run again.
    `omitted` says, by branch, whether the namespace leaves it out there. `executions` are keys of executions, oldest
    first. `before` and `after` are keys of the conversation: what was said between the previous statement and this one,
    and from this one to the next.
    """

    key: int
    statement_id: str
    index: int
    branch: str
    at: float
    source: Text
    kind: StatementKind = "python"
    by: Literal["model", "user", "outside", "session"]
    call: str = ""
    tags: tuple[str, ...] = ()
    is_withheld: bool = False
    omitted: dict[str, bool] = field(default_factory=dict[str, bool])
    executions: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


class OutputEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output stream. `is_cut`: the log has only the beginning of its `bytes` bytes."""

    text: Text
    bytes: int = 0
    is_cut: bool = False


class ErrorEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exception."""

    type: str
    message: Text
    traceback: Text | None = None


class NameEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A name that an execution bound or deleted. `value` is a short repr, `before` the same of the earlier value.

    `mutated`: the object changed in place. `unknown`: it may have changed, and `reason` says why that is not known.
    """

    name: str
    change: Literal["added", "changed", "deleted", "unknown"]
    type: str = ""
    value: str = ""
    before_type: str = ""
    before: str = ""
    mutated: bool = False
    reason: str = ""


class RenderEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A view or group as an execution showed it. `budget` is in tokens, 0 for all; `level` is the level of detail.

    Lines `first_line` to `last_line` of `lines` are shown. `follows` says how it follows its file. `revision` is the
    digest of the file's content.
    """

    handle: str
    title: str
    text: Text
    tokens: int
    budget: int = 0
    level: int = 0
    first_line: int | None = None
    last_line: int | None = None
    lines: int = 0
    state: str = ""
    reason: str = ""
    follows: str = ""
    revision: str = ""


class EffectEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a statement asked of the session, such as a tool. `error` says that it was refused or failed."""

    ordinal: int
    operation: str
    call: str = ""
    error: ErrorEntry | None = None


class CommandEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program that ran for a statement. `code` is its exit code; without one, `signal`, `timed_out` or `reason`."""

    call: str
    command: Text
    cwd: str
    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    reason: str = ""
    time_ms: float = 0.0
    output: OutputEntry | None = None
    errors: OutputEntry | None = None


class DivergenceEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One aspect in which an execution differs from the execution with the id `against`; `text` says it in words."""

    aspect: str
    before: str
    after: str
    against: str
    text: str


class ExecutionEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the statement with the key `statement`. `status` is `running` until it ends.

    `mode` is the kind of replay, absent for a first run; `against` is the id of the execution that a replay is compared
    with. `counts`: the namespace includes it. `answered`: its effects were answered from the record. `value` is the
    repr of the last expression; readers show `markdown` in its place if it is there. `files` are keys of changes in the
    table `files`. `checkpoint`: the namespace after it was kept for a while.
    """

    key: int
    execution_id: str
    statement: int
    branch: str
    status: ExecutionStatus | Literal["running"]
    started_at: float
    ended_at: float | None = None
    time_ms: float = 0.0
    mode: ReplayMode | None = None
    against: str | None = None
    counts: bool = False
    answered: bool = False
    round: int | None = None
    value: Text | None = None
    markdown: Text | None = None
    pictures: tuple[PictureEntry, ...] = ()
    error: ErrorEntry | None = None
    stdout: OutputEntry | None = None
    stderr: OutputEntry | None = None
    renders: tuple[RenderEntry, ...] = ()
    names: tuple[NameEntry, ...] = ()
    effects: tuple[EffectEntry, ...] = ()
    commands: tuple[CommandEntry, ...] = ()
    files: tuple[str, ...] = ()
    divergences: tuple[DivergenceEntry, ...] = ()
    checkpoint: bool = False


class RegionEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A region of a file that changed, with context, from line `line` of the old text on. `old` is absent for no file.

    `more_added` and `more_removed` count lines of the change that are not shown.
    """

    line: int
    new: Text
    old: Text | None = None
    more_added: int = 0
    more_removed: int = 0


class FileChangeEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a file. `by`: a `statement`, a `rewind` (or undo), or `others`, as a tick found.

    `before` and `after` are the digests of its contents, absent for no file and for a content that is not kept.
    `before_hash` and `after_hash` identify them anyway; empty for no file. `regions` is the difference. `note` says why
    there is none. `is_noticed`: the statement's own code or a command did it, not a tool. `unsure`: why it may be
    somebody else's. `moved_from` is its earlier path. `is_withheld`: a content had a secret. `text` is the line of the
    change feed, for `others`.
    """

    key: str
    at: float
    branch: str
    by: Literal["statement", "rewind", "others"]
    change: Literal["created", "modified", "deleted", "moved"]
    statement: int | None = None
    execution: int | None = None
    call: str = ""
    before: str | None = None
    after: str | None = None
    before_hash: str = ""
    after_hash: str = ""
    before_mode: int | None = None
    after_mode: int | None = None
    regions: tuple[RegionEntry, ...] = ()
    note: str = ""
    is_noticed: bool = False
    unsure: str = ""
    moved_from: str = ""
    is_withheld: bool = False
    text: Text | None = None


class FileEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file with its changes, oldest first. `key` is its absolute path, `name` the path relative to the session."""

    key: str
    name: str
    changes: tuple[FileChangeEntry, ...] = ()


class AttachmentEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attachment of a prompt: a picture, a text, or a link."""

    uri: str
    name: str
    media_type: str = ""
    text: Text | None = None
    picture: PictureEntry | None = None


class ItemEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item of the conversation, by `type`.

    - `user`: a prompt. `kind` is direct, steer or follow_up. `expansion` is what models read in place of `text`.
    - `reply`, `reasoning`: the model's words.
    - `call`: a call of `tool` with `arguments` as JSON; `title` is a line about it. `parent` is the call of the
      statement that made it. `is_typed`: the user wrote the statement.
    - `result`: the result of the call `call`, with its `status`.
    - `rerender`: `text` replaces the result of `call` for models from here on.
    - `stop`: the request ended, with `status` (completed, interrupted, error), `cause` and `text`.
    - `summary`: `text` replaced `forgotten` events for models.
    - `queued`, `withdrawn`: a prompt began to wait, or will not run; `message` is its id.

    `is_aside`: not for models, such as a slash command and its answer. `response` groups what one reply said.
    """

    key: int
    event: str
    at: float
    branch: str
    type: Literal["user", "reply", "reasoning", "call", "result", "rerender", "stop", "summary", "queued", "withdrawn"]
    text: Text | None = None
    message: str = ""
    kind: str = ""
    is_aside: bool = False
    expansion: Text | None = None
    attachments: tuple[AttachmentEntry, ...] = ()
    response: str = ""
    call: str = ""
    tool: str = ""
    title: str = ""
    arguments: Text | None = None
    parent: str = ""
    is_typed: bool = False
    is_refused: bool = False
    status: str = ""
    cause: str = ""
    pictures: tuple[PictureEntry, ...] = ()
    forgotten: int = 0


class MessageEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as models were sent it. `event` is the id of its event, as `rewindow show --projection` prints it.

    `is_shortened`: a shorter text was sent than the event has. `problem` says why the text is missing.
    """

    key: int
    event: str
    role: str
    text: Text
    is_shortened: bool = False
    problem: str = ""


class HandleTokens(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of one handle's renders in a model call.

    `name` is the variable that holds the handle at the end of its branch, else its id.
    """

    handle: str
    tokens: int
    name: str = ""
    title: str = ""


class CallEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model call; `key` is its number, from 1. What was sent is, in this order: instructions, messages, tail.

    Its messages are the first `kept` messages of the call before, then `messages`, keys of the table `messages`.
    `instructions` and `tail` are digests of contents, absent if empty. Tokens are counted exactly: `used` of at most
    `size`; `sections` adds up to `used`, in the order of the prompt; `handles` is the part of the largest handles.
    `shared` counts the first tokens that equal the call before. The provider's own counts are `input_tokens`, of which
    `cached_tokens` came from its cache, and `output_tokens`. `answered` is absent if unknown, or still under way.
    """

    key: int
    position: int
    branch: str
    at: float
    round: int
    used: int
    size: int
    shared: int = 0
    sections: dict[str, int] = field(default_factory=dict[str, int])
    handles: tuple[HandleTokens, ...] = ()
    calls_tools: bool = True
    instructions: str | None = None
    tail: str | None = None
    kept: int = 0
    messages: tuple[int, ...] = ()
    ended_at: float | None = None
    answered: bool | None = None
    model: str = ""
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    dollars: float | None = None


class HandleChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a handle: a `method` call, a `tick`, or another `change`."""

    seq: int
    at: float
    type: Literal["method", "tick", "change"]
    text: Text


class HandleEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A view or group. `handle` is its id, `name` the variable that first held it.

    `title`, `level`, `budget`, `tokens`, `follows` and `revision` are those of its last render, at `shown_at`. `unread`
    is the number of changes of its content since then: it is stale unless that is 0.
    """

    key: int
    handle: str
    type: str
    branch: str
    at: float
    statement: int
    line: int = 0
    name: str = ""
    title: str = ""
    level: int = 0
    budget: int = 0
    tokens: int = 0
    follows: str = ""
    revision: str = ""
    state: str = ""
    shown_at: int | None = None
    unread: int = 0
    changes: tuple[HandleChange, ...] = ()


class StepCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call in a step: keys of its call and its result, which is absent while the call is open."""

    call: int
    result: int | None = None


class StepGroup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls of one kind, such as `read-group`, one after another."""

    type: str
    calls: tuple[StepCall, ...] = ()


class StepEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a request: a message of the user (`non-steer`, `steer`), or an `ai-block`.

    Numbers are keys of the conversation. A block has at most one `text`, the statements called after it, and groups of
    other calls.
    """

    type: Literal["non-steer", "steer", "ai-block"]
    message: int | None = None
    text: int | None = None
    statements: tuple[StepCall, ...] = ()
    groups: tuple[StepGroup, ...] = ()


class RoundEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's input and output, as keys of the conversation; `round` counts from 1 in the request."""

    round: int
    response: str = ""
    input: tuple[int, ...] = ()
    output: tuple[int, ...] = ()


class RequestEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request of the user with everything up to its stop. `key` is its branch and its number there: `main/3`.

    A branch has the requests of its parent up to where it begins, and those with its own name. `root` and `stop` are
    keys of the conversation; `stop` is absent while it runs. `unread` is the last input, if no output follows it.
    """

    key: str
    branch: str
    number: int
    root: int
    kind: str
    steps: tuple[StepEntry, ...] = ()
    rounds: tuple[RoundEntry, ...] = ()
    unread: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    stop: int | None = None


class QuestionEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A permission that was asked for the call `call`, or decided without asking.

    `outcome` is allowed, rejected or cancelled; it is absent while the question waits. `scope` says what a remembered
    answer covers; `rest`: it covers the other file changes of the statement.
    """

    key: int
    call: str
    scope: str
    branch: str
    at: float
    outcome: str | None = None
    answered_at: float | None = None
    is_remembered: bool = False
    rest: bool = False


class RestoredFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a rewind: restored, or left unchanged for `reason`."""

    path: str
    name: str
    reason: str = ""


class MoveEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A move in time, by `type`.

    - `branch`: `to` was created from `origin` at position `before`.
    - `switch`: `to` became the active branch instead of `origin`; `statement` is the last statement on it.
    - `rewind`: files went back to their state after `statement` (0: the beginning). `restored` and `left` are there
      once it ended. `is_undo`, `is_redo`: only the files of one execution. `is_cancelled`: it was given up.
    - `replay`, `edit`: statements `first` to `last` ran again, or after a new source of `first`. `outcome` is absent
      while they run, and `detail` says why they did not complete.
    """

    key: int
    type: Literal["branch", "switch", "rewind", "replay", "edit"]
    branch: str
    at: float
    ended_at: float | None = None
    origin: str = ""
    to: str = ""
    before: int | None = None
    statement: int | None = None
    restored: tuple[RestoredFile, ...] = ()
    left: tuple[RestoredFile, ...] = ()
    is_cancelled: bool = False
    is_undo: bool = False
    is_redo: bool = False
    first: int | None = None
    last: int | None = None
    mode: ReplayMode | None = None
    outcome: ReplayOutcome | None = None
    detail: str = ""


class NoteEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Any other event, such as a change of the mode: its `kind` and its fields, as `docs/events.md` describes them.

    A string of more than 1,000 characters is a `Text`.
    """

    key: int
    kind: str
    branch: str
    at: float
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


class Content(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A content by its digest: a `text`, or `data`, bytes in base64. Otherwise `left_out` says why it is missing."""

    text: str | None = None
    data: str | None = None
    media_type: str = ""
    left_out: str = ""


TABLES: Final = {
    "branches": BranchEntry,
    "statements": StatementEntry,
    "executions": ExecutionEntry,
    "files": FileEntry,
    "conversation": ItemEntry,
    "requests": RequestEntry,
    "calls": CallEntry,
    "messages": MessageEntry,
    "handles": HandleEntry,
    "questions": QuestionEntry,
    "moves": MoveEntry,
    "notes": NoteEntry,
}
"""The tables of a document, each with the shape of its entries."""


Patch = dict[str, Any]
"""A part of a document: its `session`, and the entries of each table that are new or changed."""
