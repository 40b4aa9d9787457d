"""The statements that condensations took from the View, with the handles that they made: a fold over a path of events.

Only statements that a model's call asked for are ever in the View, so those from outside are not among them. What a
statement gave is not kept, because the summary stands for that; what it was, and whether it ended well, is. How they
are shown is `timeline`'s business. Read by `sessions.projector`, and by `sessions.condenser`, whose summary names the
statements by their numbers alone.
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
"""Of all sources together, the newest first: more than their section ever shows."""
_HEADING_CHARS: Final = 32
"""Of what is told with a source, at least; bounds the number of short ones."""
SOURCE_CHARS: Final = 4_000
"""Of one source, which is cut at the end of a line."""
CHANGING: Final = frozenset(("SetTokens", "SetLod", "SetPos", "Scroll", "Run", "Pause", "Add", "Remove", "Replace"))
"""The methods after which another call would make the handle as it is."""
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
"""Handles of one statement that are remembered."""


@dataclass(slots=True)
class _Ran:
    """A statement by its number, and what is known of its run."""

    index: int
    cell: Cell
    ended: str = "not run"
    omitted: bool = False
    finished: Seq | None = None
    """Where the log has the record of the run."""
    made: list[NodeMade] = field(default_factory=list[NodeMade])


@dataclass(slots=True)
class _Changes:
    """The methods that changed a handle, each once, and the number of the first statement that called one; or 0."""

    until: int = 0
    methods: dict[str, None] = field(default_factory=dict[str, None])


class PastStatements:
    """Those that are not in the View any more. `apply` is for the log alone.

    `timeline` follows the same path, and is told of each event before.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._calls: dict[EventId, ToolCallId] = {}
        """The model's calls that are in the View."""
        self._by_call: dict[ToolCallId, _Ran] = {}
        self._by_id: dict[StatementId, _Ran] = {}
        self._by_index: dict[int, _Ran] = {}
        self._changes: dict[ObjId, _Changes] = {}
        """Of the handles that those statements made."""
        self._running = 0
        """The number of the statement that runs, or ran last."""
        self._past: dict[int, _Ran] = {}

    def apply(self, event: Event) -> None:
        # By kind first, because a log has hundreds of thousands of events, and most are of no other kind here.
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
        """Of every statement that a model's call asked for, by that."""
        return {call: ran.index for call, ran in self._by_call.items()}

    def newest(self) -> tuple[PastStatement, ...]:
        """The newest of them, oldest first: as many as SENT_CHARS allow."""
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
        """What it looked at, but for what its source names."""
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
    """The source, or its first lines, and the number of the others."""
    if len(source) <= SOURCE_CHARS:
        return source, 0
    kept = source[:SOURCE_CHARS]
    kept = kept[: kept.rfind("\n") + 1] or kept
    return kept, len(source[len(kept) :].splitlines())
