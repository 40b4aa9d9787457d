"""The renders of handles that results of the View hold, and which are out of date: a fold over a path of events.

A render is out of date where a method has given its handle another budget, level or position since: the View would read
otherwise if the call were made now. What ticks change is no part of that, because the feed tells it. Of several renders
of one handle the last one counts. Those before it are out of date where budget or level have changed since: the last
one shows what is left. Where the handle has only moved since they stay, because whoever reads a file part by part has
asked for each part.

Whether it pays to render a result anew is `rerender`'s business. Read by `sessions.rerendering`, and by the worker,
which does not show in the tail what a result shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from ...core.execution import Display
from ...core.ids import EventId, StatementId, ToolCallId
from ...files.tails import StandingRender
from ...log.events import Event
from ...log.events.conversation import Condensation, ResultRerendered, ToolCall, ToolResult
from ...log.events.execution import ExecutionFinished, StatementRecorded
from ...log.events.nodes import GroupRecomputed, MethodCalled, NodeChanged
from .results import result_text

_POLICY: Final = frozenset(("SetTokens", "SetLod"))
_MOVE: Final = frozenset(("SetPos", "Scroll"))
_CONTENT: Final = frozenset(("Refresh", "Run", "Add", "Remove", "Replace"))
_NEVER: Final = -1
_FOLLOWED: Final = frozenset(
    (
        ToolCall,
        StatementRecorded,
        ExecutionFinished,
        ToolResult,
        ResultRerendered,
        Condensation,
        MethodCalled,
        NodeChanged,
        GroupRecomputed,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingResult:
    """A result of the View that holds renders, and the position on the log at which they were made.

    `finished` is its execution, with the renders that it holds now; `statement` is the index of the statement.
    """

    call: ToolCallId
    entry: EventId
    statement: int
    at: int
    finished: ExecutionFinished

    @property
    def text(self) -> str:
        """What the View has of it, where nothing but its execution has decided that."""
        return result_text(self.finished)

    def with_displays(self, displays: Sequence[Display]) -> str:
        """What it reads with these renders in the place of its own."""
        return result_text(replace(self.finished, displays=tuple(displays)))


@dataclass(frozen=True, slots=True)
class Outdated:
    """A result with renders that are out of date: the places of these among its renders.

    With each place comes the index of a later statement whose result shows the handle, 0 where none does.
    """

    result: StandingResult
    places: Mapping[int, int]


@dataclass(slots=True)
class _Changes:
    """The positions on the log at which a handle was last given a policy, was moved, and got other content."""

    policy: int = _NEVER
    move: int = _NEVER
    content: int = _NEVER


class Standing:
    """What results of the View show. `apply` is for the log alone."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._open: set[ToolCallId] = set()
        """The model's calls that have no result yet."""
        self._statements: dict[StatementId, StatementRecorded] = {}
        """Of these calls."""
        self._shown: dict[ToolCallId, tuple[int, ExecutionFinished]] = {}
        """The executions with renders whose results are still to come, with the indices of their statements."""
        self._results: dict[ToolCallId, StandingResult] = {}
        self._entries: dict[EventId, ToolCallId] = {}
        self._changes: dict[str, _Changes] = {}
        self._latest: dict[str, tuple[StandingResult, Display]] | None = {}
        """The last result with each handle's render, and that; None where they have to be found anew."""

    def apply(self, event: Event) -> None:
        # By kind first, because a log has hundreds of thousands of events, and most are of no other kind here.
        if type(event) in _FOLLOWED:
            self._follow(event)

    def _follow(self, event: Event) -> None:
        match event:
            case ToolCall(parent_id=None, tool_call_id=call):
                self._open.add(call)
            case StatementRecorded(tool_call_id=call) if call in self._open:
                self._statements[event.statement_id] = event
            case ExecutionFinished(statement_id=statement_id) if statement_id in self._statements:
                statement = self._statements.pop(statement_id)
                if event.displays:
                    self._shown[statement.tool_call_id] = (statement.index, event)
            case ToolResult(tool_call_id=call) if call in self._open:
                self._open.discard(call)
                if call in self._shown:
                    index, finished = self._shown.pop(call)
                    self._hold(
                        StandingResult(
                            call=call, entry=event.event_id, statement=index, at=finished.seq, finished=finished
                        )
                    )
            case ResultRerendered(tool_call_id=call) if call in self._results:
                self._rerender(self._results[call], event)
            case Condensation(forgotten=forgotten):
                for entry in forgotten:
                    self._results.pop(self._entries.pop(entry, ToolCallId("")), None)
                self._latest = None
            case _:
                self._change(event)

    def _change(self, event: Event) -> None:
        if not self._results and not self._shown:
            return  # because of a result only what comes after it puts a render out of date
        match event:
            case MethodCalled(obj_id=obj_id, method=method) if method in _POLICY:
                self._changes.setdefault(obj_id, _Changes()).policy = event.seq
            case MethodCalled(obj_id=obj_id, method=method) if method in _MOVE:
                self._changes.setdefault(obj_id, _Changes()).move = event.seq
            case MethodCalled(obj_id=obj_id, method=method) if method in _CONTENT:
                self._changes.setdefault(obj_id, _Changes()).content = event.seq
            case NodeChanged(obj_id=obj_id) | GroupRecomputed(obj_id=obj_id):
                self._changes.setdefault(obj_id, _Changes()).content = event.seq
            case _:
                pass

    def _hold(self, result: StandingResult) -> None:
        self._results[result.call] = result
        self._entries[result.entry] = result.call
        self._latest = None

    def _rerender(self, before: StandingResult, event: ResultRerendered) -> None:
        self._entries.pop(before.entry, None)
        finished = replace(before.finished, displays=event.displays)
        self._hold(
            StandingResult(
                call=before.call, entry=event.event_id, statement=before.statement, at=event.seq, finished=finished
            )
        )

    def _last(self) -> Mapping[str, tuple[StandingResult, Display]]:
        """Of each handle the last render at its own policy, with its result, by the order of their statements."""
        if self._latest is None:
            self._latest = {
                display.obj_id: (result, display)
                for result in sorted(self._results.values(), key=lambda result: result.statement)
                for display in result.finished.displays
                if not display.given
            }
        return self._latest

    @property
    def renders(self) -> tuple[StandingRender, ...]:
        """The last render of each handle."""
        return tuple(self._render(obj_id, *last) for obj_id, last in self._last().items())

    def _render(self, obj_id: str, result: StandingResult, display: Display) -> StandingRender:
        changes = self._changes.get(obj_id, _UNCHANGED)
        return StandingRender(
            obj_id=obj_id,
            statement=result.statement,
            tokens=display.tokens,
            digest=display.digest,
            is_old_policy=changes.policy > result.at > changes.content,
        )

    def outdated(self) -> tuple[Outdated, ...]:
        """The results with renders that are out of date, by the order of their statements."""
        if not self._changes:
            return ()
        results = sorted(self._results.values(), key=lambda result: result.statement)
        found = ((result, self._places(result)) for result in results)
        return tuple(Outdated(result, places) for result, places in found if places)

    def _places(self, result: StandingResult) -> dict[int, int]:
        places: dict[int, int] = {}
        for place, display in enumerate(result.finished.displays):
            changes = self._changes.get(display.obj_id)
            if changes is None or display.given:
                continue
            last, _ = self._last()[display.obj_id]
            if last is result and max(changes.policy, changes.move) > result.at:
                places[place] = 0
            elif last is not result and changes.policy > result.at:
                places[place] = last.statement
        return places


_UNCHANGED: Final = _Changes()


def referring(display: Display, statement: int) -> Display:
    """What stands in the place of a render that a later result shows better."""
    return replace(display, text=f"(shown again by statement {statement})\n", tokens=0, digest="", given=True)
