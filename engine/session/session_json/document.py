"""A session's events as one JSON document, entry by entry: the fold behind `rewindow show --json` and the page.

`SessionDocument.apply` takes each event of a whole log and notes which entries it changes. `changes` builds those since
a position, so a live page costs what has changed, and `document` builds all. Both are functions of the events alone: a
document is the sum of the changes since the beginning, however they were cut.

An entry holds the beginning of a long text. The whole is a content, named by the digest of its UTF-8. So a text that
occurs often, such as a result that is also in a prompt, is there once. The log itself names contents of files, prompts
and pictures. Nothing here redacts: the caller passes events and contents without secrets.

Pure, but for `content`, which reads what the log names. Must not know who reads a document.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from ...context.tail.feed import divergence_phrase
from ...context.tail.prompt import Account, message_text
from ...context.tail.sent_prompts import PromptEntries, role_of
from ...core.execution import Captured, Display, ExceptionInfo, NamespaceDiff
from ...core.ids import BlobDigest, BranchId, EventId, ExecutionId, ObjId, Seq, StatementId, ToolCallId
from ...core.pictures import Picture
from ...core.plain_data import DEEPEST, number
from ...core.text import valid_text
from ...core.toolbox import call_title
from ...log.branches import Branches, BranchRow, branch_rows
from ...log.cycles import CycleFold, RequestCycle, rounds_of, steps_of
from ...log.cycles.machine import Item
from ...log.cycles.views import AiBlock, Call, Step
from ...log.events import Event
from ...log.events.conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    Condensation,
    ResultRerendered,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ...log.events.execution import (
    CheckpointTaken,
    CommandEnded,
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    FileTouched,
    FileWritten,
    StatementOmitted,
    StatementRecorded,
    ValuesDropped,
    ValuesKept,
)
from ...log.events.going_back import (
    BranchCreated,
    Diverged,
    EditBegun,
    FileLeft,
    FileToRestore,
    HeadMoved,
    ReplayBegun,
    ReplayEnded,
    RewindBegun,
    Rewound,
)
from ...log.events.nodes import (
    AsyncPayloadApplied,
    AsyncPayloadDropped,
    AsyncPayloadPrepared,
    ContentsAdopted,
    FileChanged,
    GroupRecomputed,
    MethodCalled,
    NodeChanged,
    NodeMade,
    NodesTicked,
    OutlineMade,
    RevisionAdopted,
    StatementTicked,
    TickApplied,
)
from ...log.events.session import (
    ConfigChanged,
    ModeChanged,
    ModelCallEnded,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    ProjectionSent,
    PromptQueued,
    PromptWithdrawn,
    RoundOpened,
    SessionMoved,
    SessionOpened,
    TitleChanged,
)
from ...log.facts import SessionFacts, Spending, Spent
from ...log.timeline import Timeline
from ..past.branch_diff import Side, diff
from . import shapes
from .shapes import SCHEMA, TABLES, Patch, Text
from .texts import Hit, Texts, file_content

LEFT_OUT: Final[frozenset[type[Event]]] = frozenset(
    (
        AsyncPayloadDropped,
        AsyncPayloadPrepared,
        ContentsAdopted,
        FileTouched,
        NodesTicked,
        OutlineMade,
        RevisionAdopted,
        RoundOpened,
        StatementTicked,
        ValuesDropped,
        ValuesKept,
    )
)
"""Kinds of event that change only the number of events: what replays and rebuilds need, and what nobody asks about."""

Key = int | str
_STAMP: Final = frozenset(Event.__struct_fields__)
_NO_TEXT: Final = "the log or the store no longer has the content"


class _Run(Struct):
    """An execution so far."""

    started: ExecutionStarted
    statement: int
    finished: ExecutionFinished | None = None
    effects: dict[int, tuple[EffectRequested | None, EffectAnswered | None]] = field(default_factory=dict[int, Any])
    commands: list[CommandEnded] = field(default_factory=list[CommandEnded])
    files: list[str] = field(default_factory=list[str])
    divergences: list[Diverged] = field(default_factory=list[Diverged])
    checkpoint: bool = False


class _Told(Struct):
    """A statement so far."""

    event: StatementRecorded
    call: ToolCall | None
    before: tuple[int, ...]
    after: list[int] = field(default_factory=list[int])
    runs: list[int] = field(default_factory=list[int])
    omitted: dict[str, bool] = field(default_factory=dict[str, bool])


class _Sent(Struct):
    """A model call so far. `messages` are keys of messages."""

    number: int
    event: ProjectionSent
    kept: int
    messages: tuple[int, ...]
    handles: tuple[shapes.HandleTokens, ...] = ()
    ended: ModelCallEnded | None = None


class _Held(Struct):
    """A handle so far."""

    made: NodeMade
    changes: list[tuple[Event, str, str]] = field(default_factory=list[tuple[Event, str, str]])
    shown: Display | None = None
    shown_at: int | None = None
    unread: int = 0


class _Move(Struct):
    """A move in time so far: the event that began it, and the one that ended it."""

    begun: Event
    ended: Event | None = None


class _Path:
    """The read models of one branch's path."""

    def __init__(self, at: Callable[[Seq], Event]) -> None:
        self._timeline = Timeline(at)
        self.account = Account(self._timeline)
        self.cycles = CycleFold(at)
        self.used: dict[ObjId, set[int]] = {}
        """The handles in model calls of the branch, with the numbers of these calls."""
        self.is_new = True
        """Whether a request may have changed since changes were read last."""
        self.told = 0
        """The number of the last request that cannot change any more, except by a late result."""

    def apply(self, event: Event) -> None:
        self._timeline.apply(event)
        self.account.apply(event)
        self.cycles.apply(event)
        self.is_new |= type(event) in CycleFold.FOLLOWS


