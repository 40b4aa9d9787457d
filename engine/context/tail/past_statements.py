"""Statements that condensations removed from the View: a fold over events.

Only statements of a model's call are ever in the View, so others are not among them. Results are not kept, because the
summary replaces them; source and success are. `timeline` writes them. Read by the session's projector, and by its
condenser, whose summary refers to statements by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...core.ids import EventId, ObjId, Seq, StatementId, ToolCallId
from ...core.text import cut_line
from ...files.tails import MadeHandle, PastStatement
from ...log.event_log import event_at
from ...log.events import Event
from ...log.events.conversation import Condensation, ToolCall
from ...log.events.execution import ExecutionFinished, ExecutionStarted, StatementOmitted, StatementRecorded
from ...log.events.nodes import MethodCalled, NodeMade
from ...log.timeline import Cell, Timeline

SENT_CHARS: Final = 16_000
"""Characters of all sources together, newest first: more than their section ever shows."""
_HEADING_CHARS: Final = 32
"""Least characters that come with a source; limits the number of short ones."""
SOURCE_CHARS: Final = 4_000
"""Characters of a source, which is cut at a line end."""
CHANGING: Final = frozenset(("SetTokens", "SetLod", "SetPos", "Scroll", "Run", "Pause", "Add", "Remove", "Replace"))
"""Methods that change which call would make the handle."""
_FOLLOWED: Final = frozenset(
    (
        ToolCall,
        StatementRecorded,
        ExecutionStarted,
        ExecutionFinished,
        StatementOmitted,
        NodeMade,
        MethodCalled,
        Condensation,
    )
)
_OMITTED: Final = "left out of the namespace"
_LONGEST_REASON: Final = 160
_MOST_FILES: Final = 4
_MOST_MADE: Final = 64
"""Largest number of handles that are kept for a statement."""


@dataclass(slots=True)
class _Ran:
    """A statement by its number, and the facts about its run."""

    index: int
    cell: Cell
    ended: str = "not run"
    omitted: bool = False
    finished: Seq | None = None
    """Position of the run's record on the log."""
    made: list[NodeMade] = field(default_factory=list[NodeMade])


@dataclass(slots=True)
class _Changes:
    """Methods that changed a handle, each once, and the number of the first statement that called one, or 0."""

    until: int = 0
    methods: dict[str, None] = field(default_factory=dict[str, None])


