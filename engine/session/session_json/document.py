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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from ...context.tail.prompt import Account
from ...context.tail.sent_prompts import PromptEntries
from ...core.execution import Display
from ...core.ids import BlobDigest, BranchId, EventId, ObjId, Seq, StatementId, ToolCallId
from ...core.text import valid_text
from ...log.branches import Branches, BranchRow, branch_rows
from ...log.cycles import CycleFold, RequestCycle
from ...log.events import Event
from ...log.events.conversation import (
    AgentReasoning,
    AgentText,
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
from .drafts import Drafts, Held, Move, Run, Sent, Told
from .entries import EntryMaker
from .shapes import SCHEMA, TABLES, Patch
from .texts import Hit, Texts

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
        self._events: list[Event] = []
        self._branches = Branches()
        self._facts = SessionFacts()
        self._spending = Spending()
        self._entries = PromptEntries()
        self._drafts = Drafts()
        self._maker = EntryMaker(self._drafts, self._entries, content)
        self._paths: dict[str, _Path] = {}
        self._title, self._mode = "", ""
        self._options: dict[str, str] = {}
        self._plans: list[PlanChanged] = []
        self._touched: dict[str, dict[Key, int]] = {name: {} for name in TABLES}
        """The keys of each table's entries, each with the number of events when it changed last, in that order."""
        self._touch("branches", self._branches.active)
        self._statement_of: dict[StatementId, int] = {}
        self._prompt: tuple[EventId, ...] = ()
        self._prompt_keys: tuple[int, ...] = ()
        self._message_of: dict[tuple[EventId, bool, BlobDigest | None], int] = {}
        self._handles_of: dict[str, list[int]] = {}
        self._open_questions: dict[ToolCallId, int] = {}
        self._open_move: dict[str, int] = {}
        self._since_statement: list[int] = []
        self._last_statement: int | None = None
        self._branch = ""
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
            first = self._drafts.sent[min(numbers) - 1]
            known = next((each for each in first.handles if each.handle == handle), None)
            named = self._named(path, handle, 0)
            if known is not None and (known.name, known.title) != (named.name, named.title):
                for number_of in numbers:
                    sent = self._drafts.sent[number_of - 1]
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
        self._drafts.notes[event.seq] = event
        self._touch("notes", event.seq)

    def _take_item(self, event: Event) -> bool:
        match event:
            case UserMessage() | AgentText() | AgentReasoning() | Condensation():
                if not isinstance(event, Condensation):
                    self._take_words(event.seq)
            case ToolCall():
                self._drafts.calls_made[event.tool_call_id] = event
            case ToolResult() | ResultRerendered() | PromptQueued() | PromptWithdrawn():
                pass
            case RunStop():
                if (key := self._open_move.pop("edit", None)) is not None:
                    self._drafts.moves[key].ended = event
                    self._touch("moves", key)
            case _:
                return False
        if isinstance(event, ResultRerendered):
            self._show(event.displays, event)
        self._drafts.items[event.seq] = event
        self._touch("conversation", event.seq)
        return True

    def _take_words(self, key: int) -> None:
        self._since_statement.append(key)
        if self._last_statement is not None:
            self._drafts.statements[self._last_statement].after.append(key)
            self._touch("statements", self._last_statement)

    def _take_execution(self, event: Event) -> bool:
        match event:
            case StatementRecorded():
                self._record(event)
            case StatementOmitted(statement_id=statement, omitted=omitted):
                if (key := self._statement_of.get(statement)) is not None:
                    self._drafts.statements[key].omitted[event.branch_id] = omitted
                    self._touch("statements", key)
            case ExecutionStarted(statement_id=statement, execution_id=execution):
                if (key := self._statement_of.get(statement)) is None:
                    return False
                self._drafts.run_of[execution] = event.seq
                self._drafts.runs[event.seq] = Run(event, key)
                self._drafts.statements[key].runs.append(event.seq)
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
                if (key := self._drafts.run_of.get(execution)) is None:
                    return False
                self._take_part(self._drafts.runs[key], event)
                self._touch("executions", key)
            case _:
                return False
        return True

    def _record(self, event: StatementRecorded) -> None:
        made = self._drafts.calls_made.get(event.tool_call_id)
        self._drafts.statements[event.seq] = Told(
            event, made if made is not None and made.parent_id is None else None, tuple(self._since_statement)
        )
        self._statement_of[event.statement_id] = event.seq
        self._since_statement, self._last_statement = [], event.seq
        self._touch("statements", event.seq)
        self._touch("branches", event.branch_id)

    def _take_part(self, run: Run, event: Event) -> None:
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
                if (key := self._drafts.run_of.get(execution)) is not None:
                    self._drafts.runs[key].files.append(str(event.seq))
                    self._touch("executions", key)
            case FileChanged(path=path):
                self._change_file(path, str(event.seq), event, None)
            case _:
                return False
        return True

    def _change_file(self, path: str, key: str, event: Event, restored: FileToRestore | None) -> None:
        path = valid_text(path)
        self._drafts.files.setdefault(path, []).append((key, event, restored))
        self._touch("files", path)

    def _take_call(self, event: Event) -> bool:
        match event:
            case ProjectionSent():
                self._send(event)
            case ModelCallEnded():
                if self._drafts.sent:
                    self._drafts.sent[-1].ended = event
                    self._touch("calls", len(self._drafts.sent))
            case PermissionAsked(tool_call_id=call):
                self._drafts.questions[event.seq] = event, None
                self._open_questions[call] = event.seq
                self._touch("questions", event.seq)
            case PermissionAnswered(tool_call_id=call):
                key = self._open_questions.pop(call, None)
                if key is None:
                    self._drafts.questions[event.seq] = event, event
                else:
                    self._drafts.questions[key] = self._drafts.questions[key][0], event
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
        sent = Sent(len(self._drafts.sent) + 1, event, kept, keys[kept:])
        path = self._paths[event.branch_id]
        sent.handles = tuple(self._named(path, handle, tokens) for handle, tokens in event.nodes.items())
        for handle in event.nodes:
            path.used.setdefault(handle, set()).add(sent.number)
        self._drafts.sent.append(sent)
        self._touch("calls", sent.number)

    def _message_key(self, sent: tuple[EventId, bool, BlobDigest | None]) -> int:
        key = self._message_of.get(sent)
        if key is None:
            key = self._message_of[sent] = len(self._drafts.messages)
            self._drafts.messages.append(sent)
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
                self._drafts.handles[event.seq] = Held(event)
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
        held = self._drafts.handles[key]
        held.changes.append((event, kind, text))
        held.unread += kind != "method"
        self._touch("handles", key)
        return True

    def _show(self, displays: Iterable[Display], event: Event) -> None:
        for display in displays:
            if (key := self._held(display.obj_id)) is not None and not display.given:
                held = self._drafts.handles[key]
                held.shown, held.shown_at, held.unread = display, event.seq, 0
                self._touch("handles", key)

    def _take_move(self, event: Event) -> bool:
        match event:
            case BranchCreated() | HeadMoved():
                self._drafts.moves[event.seq] = Move(event)
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
                    self._drafts.moves[event.seq] = Move(event, event)
                    self._touch("moves", event.seq)
                return True
            case _:
                return False
        self._touch("moves", event.seq)
        return True

    def _begin_move(self, kind: str, event: Event) -> None:
        self._drafts.moves[event.seq] = Move(event)
        self._open_move[kind] = event.seq

    def _end_move(self, kind: str, event: Event) -> bool:
        key = self._open_move.pop(kind, None)
        if key is None:
            return False
        self._drafts.moves[key].ended = event
        self._touch("moves", key)
        return True

    def _take_session(self, event: Event) -> bool:
        """Note what the head shows. All but the first event of a session are notes, too."""
        match event:
            case SessionOpened():
                self._drafts.opened = event
            case SessionMoved():
                self._drafts.moved = event
                # Names are relative to the new directory.
                for table, keys in (("files", self._drafts.files), ("moves", self._drafts.moves)):
                    for key in keys:
                        self._touch(table, key)
            case TitleChanged(title=title):
                self._title = title
            case ModeChanged(mode=mode):
                self._mode = mode
            case ConfigChanged(option=option, value=value):
                self._options[option] = value
            case PlanChanged():
                self._plans.append(event)
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
        newer: dict[str, Iterable[Key]] = {name: _newer(touched, since) for name, touched in self._touched.items()}
        # In the order of the document, so that a reader who appends what is new has that order, too.
        for name, keys in (("files", self._drafts.files), ("branches", self.branches)):
            newer[name] = [key for key in keys if key in newer[name]]
        return self._built(newer)

    def document(self) -> Patch:
        """Return the whole document: the head and every table, without contents."""
        keys: dict[str, Iterable[Key]] = {
            "branches": [branch.name for branch in self._branches.all],
            "statements": self._drafts.statements,
            "executions": self._drafts.runs,
            "files": self._drafts.files,
            "conversation": self._drafts.items,
            "requests": [
                key for name, path in self._paths.items() for key in self._requests(name, path.cycles.model.cycles, 0)
            ],
            "calls": range(1, len(self._drafts.sent) + 1),
            "messages": range(len(self._drafts.messages)),
            "handles": self._drafts.handles,
            "questions": self._drafts.questions,
            "moves": self._drafts.moves,
            "notes": self._drafts.notes,
        }
        built = self._built(keys)
        return {"schema": SCHEMA, "session": built["session"], **{name: built.get(name, []) for name in TABLES}}

    def _built(self, keys: Mapping[str, Iterable[Key]]) -> Patch:
        build: dict[str, Callable[[Any], Struct | None]] = {
            "branches": self._branch_entry,
            "statements": self._maker.statement,
            "executions": self._maker.execution,
            "files": self._maker.file,
            "conversation": self._maker.item,
            "requests": self._maker.request,
            "calls": self._maker.call,
            "messages": self._maker.message,
            "handles": self._maker.handle,
            "questions": self._maker.question,
            "moves": self._maker.move,
            "notes": self._maker.note,
        }
        if any(True for _ in keys.get("branches", ())):
            self._rows = {row.name: row for row in branch_rows(self._branches, self._facts.statements_below)}
        patch: Patch = {"session": self._head()}
        for name, make in build.items():
            entries: list[Struct] = []
            for key in keys.get(name, ()):
                with self._maker.texts.of(name, key):
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
            "statements": self._drafts.statements,
            "executions": self._drafts.runs,
            "files": self._drafts.files,
            "conversation": self._drafts.items,
        }
        with self._maker.texts.searching(text):
            for table, found in keys.items():
                for key in found:
                    if table == "files":
                        with self._maker.texts.of(table, key):
                            self._maker.texts.look(str(key))
                    self._built({table: (key,)})
                    if len(self._maker.texts.hits) >= most:
                        return tuple(self._maker.texts.hits)
            return tuple(self._maker.texts.hits)

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
                    name=self._maker.name(valid_text(each.name)),
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
        return self._maker.texts

    def text(self, digest: str) -> str | None:
        """Return the whole of a text of which an entry has the beginning; None if no entry has one of that digest."""
        place = self._maker.texts.place(digest)
        if place is None:
            return None
        table, key = place
        with self._maker.texts.looking_for(digest):
            self._built({table: [key]})
        return self._maker.texts.found

    def _head(self) -> shapes.SessionHead:
        at, last = self._drafts.moved or self._drafts.opened, self._events[-1] if self._events else None
        opened = self._drafts.opened
        path = self._paths.get(self._branches.active)
        plan = next((each for each in reversed(self._plans) if self._branches.holds(each)), None)
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

    # --- requests -----------------------------------------------------------------------------------------------------

    def _mark_requests(self) -> None:
        for name, path in self._paths.items():
            if path.is_new:
                cycles = path.cycles.model.cycles
                for key in self._requests(name, cycles, path.told):
                    self._touch("requests", key)
                path.is_new, path.told = False, max(len(cycles) - 1, 0)

    def _requests(self, branch: str, cycles: Sequence[RequestCycle], since: int) -> Iterator[str]:
        """Yield the keys of the branch's own requests from a number on, and of those with late results."""
        for cycle in cycles:
            if (cycle.number > since or cycle.late) and _is_own(cycle, branch):
                key = f"{branch}/{cycle.number}"
                self._drafts.cycles[key] = cycle
                yield key


def _newer(touched: Mapping[Key, int], since: int) -> Collection[Key]:
    """Return the keys that were touched after `since` events, numbers in their order."""
    newer: dict[Key, None] = {}
    for key in reversed(touched):
        if touched[key] <= since:
            break
        newer[key] = None
    return dict.fromkeys(sorted(newer) if all(isinstance(key, int) for key in newer) else reversed(newer))


def _is_own(cycle: RequestCycle, branch: str) -> bool:
    """Whether the branch has something of the request that its parent has not."""
    last = cycle.stop or (cycle.items[-1] if cycle.items else cycle.root)
    return branch in (last.branch_id, *(late.branch_id for late in cycle.late))


def _side(side: Side | None) -> str | None:
    return None if side is None else valid_text(side.shown)


def _spent(spent: Spent) -> shapes.SpentEntry:
    return shapes.SpentEntry(**asdict(spent))