class SessionDocument:
    """The document of a session. `apply` takes every event of its log, in order, without secrets.

    Args:
        session_id: the session's.
        content: returns a text that the log names by its digest, without secrets; None if the store cannot return it.
    """

    def __init__(self, session_id: str, content: Callable[[BlobDigest], str | None]) -> None:
        self._session_id = session_id
        self._content = content
        self._events: list[Event] = []
        self._branches = Branches()
        self._facts = SessionFacts()
        self._spending = Spending()
        self._entries = PromptEntries()
        self._texts = Texts()
        self._paths: dict[str, _Path] = {}
        self._opened: SessionOpened | None = None
        self._moved: SessionMoved | None = None
        self._title, self._mode = "", ""
        self._options: dict[str, str] = {}
        self._plans: dict[str, PlanChanged] = {}
        self._touched: dict[str, dict[Key, int]] = {name: {} for name in TABLES}
        """The keys of each table's entries, each with the number of events when it changed last, in that order."""
        self._touch("branches", self._branches.active)
        self._calls_made: dict[ToolCallId, ToolCall] = {}
        self._statements: dict[int, _Told] = {}
        self._statement_of: dict[StatementId, int] = {}
        self._runs: dict[int, _Run] = {}
        self._run_of: dict[ExecutionId, int] = {}
        self._files: dict[str, list[tuple[str, Event, FileToRestore | None]]] = {}
        self._items: dict[int, Event] = {}
        self._sent: list[_Sent] = []
        self._prompt: tuple[EventId, ...] = ()
        self._prompt_keys: tuple[int, ...] = ()
        self._messages: list[tuple[EventId, bool, BlobDigest | None]] = []
        self._message_of: dict[tuple[EventId, bool, BlobDigest | None], int] = {}
        self._handles: dict[int, _Held] = {}
        self._handles_of: dict[str, list[int]] = {}
        self._questions: dict[int, tuple[PermissionAsked | PermissionAnswered, PermissionAnswered | None]] = {}
        self._open_questions: dict[ToolCallId, int] = {}
        self._moves: dict[int, _Move] = {}
        self._open_move: dict[str, int] = {}
        self._notes: dict[int, Event] = {}
        self._since_statement: list[int] = []
        self._last_statement: int | None = None
        self._branch = ""
        self._cycles: dict[str, RequestCycle] = {}
        self._rows: dict[BranchId, BranchRow] = {}

    # --- events -------------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Take the next event of the log."""
        self._events.append(event)
        count = len(self._branches.all)
        self._branches.apply(event)
        if len(self._branches.all) != count or event.branch_id != self._branch:
            for branch in self._branches.all:
                self._touch("branches", branch.name)
        if event.branch_id != self._branch:
            self._branch, self._since_statement, self._last_statement = event.branch_id, [], None
        self._facts.apply(event)
        self._spending.apply(event)
        self._entries.apply(event)
        self._follow_path(event)
        if type(event) not in LEFT_OUT:
            self._take(event)

    def _follow_path(self, event: Event) -> None:
        path = self._paths.get(event.branch_id)
        if path is None:
            path = self._paths[event.branch_id] = _Path(self._at)
            for each in self._branches.path(self._events, event.branch_id):
                path.apply(each)
        else:
            path.apply(event)
        if type(event) not in Account.FOLLOWS:
            return
        for handle, numbers in path.used.items():
            first = self._sent[min(numbers) - 1]
            known = next((each for each in first.handles if each.handle == handle), None)
            named = self._named(path, handle, 0)
            if known is not None and (known.name, known.title) != (named.name, named.title):
                for number_of in numbers:
                    sent = self._sent[number_of - 1]
                    sent.handles = tuple(self._named(path, ObjId(each.handle), each.tokens) for each in sent.handles)
                    self._touch("calls", number_of)

    def _at(self, seq: Seq) -> Event:
        return self._events[seq]

    def _touch(self, table: str, key: Key) -> None:
        touched = self._touched[table]
        touched.pop(key, None)
        touched[key] = len(self._events)

    def _take(self, event: Event) -> None:
        for take in (
            self._take_item,
            self._take_execution,
            self._take_file,
            self._take_call,
            self._take_handle,
            self._take_move,
            self._take_session,
        ):
            if take(event):
                return
        self._notes[event.seq] = event
        self._touch("notes", event.seq)

    def _take_item(self, event: Event) -> bool:
        match event:
            case UserMessage() | AgentText() | AgentReasoning() | Condensation():
                if not isinstance(event, Condensation):
                    self._take_words(event.seq)
            case ToolCall():
                self._calls_made[event.tool_call_id] = event
            case ToolResult() | ResultRerendered() | PromptQueued() | PromptWithdrawn():
                pass
            case RunStop():
                if (key := self._open_move.pop("edit", None)) is not None:
                    self._moves[key].ended = event
                    self._touch("moves", key)
            case _:
                return False
        if isinstance(event, ResultRerendered):
            self._show(event.displays, event)
        self._items[event.seq] = event
        self._touch("conversation", event.seq)
        return True

    def _take_words(self, key: int) -> None:
        self._since_statement.append(key)
        if self._last_statement is not None:
            self._statements[self._last_statement].after.append(key)
            self._touch("statements", self._last_statement)

    def _take_execution(self, event: Event) -> bool:
        match event:
            case StatementRecorded():
                self._record(event)
            case StatementOmitted(statement_id=statement, omitted=omitted):
                if (key := self._statement_of.get(statement)) is not None:
                    self._statements[key].omitted[event.branch_id] = omitted
                    self._touch("statements", key)
            case ExecutionStarted(statement_id=statement, execution_id=execution):
                if (key := self._statement_of.get(statement)) is None:
                    return False
                self._run_of[execution] = event.seq
                self._runs[event.seq] = _Run(event, key)
                self._statements[key].runs.append(event.seq)
                self._touch("statements", key)
                self._touch("executions", event.seq)
            case (
                ExecutionFinished(execution_id=execution)
                | EffectRequested(execution_id=execution)
                | EffectAnswered(execution_id=execution)
                | CommandEnded(execution_id=execution)
                | CheckpointTaken(execution_id=execution)
                | Diverged(execution_id=execution)
            ):
                if (key := self._run_of.get(execution)) is None:
                    return False
                self._take_part(self._runs[key], event)
                self._touch("executions", key)
            case _:
                return False
        return True

    def _record(self, event: StatementRecorded) -> None:
        made = self._calls_made.get(event.tool_call_id)
        self._statements[event.seq] = _Told(
            event, made if made is not None and made.parent_id is None else None, tuple(self._since_statement)
        )
        self._statement_of[event.statement_id] = event.seq
        self._since_statement, self._last_statement = [], event.seq
        self._touch("statements", event.seq)
        self._touch("branches", event.branch_id)

    def _take_part(self, run: _Run, event: Event) -> None:
        match event:
            case ExecutionFinished(displays=displays):
                run.finished = event
                self._show(displays, event)
            case EffectRequested(ordinal=ordinal):
                run.effects[ordinal] = event, run.effects.get(ordinal, (None, None))[1]
            case EffectAnswered(ordinal=ordinal):
                run.effects[ordinal] = run.effects.get(ordinal, (None, None))[0], event
            case CommandEnded():
                run.commands.append(event)
            case Diverged():
                run.divergences.append(event)
            case _:
                run.checkpoint = True

    def _take_file(self, event: Event) -> bool:
        match event:
            case FileWritten(path=path, execution_id=execution):
                self._change_file(path, str(event.seq), event, None)
                if (key := self._run_of.get(execution)) is not None:
                    self._runs[key].files.append(str(event.seq))
                    self._touch("executions", key)
            case FileChanged(path=path):
                self._change_file(path, str(event.seq), event, None)
            case _:
                return False
        return True

    def _change_file(self, path: str, key: str, event: Event, restored: FileToRestore | None) -> None:
        path = valid_text(path)
        self._files.setdefault(path, []).append((key, event, restored))
        self._touch("files", path)

    def _take_call(self, event: Event) -> bool:
        match event:
            case ProjectionSent():
                self._send(event)
            case ModelCallEnded():
                if self._sent:
                    self._sent[-1].ended = event
                    self._touch("calls", len(self._sent))
            case PermissionAsked(tool_call_id=call):
                self._questions[event.seq] = event, None
                self._open_questions[call] = event.seq
                self._touch("questions", event.seq)
            case PermissionAnswered(tool_call_id=call):
                key = self._open_questions.pop(call, None)
                if key is None:
                    self._questions[event.seq] = event, event
                else:
                    self._questions[key] = self._questions[key][0], event
                self._touch("questions", event.seq if key is None else key)
            case _:
                return False
        return True

    def _send(self, event: ProjectionSent) -> None:
        self._prompt = (*self._prompt[: max(event.kept, 0)], *event.messages)
        keys = tuple(self._message_key((each, event.calls_tools, event.shortened.get(each))) for each in self._prompt)
        pairs = zip(self._prompt_keys, keys, strict=False)
        kept = next(
            (place for place, (was, now) in enumerate(pairs) if was != now), min(len(self._prompt_keys), len(keys))
        )
        self._prompt_keys = keys
        sent = _Sent(len(self._sent) + 1, event, kept, keys[kept:])
        path = self._paths[event.branch_id]
        sent.handles = tuple(self._named(path, handle, tokens) for handle, tokens in event.nodes.items())
        for handle in event.nodes:
            path.used.setdefault(handle, set()).add(sent.number)
        self._sent.append(sent)
        self._touch("calls", sent.number)

    def _message_key(self, sent: tuple[EventId, bool, BlobDigest | None]) -> int:
        key = self._message_of.get(sent)
        if key is None:
            key = self._message_of[sent] = len(self._messages)
            self._messages.append(sent)
            self._touch("messages", key)
        return key

    @staticmethod
    def _named(path: _Path, handle: ObjId, tokens: int) -> shapes.HandleTokens:
        return shapes.HandleTokens(
            handle=handle, tokens=tokens, name=path.account.name(handle), title=path.account.title(handle)
        )

    def _take_handle(self, event: Event) -> bool:
        match event:
            case NodeMade(obj_id=handle):
                self._handles[event.seq] = _Held(event)
                self._handles_of.setdefault(handle, []).append(event.seq)
                self._touch("handles", event.seq)
                return True
            case MethodCalled(obj_id=handle, method=method, args=args, kwargs=kwargs):
                given = ", ".join((*args, *(f"{name}={value}" for name, value in kwargs.items())))
                return self._change_handle(handle, event, "method", f"{method}({given})")
            case TickApplied(obj_id=handle, delta=delta) | AsyncPayloadApplied(obj_id=handle, delta=delta):
                return self._change_handle(handle, event, "tick", delta)
            case NodeChanged(obj_id=handle, delta=delta) | GroupRecomputed(obj_id=handle, delta=delta):
                return self._change_handle(handle, event, "change", delta)
            case _:
                return False

    def _held(self, handle: str) -> int | None:
        """Return the key of the handle with that id on the active path, where it is unique."""
        made = reversed(self._handles_of.get(handle, ()))
        return next((key for key in made if self._branches.holds(self._events[key])), None)

    def _change_handle(self, handle: str, event: Event, kind: str, text: str) -> bool:
        key = self._held(handle)
        if key is None:
            return False
        held = self._handles[key]
        held.changes.append((event, kind, text))
        held.unread += kind != "method"
        self._touch("handles", key)
        return True

    def _show(self, displays: Iterable[Display], event: Event) -> None:
        for display in displays:
            if (key := self._held(display.obj_id)) is not None and not display.given:
                held = self._handles[key]
                held.shown, held.shown_at, held.unread = display, event.seq, 0
                self._touch("handles", key)

    def _take_move(self, event: Event) -> bool:
        match event:
            case BranchCreated() | HeadMoved():
                self._moves[event.seq] = _Move(event)
            case ReplayBegun():
                self._begin_move("replay", event)
            case EditBegun():
                self._begin_move("edit", event)
            case RewindBegun():
                self._begin_move("rewind", event)
            case ReplayEnded():
                return self._end_move("replay", event)
            case Rewound():
                for place, file in enumerate(() if event.cancelled else event.restored):
                    self._change_file(file.path, f"{event.seq}.{place}", event, file)
                if not self._end_move("rewind", event):
                    self._moves[event.seq] = _Move(event, event)
                    self._touch("moves", event.seq)
                return True
            case _:
                return False
        self._touch("moves", event.seq)
        return True

    def _begin_move(self, kind: str, event: Event) -> None:
        self._moves[event.seq] = _Move(event)
        self._open_move[kind] = event.seq

    def _end_move(self, kind: str, event: Event) -> bool:
        key = self._open_move.pop(kind, None)
        if key is None:
            return False
        self._moves[key].ended = event
        self._touch("moves", key)
        return True

    def _take_session(self, event: Event) -> bool:
        """Note what the head shows. All but the first event of a session are notes, too."""
        match event:
            case SessionOpened():
                self._opened = event
            case SessionMoved():
                self._moved = event
                # Names are relative to the new directory.
                for table, keys in (("files", self._files), ("moves", self._moves)):
                    for key in keys:
                        self._touch(table, key)
            case TitleChanged(title=title):
                self._title = title
            case ModeChanged(mode=mode):
                self._mode = mode
            case ConfigChanged(option=option, value=value):
                self._options[option] = value
            case PlanChanged():
                self._plans[event.branch_id] = event
            case _:
                pass
        return False

    # --- entries ------------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """How many events it covers."""
        return len(self._events)

    def changes(self, since: int) -> Patch:
        """Return the head, and the entries that the events from position `since` on have changed, perhaps more.

        Only tables that have any are in it. Any number of readers, each at a position of its own, may call it.
        """
        self._mark_requests()
        return self._built({name: _newer(touched, since) for name, touched in self._touched.items()})

    def document(self) -> Patch:
        """Return the whole document: the head and every table, without contents."""
        keys: dict[str, Iterable[Key]] = {
            "branches": [branch.name for branch in self._branches.all],
            "statements": self._statements,
            "executions": self._runs,
            "files": self._files,
            "conversation": self._items,
            "requests": [key for name, path in self._paths.items() for key in self._requests(name, path, 0)],
            "calls": range(1, len(self._sent) + 1),
            "messages": range(len(self._messages)),
            "handles": self._handles,
            "questions": self._questions,
            "moves": self._moves,
            "notes": self._notes,
        }
        built = self._built(keys)
        return {"schema": SCHEMA, "session": built["session"], **{name: built.get(name, []) for name in TABLES}}

    def _built(self, keys: Mapping[str, Iterable[Key]]) -> Patch:
        build: dict[str, Callable[[Any], Struct | None]] = {
            "branches": self._branch_entry,
            "statements": self._statement,
            "executions": self._execution,
            "files": self._file,
            "conversation": self._item,
            "requests": self._request,
            "calls": self._call,
            "messages": self._message,
            "handles": self._handle,
            "questions": self._question,
            "moves": self._move,
            "notes": self._note,
        }
        if any(True for _ in keys.get("branches", ())):
            self._rows = {row.name: row for row in branch_rows(self._branches, self._facts.statements_below)}
        patch: Patch = {"session": self._head()}
        for name, make in build.items():
            entries: list[Struct] = []
            for key in keys.get(name, ()):
                with self._texts.of(name, key):
                    entry = make(key)
                if entry is not None:
                    entries.append(entry)
            if entries:
                patch[name] = entries
        return patch

    def search(self, text: str, most: int) -> Sequence[Hit]:
        """Return the entries that have a text, in any case, with what is around it; at most `most`. O(the log).

        It looks at whole texts of statements, executions, files and the conversation.
        """
        keys: dict[str, Iterable[Key]] = {
            "statements": self._statements,
            "executions": self._runs,
            "files": self._files,
            "conversation": self._items,
        }
        with self._texts.searching(text):
            for table, found in keys.items():
                for key in found:
                    if table == "files":
                        with self._texts.of(table, key):
                            self._texts.look(str(key))
                    self._built({table: (key,)})
                    if len(self._texts.hits) >= most:
                        return tuple(self._texts.hits)
            return tuple(self._texts.hits)

    def comparison(self, left: str, right: str) -> shapes.Comparison:
        """Compare the ends of two branches. O(the log).

        Raises:
            InvalidRequestError: a branch does not exist, or both are the same.
        """
        found = diff(self._events, self._branches, left, right)
        return shapes.Comparison(
            left=valid_text(found.left),
            right=valid_text(found.right),
            shared=found.shared,
            left_statements=tuple(cell.recorded for cell in found.left_cells),
            right_statements=tuple(cell.recorded for cell in found.right_cells),
            names=tuple(
                shapes.NameDifference(name=valid_text(each.name), left=_side(each.left), right=_side(each.right))
                for each in found.names
            ),
            files=tuple(
                shapes.FileDifference(
                    path=valid_text(each.name),
                    name=self._name(valid_text(each.name)),
                    left=_side(each.left),
                    right=_side(each.right),
                )
                for each in found.files
            ),
        )

    @property
    def branches(self) -> Sequence[str]:
        """The names of its branches, oldest first."""
        return tuple(branch.name for branch in self._branches.all)

    @property
    def texts(self) -> Texts:
        """The long texts and named contents of the entries that were built so far."""
        return self._texts

    def text(self, digest: str) -> str | None:
        """Return the whole of a text of which an entry has the beginning; None if no entry has one of that digest."""
        place = self._texts.place(digest)
        if place is None:
            return None
        table, key = place
        with self._texts.looking_for(digest):
            self._built({table: [key]})
        return self._texts.found

    def _head(self) -> shapes.SessionHead:
        at, last = self._moved or self._opened, self._events[-1] if self._events else None
        opened = self._opened
        path = self._paths.get(self._branches.active)
        plan = next(
            (self._plans[name] for name in self._branches.bounds_of(self._branches.active) if name in self._plans), None
        )
        return shapes.SessionHead(
            session_id=self._session_id,
            cwd=valid_text(at.cwd if at else ""),
            directories=tuple(map(valid_text, at.directories if at else ())),
            title=valid_text(self._title),
            client=valid_text(opened.client) if opened else "",
            confined=at.confined if at else False,
            python=valid_text(at.python if at else ""),
            opened_at=self._events[0].at if self._events else 0.0,
            changed_at=last.at if last else 0.0,
            events=len(self._events),
            branch=valid_text(self._branches.active),
            is_running=path is not None and path.cycles.active is not None,
            mode=self._mode,
            options={valid_text(name): valid_text(value) for name, value in self._options.items()},
            plan=() if plan is None else plan.entries,
            spent=_spent(self._spending.total),
            models={valid_text(name): _spent(spent) for name, spent in self._spending.by_model.items()},
        )

    def _branch_entry(self, name: str) -> shapes.BranchEntry:
        branch, row = self._branches.named(name), self._rows[BranchId(name)]
        assert branch is not None
        return shapes.BranchEntry(
            key=valid_text(name),
            parent=None if branch.parent is None else valid_text(branch.parent),
            before=branch.before,
            shared=row.shared,
            last=row.last,
            is_active=row.is_active,
        )

    def _statement(self, key: int) -> shapes.StatementEntry:
        told = self._statements[key]
        event = told.event
        by = "outside" if told.call is None else "user" if told.call.typed else "model"
        return shapes.StatementEntry(
            key=key,
            statement_id=valid_text(event.statement_id),
            index=event.index,
            branch=valid_text(event.branch_id),
            at=event.at,
            source=self._texts.text(event.source),
            kind=event.statement_kind,
            by="session" if event.statement_kind == "meta" else by,
            call=valid_text(event.tool_call_id),
            tags=tuple(map(valid_text, event.tag_names)),
            is_withheld=bool(event.withheld),
            omitted={valid_text(branch): omitted for branch, omitted in told.omitted.items()},
            executions=tuple(told.runs),
            before=told.before,
            after=tuple(told.after),
        )

    def _execution(self, key: int) -> shapes.ExecutionEntry:
        run = self._runs[key]
        started, ended = run.started, run.finished
        text = self._texts.text
        return shapes.ExecutionEntry(
            key=key,
            execution_id=valid_text(started.execution_id),
            statement=run.statement,
            branch=valid_text(started.branch_id),
            status="running" if ended is None else ended.status,
            started_at=started.at if ended is None else ended.started_at,
            ended_at=None if ended is None else ended.ended_at,
            time_ms=0.0 if ended is None else ended.time_ms,
            mode=started.mode,
            against=None if started.against is None else valid_text(started.against),
            counts=started.counts,
            answered=started.answered,
            round=started.round_id,
            value=None if ended is None or ended.value is None else text(ended.value),
            markdown=None if ended is None or not ended.markdown else text(ended.markdown),
            pictures=() if ended is None else tuple(map(self._picture, ended.pictures)),
            error=None if ended is None or ended.exception is None else self._error(ended.exception),
            stdout=None if ended is None else self._output(ended.stdout),
            stderr=None if ended is None else self._output(ended.stderr),
            renders=() if ended is None else tuple(map(self._render, ended.displays)),
            names=() if ended is None else tuple(_names(ended.diff)),
            effects=tuple(self._effect(ordinal, *both) for ordinal, both in sorted(run.effects.items())),
            commands=tuple(map(self._command, run.commands)),
            files=tuple(run.files),
            divergences=tuple(map(_divergence, run.divergences)),
            checkpoint=run.checkpoint,
        )

    def _error(self, error: ExceptionInfo) -> shapes.ErrorEntry:
        return shapes.ErrorEntry(
            type=valid_text(error.type),
            message=self._texts.text(error.message),
            traceback=self._texts.text(error.traceback) if error.traceback else None,
        )

    def _output(self, output: Captured) -> shapes.OutputEntry | None:
        if not output.total_bytes and not output.text:
            return None
        return shapes.OutputEntry(text=self._texts.text(output.text), bytes=output.total_bytes, is_cut=output.truncated)

    def _picture(self, picture: Picture) -> shapes.PictureEntry:
        if picture.content is not None:
            self._texts.name(picture.content, picture.media_type)
        return shapes.PictureEntry(
            name=valid_text(picture.name),
            media_type=picture.media_type,
            digest=picture.content,
            width=picture.width,
            height=picture.height,
            size=picture.size,
            problem=valid_text(picture.problem),
        )

    def _render(self, display: Display) -> shapes.RenderEntry:
        return shapes.RenderEntry(
            handle=valid_text(display.obj_id),
            title=valid_text(display.title),
            text=self._texts.text(display.text),
            tokens=display.tokens,
            budget=display.budget,
            level=display.lod,
            first_line=display.first_line,
            last_line=display.last_line,
            lines=display.lines,
            state=valid_text(display.state),
            reason=valid_text(display.reason),
            follows=valid_text(display.freq),
            revision=valid_text(display.revision),
        )

    def _effect(
        self, ordinal: int, asked: EffectRequested | None, answered: EffectAnswered | None
    ) -> shapes.EffectEntry:
        either = asked or answered
        assert either is not None
        return shapes.EffectEntry(
            ordinal=ordinal,
            operation=valid_text(either.operation),
            call=valid_text(asked.tool_call_id or "") if asked else "",
            error=None if answered is None or answered.error is None else self._error(answered.error),
        )

    def _command(self, event: CommandEnded) -> shapes.CommandEntry:
        call = self._calls_made.get(event.tool_call_id)
        return shapes.CommandEntry(
            call=valid_text(event.tool_call_id),
            command=self._texts.text("" if call is None else str(call.arguments.get("command", ""))),
            cwd=valid_text(event.cwd),
            code=event.code,
            signal=event.signal,
            timed_out=event.timed_out,
            reason=valid_text(event.reason),
            time_ms=event.time_ms,
            output=self._output(event.output),
            errors=self._output(event.errors),
        )

    def _file(self, path: str) -> shapes.FileEntry:
        changes = tuple(self._file_change(*each) for each in self._files[path])
        return shapes.FileEntry(key=path, name=self._name(path), changes=changes)

    def _name(self, path: str) -> str:
        at = self._moved or self._opened
        cwd = valid_text(at.cwd) if at else ""
        return os.path.relpath(path, cwd) if cwd and path.startswith(os.path.join(cwd, "")) else path

    def _file_change(self, key: str, event: Event, restored: FileToRestore | None) -> shapes.FileChangeEntry:
        if isinstance(event, FileWritten):
            return self._written(key, event)
        if restored is not None:
            return shapes.FileChangeEntry(
                key=key,
                at=event.at,
                branch=valid_text(event.branch_id),
                by="rewind",
                change=_change(restored.present_digest, restored.wanted_digest, restored.source),
                before=self._file_content(restored.present, restored.present_digest),
                after=self._file_content(restored.wanted, restored.wanted_digest),
                before_hash=valid_text(restored.present_digest),
                after_hash=valid_text(restored.wanted_digest),
                before_mode=restored.present_mode,
                after_mode=restored.wanted_mode,
                moved_from=valid_text(restored.source),
            )
        assert isinstance(event, FileChanged)
        return shapes.FileChangeEntry(
            key=key,
            at=event.at,
            branch=valid_text(event.branch_id),
            by="others",
            change="created" if event.change == "created" else "deleted" if event.change == "deleted" else "modified",
            before_hash=valid_text(event.before_digest),
            after_hash=valid_text(event.after_digest),
            text=self._texts.text(event.delta),
        )

    def _written(self, key: str, event: FileWritten) -> shapes.FileChangeEntry:
        run = self._run_of.get(event.execution_id)
        return shapes.FileChangeEntry(
            key=key,
            at=event.at,
            branch=valid_text(event.branch_id),
            by="statement",
            change=_change(event.before_digest, event.after_digest, event.source),
            statement=None if run is None else self._runs[run].statement,
            execution=run,
            call=valid_text(event.tool_call_id),
            before=self._file_content(event.before, event.before_digest),
            after=self._file_content(event.after, event.after_digest),
            before_hash=valid_text(event.before_digest),
            after_hash=valid_text(event.after_digest),
            before_mode=event.before_mode,
            after_mode=event.after_mode,
            regions=tuple(
                shapes.RegionEntry(
                    line=region.line,
                    new=self._texts.text(region.new),
                    old=None if region.old is None else self._texts.text(region.old),
                    more_added=region.left_out.added if region.left_out else 0,
                    more_removed=region.left_out.removed if region.left_out else 0,
                )
                for region in event.changes
            ),
            note=valid_text(event.note),
            is_noticed=event.noticed,
            unsure=valid_text(event.unsure),
            moved_from=valid_text(event.source),
            is_withheld=bool(event.withheld),
        )

    def _file_content(self, digest: BlobDigest | None, state: str) -> str | None:
        found = file_content(digest, state)
        if found is not None:
            self._texts.name(found, "")
        return found

    def _item(self, key: int) -> shapes.ItemEntry | None:
        event = self._items[key]
        text = self._texts.text
        more: dict[str, Any]
        match event:
            case UserMessage():
                more = {
                    "type": "user",
                    "text": text(event.text),
                    "message": valid_text(event.message_id),
                    "kind": event.prompt_kind,
                    "is_aside": event.aside,
                    "expansion": text(event.expansion) if event.expansion else None,
                    "attachments": tuple(map(self._attachment, event.attachments)),
                }
            case AgentText() | AgentReasoning():
                more = {
                    "type": "reply" if isinstance(event, AgentText) else "reasoning",
                    "text": text(event.text),
                    "message": valid_text(event.message_id),
                    "response": valid_text(event.llm_response_id or ""),
                    "is_aside": isinstance(event, AgentText) and event.aside,
                }
            case ToolCall():
                more = {
                    "type": "call",
                    "call": valid_text(event.tool_call_id),
                    "tool": valid_text(event.tool),
                    "title": text(call_title(event.tool, event.arguments)).text,
                    "arguments": text(_json(event.arguments)),
                    "response": valid_text(event.llm_response_id or ""),
                    "parent": valid_text(event.parent_id or ""),
                    "is_typed": event.typed,
                    "is_refused": event.refused,
                }
            case ToolResult():
                more = {
                    "type": "result",
                    "text": text(event.text),
                    "call": valid_text(event.tool_call_id),
                    "status": event.status,
                    "parent": valid_text(event.parent_id or ""),
                    "pictures": tuple(map(self._picture, event.pictures)),
                }
            case ResultRerendered():
                more = {"type": "rerender", "text": text(event.text), "call": valid_text(event.tool_call_id)}
            case RunStop():
                more = {"type": "stop", "status": event.reason, "cause": event.cause, "text": text(event.detail or "")}
            case Condensation():
                more = {"type": "summary", "text": text(event.summary or ""), "forgotten": len(event.forgotten)}
            case PromptQueued():
                more = {"type": "queued", "text": text(event.text), "message": valid_text(event.message_id)}
            case _:
                more = {"type": "withdrawn", "message": valid_text(cast("PromptWithdrawn", event).message_id)}
        return shapes.ItemEntry(
            key=key, event=valid_text(event.event_id), at=event.at, branch=valid_text(event.branch_id), **more
        )

    def _attachment(self, attachment: Attachment) -> shapes.AttachmentEntry:
        return shapes.AttachmentEntry(
            uri=self._texts.text(attachment.uri).text,
            name=valid_text(attachment.name),
            media_type=valid_text(attachment.media_type or ""),
            text=None if attachment.text is None else self._texts.text(attachment.text),
            picture=None if attachment.picture is None else self._picture(attachment.picture),
        )

    def _call(self, key: int) -> shapes.CallEntry:
        sent = self._sent[key - 1]
        event, ended = sent.event, sent.ended
        for digest in (event.instructions, event.tail):
            if digest is not None:
                self._texts.name(digest, "text/plain")
        counted = ended or event
        return shapes.CallEntry(
            key=key,
            position=event.seq,
            branch=valid_text(event.branch_id),
            at=event.at,
            round=event.round_id,
            used=event.used,
            size=event.size,
            shared=event.shared,
            sections={valid_text(name): tokens for name, tokens in event.sections.items()},
            handles=sent.handles,
            calls_tools=event.calls_tools,
            instructions=event.instructions,
            tail=event.tail,
            kept=sent.kept,
            messages=sent.messages,
            ended_at=None if ended is None else ended.at,
            answered=counted.answered,
            model="" if ended is None else valid_text(ended.model),
            input_tokens=counted.input_tokens,
            cached_tokens=counted.cached_tokens,
            output_tokens=counted.output_tokens,
            dollars=None if ended is None else ended.dollars,
        )

    def _message(self, key: int) -> shapes.MessageEntry:
        event_id, calls_tools, digest = self._messages[key]
        shortened = None if digest is None else self._content(digest)
        try:
            message = self._entries.message(event_id, shortened)
        except KeyError:
            return shapes.MessageEntry(key=key, event=valid_text(event_id), role="", text=Text(""), problem=_NO_TEXT)
        return shapes.MessageEntry(
            key=key,
            event=valid_text(event_id),
            role=valid_text(role_of(message)),
            text=self._texts.text(message_text(message, calls_tools=calls_tools)),
            is_shortened=digest is not None,
            problem=_NO_TEXT if digest is not None and shortened is None else "",
        )

    def _handle(self, key: int) -> shapes.HandleEntry:
        held = self._handles[key]
        made, shown = held.made, held.shown
        return shapes.HandleEntry(
            key=key,
            handle=valid_text(made.obj_id),
            type=valid_text(made.obj_type),
            branch=valid_text(made.branch_id),
            at=made.at,
            statement=made.statement,
            line=made.line,
            name=valid_text(made.name),
            title=valid_text(shown.title) if shown else "",
            level=shown.lod if shown else 0,
            budget=shown.budget if shown else 0,
            tokens=shown.tokens if shown else 0,
            follows=valid_text(shown.freq) if shown else "",
            revision=valid_text(shown.revision) if shown else "",
            state=valid_text(shown.state) if shown else "",
            shown_at=held.shown_at,
            unread=held.unread,
            changes=tuple(
                shapes.HandleChange(seq=event.seq, at=event.at, type=cast(Any, kind), text=self._texts.text(text))
                for event, kind, text in held.changes
            ),
        )

    def _question(self, key: int) -> shapes.QuestionEntry:
        asked, answered = self._questions[key]
        return shapes.QuestionEntry(
            key=key,
            call=valid_text(asked.tool_call_id),
            scope=valid_text(asked.scope),
            branch=valid_text(asked.branch_id),
            at=asked.at,
            outcome=None if answered is None else answered.outcome,
            answered_at=None if answered is None else answered.at,
            is_remembered=answered is not None and answered.remembered,
            rest=answered is not None and answered.rest,
        )

    def _move(self, key: int) -> shapes.MoveEntry:
        move = self._moves[key]
        begun, ended = move.begun, move.ended
        more: dict[str, Any]
        match begun:
            case BranchCreated():
                more = {"type": "branch", "to": begun.branch, "origin": begun.parent, "before": begun.before}
            case HeadMoved():
                more = {"type": "switch", "to": begun.branch, "origin": begun.left, "statement": begun.statement}
            case ReplayBegun():
                more = {"type": "replay", "first": begun.first, "last": begun.last, "mode": begun.mode}
            case EditBegun():
                more = {"type": "edit", "first": begun.first, "last": begun.last}
            case _:
                assert isinstance(begun, RewindBegun | Rewound)
                more = {
                    "type": "rewind",
                    "statement": begun.statement,
                    "to": begun.branch or "" if isinstance(begun, RewindBegun) else "",
                    "is_undo": begun.undone is not None and not begun.is_redo,
                    "is_redo": begun.is_redo,
                    "is_cancelled": begun.cancelled,
                }
        if isinstance(ended, ReplayEnded):
            more |= {"outcome": ended.outcome, "detail": valid_text(ended.detail)}
        if isinstance(ended, Rewound):
            more |= {
                "restored": tuple(map(self._restored, ended.restored)),
                "left": tuple(map(self._restored, ended.left)),
                "is_cancelled": ended.cancelled,
            }
        return shapes.MoveEntry(
            key=key,
            branch=valid_text(begun.branch_id),
            at=begun.at,
            ended_at=None if ended is None else ended.at,
            **{name: valid_text(value) if isinstance(value, str) else value for name, value in more.items()},
        )

    def _restored(self, file: FileToRestore | FileLeft) -> shapes.RestoredFile:
        path = valid_text(file.path)
        reason = valid_text(file.reason) if isinstance(file, FileLeft) else ""
        return shapes.RestoredFile(path=path, name=self._name(path), reason=reason)

    def _note(self, key: int) -> shapes.NoteEntry:
        event = self._notes[key]
        plain = {name: value for name, value in asdict(event).items() if name not in _STAMP}
        fields = self._plain(msgspec.to_builtins(plain), 0)
        return shapes.NoteEntry(
            key=key,
            kind=event.kind,
            branch=valid_text(event.branch_id),
            at=event.at,
            fields=cast("dict[str, Any]", fields),
        )

    def _plain(self, value: object, depth: int) -> object:
        match value:
            case str():
                text = self._texts.text(value)
                return text.text if text.digest is None else text
            case bool() | None:
                return value
            case int() | float():
                return number(value)
            case dict() if depth < DEEPEST:
                pairs = cast("dict[object, object]", value).items()
                return {valid_text(str(name)): self._plain(item, depth + 1) for name, item in pairs}
            case list() | tuple() if depth < DEEPEST:
                return [self._plain(item, depth + 1) for item in cast("Sequence[object]", value)]
            case _:
                return None

    # --- requests -----------------------------------------------------------------------------------------------------

    def _mark_requests(self) -> None:
        for name, path in self._paths.items():
            if path.is_new:
                for key in self._requests(name, path, path.told):
                    self._touch("requests", key)
                path.is_new, path.told = False, max(len(path.cycles.model.cycles) - 1, 0)

    def _requests(self, branch: str, path: _Path, since: int) -> Iterator[str]:
        """Yield the keys of the branch's own requests from a number on, and of those with late results."""
        for cycle in path.cycles.model.cycles:
            if (cycle.number > since or cycle.late) and _is_own(cycle, branch):
                key = f"{branch}/{cycle.number}"
                self._cycles[key] = cycle
                yield key

    def _request(self, key: str) -> shapes.RequestEntry:
        cycle = self._cycles[key]
        loop = rounds_of(cycle)
        return shapes.RequestEntry(
            key=valid_text(key),
            branch=valid_text(key.rpartition("/")[0]),
            number=cycle.number,
            root=cycle.root.seq,
            kind=cycle.root_kind,
            steps=tuple(map(_step, steps_of(cycle))),
            rounds=tuple(
                shapes.RoundEntry(
                    round=each.number,
                    response=valid_text(each.response_id or ""),
                    input=_seqs(each.given),
                    output=_seqs(each.output),
                )
                for each in loop.rounds
            ),
            unread=_seqs(loop.unread),
            late=_seqs(cycle.late),
            stop=None if cycle.stop is None else cycle.stop.seq,
        )