class PastStatements:
    """The statements that left the View.

    Only the log calls `apply` and `reset`.

    `timeline` follows the same path, and gets each event first.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """Start again: another path follows, from its first event."""
        self._calls: dict[EventId, ToolCallId] = {}
        """The model's calls in the View."""
        self._by_call: dict[ToolCallId, _Ran] = {}
        self._by_id: dict[StatementId, _Ran] = {}
        self._by_index: dict[int, _Ran] = {}
        self._changes: dict[ObjId, _Changes] = {}
        """Changes of the handles that these statements made."""
        self._running = 0
        """Number of the running or last statement."""
        self._past: dict[int, _Ran] = {}

    def apply(self, event: Event) -> None:
        # By kind first: a log has hundreds of thousands of events, and most are of these kinds.
        if type(event) in _FOLLOWED:
            self._follow(event)

    def _follow(self, event: Event) -> None:
        match event:
            case ToolCall(parent_id=None):
                self._calls[event.event_id] = event.tool_call_id
            case StatementRecorded():
                self._record(event)
            case ExecutionStarted(statement_id=statement_id) if event.counts:
                self._start(statement_id)
            case ExecutionFinished(statement_id=statement_id) if event.counts and statement_id in self._by_id:
                _finish(self._by_id[statement_id], event)
            case StatementOmitted(statement_id=statement_id, omitted=omitted) if statement_id in self._by_id:
                self._by_id[statement_id].omitted = omitted
            case Condensation(forgotten=forgotten):
                self._take(forgotten)
            case _:
                self._follow_handles(event)

    def _follow_handles(self, event: Event) -> None:
        match event:
            case NodeMade(statement=index) if index in self._by_index:
                made = self._by_index[index].made
                if len(made) < _MOST_MADE:
                    made.append(event)
                    self._changes.setdefault(event.obj_id, _Changes())
            case MethodCalled(obj_id=obj_id, method=method) if method in CHANGING and obj_id in self._changes:
                changes = self._changes[obj_id]
                changes.until = changes.until or self._running
                changes.methods[method] = None
            case _:
                pass

    def _record(self, event: StatementRecorded) -> None:
        cell = self._timeline.cell(event.statement_id)
        if cell is not None and cell.asked:
            ran = _Ran(event.index, cell)
            self._by_call[event.tool_call_id] = ran
            self._by_id[event.statement_id] = self._by_index[event.index] = ran

    def _start(self, statement_id: StatementId) -> None:
        ran, cell = self._by_id.get(statement_id), self._timeline.cell(statement_id)
        if cell is not None:
            self._running = cell.index
        if ran is not None:
            ran.made.clear()

    def _take(self, forgotten: Iterable[EventId]) -> None:
        calls = (self._calls.pop(event_id) for event_id in forgotten if event_id in self._calls)
        found = (self._by_call[call] for call in calls if call in self._by_call)
        taken = {ran.index: ran for ran in found}
        if taken:
            self._past = dict(sorted({**self._past, **taken}.items()))

    @property
    def numbers(self) -> Mapping[ToolCallId, int]:
        """Statement numbers by the model's call."""
        return {call: ran.index for call, ran in self._by_call.items()}

    def statement(self, index: int) -> PastStatement | None:
        """Return a statement of a model's call by its number, in the View or not."""
        ran = self._by_index.get(index)
        return None if ran is None else self._told(ran)

    def newest(self) -> tuple[PastStatement, ...]:
        """The newest statements, oldest first, within SENT_CHARS."""
        room, found = SENT_CHARS, list[PastStatement]()
        for ran in reversed(self._past.values()):
            statement = self._told(ran)
            room -= len(statement.source) + _HEADING_CHARS
            if room < 0:
                break
            found.append(statement)
        return tuple(reversed(found))

    def __len__(self) -> int:
        return len(self._past)

    def _told(self, ran: _Ran) -> PastStatement:
        source, left_out = _within(ran.cell.statement.source)
        return PastStatement(
            index=ran.index,
            source=source,
            lines_left_out=left_out,
            ended="; ".join(filter(None, (ran.ended, _OMITTED * ran.omitted))),
            files=self._files(ran),
            made=tuple(map(self._handle, ran.made)),
        )

    def _files(self, ran: _Ran) -> tuple[str, ...]:
        """Return the files that it looked at, without those that its source names."""
        if ran.finished is None:
            return ()
        finished = event_at(self._timeline.at, ran.finished, ExecutionFinished)
        paths, source = dict.fromkeys(location.path for location in finished.locations), ran.cell.statement.source
        return tuple(path for path in paths if path.rpartition("/")[2] not in source)[:_MOST_FILES]

    def _handle(self, made: NodeMade) -> MadeHandle:
        changes = self._changes[made.obj_id]
        return MadeHandle(
            obj_id=made.obj_id,
            line=made.line,
            name=made.name,
            changed_by=tuple(changes.methods),
            until=changes.until,
        )


def _finish(ran: _Ran, event: ExecutionFinished) -> None:
    ran.ended = "" if event.status == "ok" else str(event.status)
    if event.exception is not None:
        said = f"{event.exception.type}: {event.exception.message}".partition("\n")[0]
        ran.ended = cut_line(f"{event.status}: {said}", _LONGEST_REASON)
    ran.finished = event.seq


def _within(source: str) -> tuple[str, int]:
    """Return the source, or its first lines and the number of the others."""
    if len(source) <= SOURCE_CHARS:
        return source, 0
    kept = source[:SOURCE_CHARS]
    kept = kept[: kept.rfind("\n") + 1] or kept
    return kept, len(source[len(kept) :].splitlines())
