"""Renders in results of the View: which are outdated, and worth making again.

`Standing` is a fold over a path of events. A render is out of date if a method has changed its handle's budget, level
or position since: the same call would now show something else. Changes by ticks do not count, because the feed reports
them. Only the last render of a handle counts. Earlier ones are out of date if budget or level changed since, because
the last one shows the content. They stay if the handle has only moved: someone who reads a file part by part has asked
for each part.

`choose_rewrites` decides which outdated results to render again. Read by the session's projector, and by the worker,
whose tail omits what a result shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Struct
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
    """A result of the View with renders, and the position on the log at which they were made.

    `finished` is its execution with the current renders; `statement` is the index of the statement. `calls` are the
    calls at its beginning, if it was rendered again.
    """

    call: ToolCallId
    entry: EventId
    statement: int
    at: int
    finished: ExecutionFinished
    calls: str = ""

    @property
    def text(self) -> str:
        """The result's text in the View, as far as its execution and its handles alone decide it."""
        return self.calls + result_text(self.finished)

    def with_displays(self, displays: Sequence[Display], calls: str) -> str:
        """Return the result's text with these renders, below these calls."""
        return calls + result_text(replace(self.finished, displays=tuple(displays)))


@dataclass(frozen=True, slots=True)
class Outdated:
    """A result with outdated renders: their places among its renders.

    Each place comes with the index of a later statement whose result shows the handle, 0 for none.
    """

    result: StandingResult
    places: Mapping[int, int]


@dataclass(slots=True)
class _Changes:
    """The positions on the log of a handle's last changes of policy, position and content."""

    policy: int = _NEVER
    move: int = _NEVER
    content: int = _NEVER


class Standing:
    """The renders that results of the View have.

    Only the log calls `apply` and `reset`.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again: another path follows, from its first event."""
        self._open: set[ToolCallId] = set()
        """The model's calls without a result."""
        self._statements: dict[StatementId, StatementRecorded] = {}
        """The statements of these calls."""
        self._shown: dict[ToolCallId, tuple[int, ExecutionFinished]] = {}
        """Executions with renders whose results are still to come, with the indices of their statements."""
        self._results: dict[ToolCallId, StandingResult] = {}
        self._entries: dict[EventId, ToolCallId] = {}
        self._changes: dict[str, _Changes] = {}
        self._latest: dict[str, tuple[StandingResult, Display]] | None = {}
        """The last result with each handle's render; None if it must be found again."""

    def apply(self, event: Event) -> None:
        # By kind first: a log has hundreds of thousands of events, and most are of these kinds.
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
            return  # because only later changes make a render outdated
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
                call=before.call,
                entry=event.event_id,
                statement=before.statement,
                at=event.seq,
                finished=finished,
                calls=event.calls,
            )
        )

    def _last(self) -> Mapping[str, tuple[StandingResult, Display]]:
        """Return the last render of each handle at its own policy, with its result, by statement."""
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
        """Return the last render of each handle."""
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
        """Return the results with outdated renders, by statement."""
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
    """Replace a render by a reference to a later result that shows the handle."""
    return replace(display, text=f"(shown again by statement {statement})\n", tokens=0, digest="", given=True)


# --- which results to render again -----------------------------------------------------------------------------------


SHARE: Final = 5
"""A rewrite must save one of this many tokens behind it."""


class Rewrite(Struct, frozen=True):
    """A possible rewrite of a message: its place in the prompt, and its new cost in tokens."""

    place: int
    tokens: int


def choose_rewrites(
    rewrites: Sequence[Rewrite], costs: Sequence[int], kept: int, room: int, *, at_any_price: bool = False
) -> tuple[Rewrite, ...]:
    """Choose the rewrites that make a prompt cheaper, by their places.

    Providers cache the prompts that they were sent, and read the unchanged beginning of a new one for about a tenth of
    the price. So after a changed message all tokens cost the full price: a break in front of 50,000 cached tokens costs
    as much as 45,000 new ones. A rewrite pays if the prefix breaks there anyway, or if it saves more than a fifth of
    the tokens behind it. Rewrites that enlarge a message are chosen in order, as long as all messages fit `room`.

    Args:
        rewrites: ascending by place, at most one for each.
        costs: tokens of each message now.
        kept: number of leading messages that the call before had, too; the rest costs the full price anyway.
        room: tokens that the messages may take.
        at_any_price: choose all of them.
    """
    start = 0 if at_any_price else _break(rewrites, costs, kept)
    chosen: list[Rewrite] = []
    found = [rewrite for rewrite in rewrites if rewrite.place >= start]
    left = room - sum(costs) + sum(_saved(rewrite, costs) for rewrite in found if _saved(rewrite, costs) > 0)
    for rewrite in found:
        growth = -_saved(rewrite, costs)
        if growth <= 0:
            chosen.append(rewrite)
        elif growth <= left:
            left -= growth
            chosen.append(rewrite)
    return tuple(chosen)


def _break(rewrites: Sequence[Rewrite], costs: Sequence[int], kept: int) -> int:
    """Return the place from which the prompt may change: the one that saves most, or where it breaks anyway."""
    best, start, saved = 0, kept, 0
    for rewrite in reversed([rewrite for rewrite in rewrites if rewrite.place < kept]):
        behind = sum(costs[rewrite.place + 1 : kept]) - saved
        saved += _saved(rewrite, costs)
        gain = SHARE * saved - behind
        if gain > best:
            best, start = gain, rewrite.place
    return start


def _saved(rewrite: Rewrite, costs: Sequence[int]) -> int:
    return costs[rewrite.place] - rewrite.tokens