def _newer(touched: Mapping[Key, int], since: int) -> Sequence[Key]:
    """Return the keys that were touched after `since` events, in the order in which that happened."""
    newer: list[Key] = []
    for key in reversed(touched):
        if touched[key] <= since:
            break
        newer.append(key)
    return newer[::-1]


def _is_own(cycle: RequestCycle, branch: str) -> bool:
    """Whether the branch has something of the request that its parent has not."""
    last = cycle.stop or (cycle.items[-1] if cycle.items else cycle.root)
    return branch in (last.branch_id, *(late.branch_id for late in cycle.late))


def _side(side: Side | None) -> str | None:
    return None if side is None else valid_text(side.shown)


def _seqs(items: Iterable[Item]) -> tuple[int, ...]:
    return tuple(item.seq for item in items)


def _step(step: Step) -> shapes.StepEntry:
    if not isinstance(step, AiBlock):
        return shapes.StepEntry(type=step.step, message=step.message.seq)
    return shapes.StepEntry(
        type="ai-block",
        text=None if step.text is None else step.text.seq,
        statements=tuple(map(_step_call, step.statements)),
        groups=tuple(
            shapes.StepGroup(type=each.name, calls=tuple(map(_step_call, each.calls))) for each in step.groups
        ),
    )


def _step_call(call: Call) -> shapes.StepCall:
    return shapes.StepCall(call=call.call.seq, result=None if call.result is None else call.result.seq)


