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
    """A text. If it is long, `text` is only its beginning.

    The whole text is then in `contents`, under `digest`, and `size` is its length in characters.
    """

    text: str
    digest: str | None = None
    size: int = 0


class PictureEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A picture. Its bytes are in `contents`, under `digest`. If there is no `digest`, `problem` says why."""

    name: str
    media_type: str = ""
    digest: str | None = None
    width: int = 0
    height: int = 0
    size: int = 0
    problem: str = ""


class SpentEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The costs of some model calls, in tokens by the provider's counts, and in dollars.

    `unpriced` is the number of calls whose price is unknown.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0


class SessionHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session. Times are seconds since the epoch.

    - `events`: the number of events on the log that the document covers.
    - `branch`: the active branch.
    - `is_running`: whether a request has not ended yet.
    - `spent`: the costs of all model calls, including those for summaries.
    - `models`: the same for each model. The key is "" for calls whose log does not name the model.
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
    """A branch: the path of `parent` before the position `before`, then the branch's own entries.

    To find the entries on a branch, go from the branch to its parent, and so on to the first branch. The branch's own
    entries are always on it. An entry of an ancestor is on it if its `key` is smaller than each `before` on the way.

    - `shared`: the number of the last statement that the branch shares with `parent`.
    - `last`: the number of the branch's last statement.
    """

    key: str
    parent: str | None = None
    before: int = 0
    shared: int = 0
    last: int = 0
    is_active: bool = False


class StatementEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A statement. `index` is its number on its branch, from 1.

    Two branches may have different statements with the same number.

    - `by`: who ran it. A `model` wrote it, the `user` typed it as a prompt, it came from `outside` a request (`/run`, a
      program), or the `session` itself ran it (`kind` is `meta`).
    - `is_withheld`: its source contained a secret, so it cannot run again.
    - `omitted`: by branch, whether the namespace leaves out the statement there.
    - `executions`: keys of its executions, oldest first.
    - `before`: keys of the conversation between the previous statement and this one.
    - `after`: keys of the conversation between this statement and the next one.
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
    """A name that an execution bound or deleted. `value` is a short repr, `before` a short repr of the earlier value.

    - `mutated`: the object changed in place.
    - `unknown` (as `change`): the object may have changed. `reason` says why that is not known.
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
    """The text of a view or group in the result of an execution.

    - `budget`: in tokens, 0 for no limit.
    - `level`: the level of detail.
    - `first_line`, `last_line`: the lines that are shown, of `lines` in all.
    - `follows`: how the view or group follows its file.
    - `revision`: the digest of the file's content.
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
    """A request of a statement to the host, such as a tool call. `error` says that it was refused or failed."""

    ordinal: int
    operation: str
    call: str = ""
    error: ErrorEntry | None = None


class CommandEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program that ran for a statement. `code` is its exit code.

    If there is no exit code, `signal`, `timed_out` or `reason` says how the program ended.
    """

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
    """A difference between an execution and the earlier one with the id `against`. `text` describes it."""

    aspect: str
    before: str
    after: str
    against: str
    text: str


class ExecutionEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run of the statement with the key `statement`. `status` is `running` until it ends.

    - `mode`: the kind of replay, absent for a first run.
    - `against`: the id of the execution that a replay is compared with.
    - `counts`: the namespace has the variables of this execution.
    - `answered`: its tools returned the recorded answers.
    - `value`: the repr of the last expression. If there is `markdown`, show that instead.
    - `files`: keys of changes in the table `files`.
    - `checkpoint`: a checkpoint was taken after it.
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
    """A changed region of a file, with context. It begins at line `line` of the old text.

    - `old`: absent if there was no file.
    - `more_added`, `more_removed`: the numbers of lines of the change that are not shown.
    """

    line: int
    new: Text
    old: Text | None = None
    more_added: int = 0
    more_removed: int = 0


class FileChangeEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a file.

    - `by`: a `statement`, a `rewind` (or an undo), or `others`, whose change a tick found.
    - `before`, `after`: digests, for `contents`. Absent if there was no file, or the content is not stored.
    - `before_hash`, `after_hash`: identify the contents even if they are not stored. Empty if there was no file.
    - `regions`: the difference. If there is none, `note` says why.
    - `is_noticed`: the statement's own code or a command made the change, not a tool.
    - `unsure`: why somebody else may have made the change.
    - `moved_from`: the earlier path of the file.
    - `is_withheld`: a content had a secret.
    - `text`: for `others`, the line of the change feed.
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
    """An item of the conversation. Its `type` is one of these:

    - `user`: a prompt. `kind` is direct, steer or follow_up. Models read `expansion` instead of `text`, if it is there.
    - `reply`, `reasoning`: text of the model.
    - `call`: a call of `tool` with `arguments` as JSON. `title` describes it in a line. If a statement made the call,
      `parent` is the call of that statement. `is_typed`: the user wrote the statement.
    - `result`: the result of the call `call`, with its `status`.
    - `rerender`: from here on, `text` replaces the result of `call` for models.
    - `stop`: the request ended, with `status` (completed, interrupted, error), `cause` and `text`.
    - `summary`: `text` replaced `forgotten` events for models.
    - `queued`, `withdrawn`: a prompt began to wait, or will not run. `message` is its id.

    `is_aside`: models do not read the item, such as a slash command and its answer. Items of one reply have the same
    `response`.
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
    """A message that was sent to models. `event` is the id of its event, as in `rewindow show --projection`.

    - `is_shortened`: the text that was sent is shorter than the event's text.
    - `problem`: why the text is missing.
    """

    key: int
    event: str
    role: str
    text: Text
    is_shortened: bool = False
    problem: str = ""


class HandleTokens(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of the texts of one view or group in a model call.

    `name` is the variable that has the view or group at the end of its branch, otherwise its id.
    """

    handle: str
    tokens: int
    name: str = ""
    title: str = ""


class CallEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model call. `key` is its number, from 1. The prompt consists of instructions, messages and tail, in this order.

    - `instructions`, `tail`: digests of contents, absent if empty.
    - `messages`: keys of the table `messages`. The prompt has the first `kept` messages of the last call, then these.
    - `used`, `size`: the tokens of the prompt, counted exactly, and their limit.
    - `sections`: the tokens of each part, in the order of the prompt. Their sum is `used`.
    - `handles`: the tokens of the largest views and groups.
    - `shared`: the number of first tokens that are the same as in the previous call.
    - `input_tokens`, `cached_tokens`, `output_tokens`: the provider's own counts. `cached_tokens` are part of
      `input_tokens` and came from its cache.
    - `answered`: absent if it is unknown, or while the call runs.
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
    """A view or group. `handle` is its id, `name` the variable that first had it.

    - `title`, `level`, `budget`, `tokens`, `follows`, `revision`: those of its last text in a result, at `shown_at`.
    - `unread`: the number of changes of its content since then. If it is not 0, that text is out of date.
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
    """A call in a step: the key of the call, and the key of its result. The result is absent while the call runs."""

    call: int
    result: int | None = None


class StepGroup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls of one kind, such as `read-group`, one after another."""

    type: str
    calls: tuple[StepCall, ...] = ()


class StepEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a request: a message of the user (`non-steer`, `steer`), or an `ai-block`.

    The numbers are keys of the conversation. An `ai-block` has at most one `text`, then statements, and
    groups of other calls.
    """

    type: Literal["non-steer", "steer", "ai-block"]
    message: int | None = None
    text: int | None = None
    statements: tuple[StepCall, ...] = ()
    groups: tuple[StepGroup, ...] = ()


class RoundEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input and output of a model, as keys of the conversation. `round` counts from 1 in the request."""

    round: int
    response: str = ""
    input: tuple[int, ...] = ()
    output: tuple[int, ...] = ()


class RequestEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request of the user, with everything up to its stop. `key` is its branch and its number there: `main/3`.

    A branch has its own requests, and those of its parent up to the position where it begins.

    - `root`, `stop`: keys of the conversation. `stop` is absent while the request runs.
    - `unread`: the last input, if no output follows it.
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
    """A question for permission of the call `call`, or a decision without a question.

    - `outcome`: allowed, rejected or cancelled. It is absent while the question waits.
    - `scope`: what a remembered answer covers.
    - `rest`: the answer also covers the other file changes of the statement.
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
    """A change of the session's place on the timeline. Its `type` is one of these:

    - `branch`: `to` was created from `origin` at the position `before`.
    - `switch`: `to` became the active branch instead of `origin`. `statement` is the number of its last statement.
    - `rewind`: files were restored to their state after `statement` (0: the beginning). `restored` and `left` are there
      when it has ended. `is_undo`, `is_redo`: only the files of one execution. `is_cancelled`: it was cancelled.
    - `replay`: the statements `first` to `last` ran again.
    - `edit`: statement `first` got a new source, and the statements up to `last` ran after it.

    For a replay and an edit, `outcome` is absent while they run. `detail` says why they did not complete.
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
    """An event of another kind, such as a change of the mode: its `kind` and its fields, as in `docs/events.md`.

    A string of more than 1,000 characters is a `Text`.
    """

    key: int
    kind: str
    branch: str
    at: float
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


class Content(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A content: a `text`, or `data`, its bytes in base64. If both are missing, `left_out` says why."""

    text: str | None = None
    data: str | None = None
    media_type: str = ""
    left_out: str = ""


class NameDifference(Struct, frozen=True, kw_only=True):
    """A name that differs between two branches, by short reprs; null where a branch does not have it."""

    name: str
    left: str | None
    right: str | None


class FileDifference(Struct, frozen=True, kw_only=True):
    """A file that differs between two branches, by digests or words about it; null where a branch does not have it."""

    path: str
    name: str
    left: str | None
    right: str | None


class Comparison(Struct, frozen=True, kw_only=True):
    """The differences of two branches, as `rewindow diff` prints them.

    The first `shared` statements are common. `left_statements` and `right_statements` are keys of those after these.
    """

    left: str
    right: str
    shared: int
    left_statements: tuple[int, ...]
    right_statements: tuple[int, ...]
    names: tuple[NameDifference, ...]
    files: tuple[FileDifference, ...]


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
