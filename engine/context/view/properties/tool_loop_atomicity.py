"""ToolLoopAtomicity: a tool loop stays whole, from its thinking head to its end.

A loop starts at an action with thinking, runs through consecutive actions and observations, and ends at the next
action with thinking (which starts its own) or at the first event of another kind. Closes the gap before each event of
a loop but its head (`POSITIONS`: see `BoundaryRule`), because providers reject signed thinking that lost its calls.
Leaves out what remains of a loop of which any event is missing (`POSITIONS`: nothing).

Loops are found in two sequences. In the View, where they decide about gaps, any other entry ends a loop. On the log,
where they decide what is missing, any other event of the conversation does, a Condensation or a RunStop included;
runtime events and the calls that statements make happen *inside* a call and do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ....core.ids import LlmResponseId, Seq
from ....log.events import Event
from ....log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ..entries import TEXTS, TOOL_EVENTS
from ..rule import BoundaryRule
from .base import AllOrNothing, Closed, Closer, Enforcement, Recorder, Watch, WholeUnits

_BREAKS: Final = (UserMessage, AgentText, AgentReasoning, RunStop, Condensation, CondensationRequest)


class ToolLoopAtomicity:
    """Remembers of the log which loop each event of one is in, and how many events each loop has."""

    name: ClassVar[str] = "ToolLoopAtomicity"

    def __init__(self, rule: BoundaryRule) -> None:
        self._rule = rule
        self._loops: dict[Seq, int] = {}
        self._sizes: dict[int, int] = {}
        self._inside = False

    def recorders(self) -> Mapping[type[Event], Recorder]:
        if self._rule is BoundaryRule.POSITIONS:
            return {}
        return {ToolCall: self._called, ToolResult: self._answered, **dict.fromkeys(_BREAKS, self._broken)}

    def _called(self, call: ToolCall) -> None:
        if call.thinking:
            self._inside = True
            self._loops[call.seq] = loop = len(self._sizes)
            self._sizes[loop] = 1
        elif self._inside:
            self._continue(call.seq)

    def _answered(self, result: ToolResult) -> None:
        if self._inside:
            self._continue(result.seq)

    def _continue(self, seq: Seq) -> None:
        self._loops[seq] = loop = len(self._sizes) - 1
        self._sizes[loop] += 1

    def _broken(self, event: Event) -> None:
        del event
        self._inside = False

    def closers(self) -> Mapping[type[Event], Closer]:
        loops = _PublishedLoops() if self._rule is BoundaryRule.POSITIONS else _Loops()
        return {ToolCall: loops.asked, ToolResult: loops.answered, **dict.fromkeys(TEXTS, loops.broken)}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        del open_run
        loop_of = self._loops.get
        return AllOrNothing([loop_of(entry.seq) for entry in entries], self._sizes)

    def watch(self) -> Watch:
        return WholeUnits(self._loop_of, self._sizes, TOOL_EVENTS)

    def _loop_of(self, entry: Event) -> int | None:
        return self._loops.get(entry.seq)


class _Loops:
    """Whether the sequence ends inside a loop."""

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        self._inside = False

    def asked(self, position: int, call: ToolCall) -> Closed | None:
        if call.thinking:
            self._inside = True
            return None
        return (position, position) if self._inside else None

    def answered(self, position: int, result: ToolResult) -> Closed | None:
        del result
        return (position, position) if self._inside else None

    def broken(self, position: int, text: Event) -> Closed | None:
        del position, text
        self._inside = False
        return None


class _PublishedLoops(_Loops):
    """The same by positions: the head's own gap is closed, and every action of a batch that thinks is in a loop."""

    __slots__ = ("_thinking",)

    def __init__(self) -> None:
        super().__init__()
        self._thinking: set[LlmResponseId] = set()

    def asked(self, position: int, call: ToolCall) -> Closed | None:
        response = call.llm_response_id
        if call.thinking and response is not None:
            self._thinking.add(response)
        self._inside = self._inside or bool(call.thinking) or response in self._thinking
        return (position, position) if self._inside else None