def _change(before: str, after: str, source: str) -> Any:
    if source:
        return "moved"
    return "created" if not before else "deleted" if not after else "modified"


def _names(diff: NamespaceDiff) -> Iterator[shapes.NameEntry]:
    for name, info in diff.added.items():
        yield shapes.NameEntry(
            name=valid_text(name), change="added", type=valid_text(info.type_name), value=valid_text(info.short_repr)
        )
    for name, change in diff.changed.items():
        yield shapes.NameEntry(
            name=valid_text(name),
            change="changed",
            type=valid_text(change.after.type_name),
            value=valid_text(change.after.short_repr),
            before_type=valid_text(change.before.type_name),
            before=valid_text(change.before.short_repr),
            mutated=change.mutated,
        )
    for name in diff.deleted:
        yield shapes.NameEntry(name=valid_text(name), change="deleted")
    for name, reason in diff.unknown.items():
        yield shapes.NameEntry(name=valid_text(name), change="unknown", reason=valid_text(reason))


def _divergence(event: Diverged) -> shapes.DivergenceEntry:
    return shapes.DivergenceEntry(
        aspect=event.aspect,
        before=valid_text(event.before),
        after=valid_text(event.after),
        against=valid_text(event.against),
        text=valid_text(divergence_phrase(event)),
    )


def _spent(spent: Spent) -> shapes.SpentEntry:
    return shapes.SpentEntry(**asdict(spent))


def _json(arguments: Mapping[str, object]) -> str:
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError):
        return valid_text(repr(arguments))
