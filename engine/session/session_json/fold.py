"""Which entries of a session's document each event changes: the fold of a whole log into drafts.

`DocumentFold.apply` takes each event, puts it into the drafts of the entries that it concerns, and notes the number of
events at which each entry changed last. It makes no entry: `document` reads the drafts. Pure; called by `document`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ...context.tail.prompt import Account
from ...context.tail.sent_prompts import PromptEntries
from ...core.execution import Display
from ...core.ids import BlobDigest, EventId, ObjId, Seq, StatementId, ToolCallId
from ...core.text import valid_text
from ...log.branches import Branches
from ...log.cycles import CycleFold
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
from ...log.facts import SessionFacts, Spending
from ...log.timeline import Timeline
from . import shapes
from .drafts import Drafts, Held, Move, Run, Sent, Told
from .shapes import TABLES

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


class Path:
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


class DocumentFold:
    """The drafts of a session's entries. `apply` takes every event of its log, in order, without secrets."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.branches = Branches()
        self.facts = SessionFacts()
        self.spending = Spending()
        self.prompts = PromptEntries()
        self.drafts = Drafts()
        self.paths: dict[str, Path] = {}
        self.title, self.mode = "", ""
        self.options: dict[str, str] = {}
        self.plans: list[PlanChanged] = []
        self.touched: dict[str, dict[Key, int]] = {name: {} for name in TABLES}
        """The keys of each table's entries, each with the number of events when it changed last, in that order."""
        self.touch("branches", self.branches.active)
        self._statement_of: dict[StatementId, int] = {}
        self._prompt: tuple[EventId, ...] = ()
        self._prompt_keys: tuple[int, ...] = ()
        self._prompt_is_plain = True
        """Whether the last prompt had no shortened message, and its model calls tools."""
        self._message_of: dict[tuple[EventId, bool, BlobDigest | None], int] = {}
        self._handles_of: dict[str, list[int]] = {}
        self._open_questions: dict[ToolCallId, int] = {}
        self._open_move: dict[str, int] = {}
        self._since_statement: list[int] = []
        self._last_statement: int | None = None
        self._branch = ""

    def apply(self, event: Event) -> None:
        """Take the next event of the log."""
        self.events.append(event)
        count = len(self.branches.all)
        self.branches.apply(event)
        if len(self.branches.all) != count or event.branch_id != self._branch:
            for branch in self.branches.all:
                self.touch("branches", branch.name)
        if event.branch_id != self._branch:
            self._branch, self._since_statement, self._last_statement = event.branch_id, [], None
        self.facts.apply(event)
        self.spending.apply(event)
        self.prompts.apply(event)
        self._follow_path(event)
        if type(event) not in LEFT_OUT:
            self._take(event)

    def _follow_path(self, event: Event) -> None:
        path = self.paths.get(event.branch_id)
        if path is None:
            path = self.paths[event.branch_id] = Path(self._at)
            for each in self.branches.path(self.events, event.branch_id):
                path.apply(each)
        else:
            path.apply(event)
        if type(event) not in Account.FOLLOWS:
            return
        for handle, numbers in path.used.items():
            first = self.drafts.sent[min(numbers) - 1]
            known = next((each for each in first.handles if each.handle == handle), None)
            named = self._named(path, handle, 0)
            if known is not None and (known.name, known.title) != (named.name, named.title):
                for number_of in numbers:
                    sent = self.drafts.sent[number_of - 1]
                    sent.handles = tuple(self._named(path, ObjId(each.handle), each.tokens) for each in sent.handles)
                    self.touch("calls", number_of)

    def _at(self, seq: Seq) -> Event:
        return self.events[seq]

    def touch(self, table: str, key: Key) -> None:
        """Note that an entry has changed now."""
        touched = self.touched[table]
        touched.pop(key, None)
        touched[key] = len(self.events)

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
        self.drafts.notes[event.seq] = event
        self.touch("notes", event.seq)

    def _take_item(self, event: Event) -> bool:
        match event:
            case UserMessage() | AgentText() | AgentReasoning() | Condensation():
                if not isinstance(event, Condensation):
                    self._take_words(event.seq)
            case ToolCall():
                self.drafts.calls_made[event.tool_call_id] = event
            case ToolResult() | ResultRerendered() | PromptQueued() | PromptWithdrawn():
                pass
            case RunStop():
                if (key := self._open_move.pop("edit", None)) is not None:
                    self.drafts.moves[key].ended = event
                    self.touch("moves", key)
            case _:
                return False
        if isinstance(event, ResultRerendered):
            self._show(event.displays, event)
        self.drafts.items[event.seq] = event
        self.touch("conversation", event.seq)
        return True

    def _take_words(self, key: int) -> None:
        self._since_statement.append(key)
        if self._last_statement is not None:
            self.drafts.statements[self._last_statement].after.append(key)
            self.touch("statements", self._last_statement)

    def _take_execution(self, event: Event) -> bool:
        match event:
            case StatementRecorded():
                self._record(event)
            case StatementOmitted(statement_id=statement, omitted=omitted):
                if (key := self._statement_of.get(statement)) is not None:
                    self.drafts.statements[key].omitted[event.branch_id] = omitted
                    self.touch("statements", key)
            case ExecutionStarted(statement_id=statement, execution_id=execution):
                if (key := self._statement_of.get(statement)) is None:
                    return False
                self.drafts.run_of[execution] = event.seq
                self.drafts.runs[event.seq] = Run(event, key)
                self.drafts.statements[key].runs.append(event.seq)
                self.touch("statements", key)
                self.touch("executions", event.seq)
            case (
                ExecutionFinished(execution_id=execution)
                | EffectRequested(execution_id=execution)
                | EffectAnswered(execution_id=execution)
                | CommandEnded(execution_id=execution)
                | CheckpointTaken(execution_id=execution)
                | Diverged(execution_id=execution)
            ):
                if (key := self.drafts.run_of.get(execution)) is None:
                    return False
                self._take_part(self.drafts.runs[key], event)
                self.touch("executions", key)
            case _:
                return False
        return True

    def _record(self, event: StatementRecorded) -> None:
        made = self.drafts.calls_made.get(event.tool_call_id)
        self.drafts.statements[event.seq] = Told(
            event, made if made is not None and made.parent_id is None else None, tuple(self._since_statement)
        )
        self._statement_of[event.statement_id] = event.seq
        self._since_statement, self._last_statement = [], event.seq
        self.touch("statements", event.seq)
        self.touch("branches", event.branch_id)

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
                if (key := self.drafts.run_of.get(execution)) is not None:
                    self.drafts.runs[key].files.append(str(event.seq))
                    self.touch("executions", key)
            case FileChanged(path=path):
                self._change_file(path, str(event.seq), event, None)
            case _:
                return False
        return True

    def _change_file(self, path: str, key: str, event: Event, restored: FileToRestore | None) -> None:
        path = valid_text(path)
        self.drafts.files.setdefault(path, []).append((key, event, restored))
        self.touch("files", path)

    def _take_call(self, event: Event) -> bool:
        match event:
            case ProjectionSent():
                self._send(event)
            case ModelCallEnded():
                if self.drafts.sent:
                    self.drafts.sent[-1].ended = event
                    self.touch("calls", len(self.drafts.sent))
            case PermissionAsked(tool_call_id=call):
                self.drafts.questions[event.seq] = event, None
                self._open_questions[call] = event.seq
                self.touch("questions", event.seq)
            case PermissionAnswered(tool_call_id=call):
                key = self._open_questions.pop(call, None)
                if key is None:
                    self.drafts.questions[event.seq] = event, event
                else:
                    self.drafts.questions[key] = self.drafts.questions[key][0], event
                self.touch("questions", event.seq if key is None else key)
            case _:
                return False
        return True

    def _send(self, event: ProjectionSent) -> None:
        is_plain = not event.shortened and event.calls_tools
        # A message that both prompts have at one place, in one form, has one key: only the others are looked up.
        same = min(max(event.kept, 0), len(self._prompt)) if is_plain and self._prompt_is_plain else 0
        self._prompt = (*self._prompt[: max(event.kept, 0)], *event.messages)
        others = ((each, event.calls_tools, event.shortened.get(each)) for each in self._prompt[same:])
        keys = (*self._prompt_keys[:same], *map(self._message_key, others))
        pairs = zip(self._prompt_keys[same:], keys[same:], strict=False)
        shorter = min(len(self._prompt_keys), len(keys))
        kept = next((place for place, (was, now) in enumerate(pairs, same) if was != now), shorter)
        self._prompt_keys, self._prompt_is_plain = keys, is_plain
        sent = Sent(len(self.drafts.sent) + 1, event, kept, keys[kept:])
        path = self.paths[event.branch_id]
        sent.handles = tuple(self._named(path, handle, tokens) for handle, tokens in event.nodes.items())
        for handle in event.nodes:
            path.used.setdefault(handle, set()).add(sent.number)
        self.drafts.sent.append(sent)
        self.touch("calls", sent.number)

    def _message_key(self, sent: tuple[EventId, bool, BlobDigest | None]) -> int:
        key = self._message_of.get(sent)
        if key is None:
            key = self._message_of[sent] = len(self.drafts.messages)
            self.drafts.messages.append(sent)
            self.touch("messages", key)
        return key

    @staticmethod
    def _named(path: Path, handle: ObjId, tokens: int) -> shapes.HandleTokens:
        return shapes.HandleTokens(
            handle=handle, tokens=tokens, name=path.account.name(handle), title=path.account.title(handle)
        )

    def _take_handle(self, event: Event) -> bool:
        match event:
            case NodeMade(obj_id=handle):
                self.drafts.handles[event.seq] = Held(event)
                self._handles_of.setdefault(handle, []).append(event.seq)
                self.touch("handles", event.seq)
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
        return next((key for key in made if self.branches.holds(self.events[key])), None)

    def _change_handle(self, handle: str, event: Event, kind: str, text: str) -> bool:
        key = self._held(handle)
        if key is None:
            return False
        held = self.drafts.handles[key]
        held.changes.append((event, kind, text))
        held.unread += kind != "method"
        self.touch("handles", key)
        return True

    def _show(self, displays: Iterable[Display], event: Event) -> None:
        for display in displays:
            if (key := self._held(display.obj_id)) is not None and not display.given:
                held = self.drafts.handles[key]
                held.shown, held.shown_at, held.unread = display, event.seq, 0
                self.touch("handles", key)

    def _take_move(self, event: Event) -> bool:
        match event:
            case BranchCreated() | HeadMoved():
                self.drafts.moves[event.seq] = Move(event)
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
                    self.drafts.moves[event.seq] = Move(event, event)
                    self.touch("moves", event.seq)
                return True
            case _:
                return False
        self.touch("moves", event.seq)
        return True

    def _begin_move(self, kind: str, event: Event) -> None:
        self.drafts.moves[event.seq] = Move(event)
        self._open_move[kind] = event.seq

    def _end_move(self, kind: str, event: Event) -> bool:
        key = self._open_move.pop(kind, None)
        if key is None:
            return False
        self.drafts.moves[key].ended = event
        self.touch("moves", key)
        return True

    def _take_session(self, event: Event) -> bool:
        """Note what the head shows. All but the first event of a session are notes, too."""
        match event:
            case SessionOpened():
                self.drafts.opened = event
            case SessionMoved():
                self.drafts.moved = event
                # Names are relative to the new directory.
                for table, keys in (("files", self.drafts.files), ("moves", self.drafts.moves)):
                    for key in keys:
                        self.touch(table, key)
            case TitleChanged(title=title):
                self.title = title
            case ModeChanged(mode=mode):
                self.mode = mode
            case ConfigChanged(option=option, value=value):
                self.options[option] = value
            case PlanChanged():
                self.plans.append(event)
            case _:
                pass
        return False
