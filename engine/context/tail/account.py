"""Where the tokens of a projection go: by section, and by the handle whose renders they are.

The messages are divided by what they are, because that says what can be done about them; the tail's sections and its
share of each handle come from the worker. What a handle's renders take of a statement's result is known from the log,
so this is a fold. Counts are exact for sections; a render inside a result counts as it did when it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from ...core.execution import Display, NamespaceDiff
from ...core.ids import ObjId, StatementId, ToolCallId
from ...log.events import Event
from ...log.events.conversation import AgentReasoning, AgentText, ResultRerendered, ToolCall, ToolResult, UserMessage
from ...log.events.execution import ExecutionFinished, StatementRecorded
from ...log.events.nodes import NodeMade
from ...log.timeline.index import Timeline
from ..view.entries import Summary

INSTRUCTIONS: Final = "instructions"
_KINDS: Final[Mapping[type[Event], str]] = {
    UserMessage: "prompts",
    AgentText: "replies",
    AgentReasoning: "replies",
    ToolCall: "statements",
    ToolResult: "results",
    Summary: "summary",
}
MESSAGES: Final = tuple(dict.fromkeys(_KINDS.values()))
"""The sections of the messages, in the order in which they are listed."""
LARGEST_NODES: Final = 24
"""Handles of which it is said, and written down, what they took of one call."""

Cost = Callable[[Event], int]
"""Exact tokens of a message."""


class Account:
    """Divides costs. `apply` is for the log alone.

    `timeline` follows the same path, and is told of each event before.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (StatementRecorded, ExecutionFinished, ResultRerendered, NodeMade)
    )

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._names: dict[ObjId, str] = {}
        self._named: dict[str, ObjId] = {}
        """The same by name: each is one handle's, until a statement deletes it or binds it to something else."""
        self._made: dict[str, ObjId] = {}
        """What the execution that is under way has made, whose record comes last."""
        self._titles: dict[ObjId, str] = {}
        self._recorded: StatementRecorded | None = None
        """The last statement, until it has run."""
        self._renders: dict[ToolCallId, dict[ObjId, int]] = {}
        """Of the calls that a model made, whose results are messages."""

    def apply(self, event: Event) -> None:
        match event:
            case StatementRecorded():
                self._recorded = event
            case ExecutionFinished() if event.counts:
                self._name(event.diff)
                self._give(event.statement_id, self._taken(event.displays))
            case ResultRerendered(tool_call_id=call):
                self._renders[call] = self._taken(event.displays)
            case NodeMade(obj_id=obj_id, name=name) if name:
                self._made[name] = obj_id
            case _:
                pass

    def _give(self, statement_id: StatementId, taken: dict[ObjId, int]) -> None:
        """The renders are in the result of the statement's call, if this is its first run and a model made the call."""
        statement, self._recorded = self._recorded, None
        if taken and statement is not None and statement.statement_id == statement_id:
            cell = self._timeline.cell(statement_id)
            if cell is not None and cell.asked:
                self._renders[statement.tool_call_id] = taken

    def _name(self, diff: NamespaceDiff) -> None:
        rebound = (name for name, change in diff.changed.items() if not change.mutated)
        for name in (*diff.deleted, *rebound, *self._made):
            if (obj_id := self._named.pop(name, None)) is not None:
                del self._names[obj_id]
        for name, obj_id in self._made.items():
            self._named[name], self._names[obj_id] = obj_id, name
        self._made = {}

    def _taken(self, displays: Iterable[Display]) -> dict[ObjId, int]:
        taken: dict[ObjId, int] = {}
        for display in displays:
            obj_id = ObjId(display.obj_id)
            taken[obj_id] = taken.get(obj_id, 0) + display.tokens
            self._titles[obj_id] = display.title
        return taken

    def name(self, obj_id: ObjId) -> str:
        """What the statement that made the handle called it, as long as that is its name; else its id."""
        return self._names.get(obj_id, obj_id)

    def title(self, obj_id: ObjId) -> str:
        """What the handle was shown under last."""
        return self._titles.get(obj_id, "")

    def sections(
        self, instruction_tokens: int, messages: Sequence[Event], cost: Cost, tail: Mapping[str, int]
    ) -> dict[str, int]:
        """Tokens by section, in the order in which they are sent; of empty ones nothing."""
        taken = dict.fromkeys((INSTRUCTIONS, *MESSAGES), 0)
        taken[INSTRUCTIONS] = instruction_tokens
        for message in messages:
            kind = _KINDS.get(type(message))
            if kind is not None:
                taken[kind] += cost(message)
        return {name: tokens for name, tokens in (*taken.items(), *tail.items()) if tokens}

    def nodes(self, messages: Sequence[Event], cost: Cost, tail: Mapping[str, int]) -> dict[ObjId, int]:
        """Tokens by handle, the largest first."""
        taken = {ObjId(obj_id): tokens for obj_id, tokens in tail.items()}
        for obj_id, tokens in self._shown(messages, cost):
            taken[obj_id] = taken.get(obj_id, 0) + tokens
        return dict(sorted(taken.items(), key=lambda item: -item[1]))

    def largest_shown(self, messages: Sequence[Event], cost: Cost) -> dict[ObjId, int]:
        """Tokens of the largest part that a result has of each handle; none of a handle that no result shows."""
        largest: dict[ObjId, int] = {}
        for obj_id, tokens in self._shown(messages, cost):
            largest[obj_id] = max(largest.get(obj_id, 0), tokens)
        return largest

    def _shown(self, messages: Sequence[Event], cost: Cost) -> Iterator[tuple[ObjId, int]]:
        """What each result has of each handle."""
        for message in messages:
            if isinstance(message, ToolResult) and message.tool_call_id in self._renders:
                # Of a result that was shortened less is left than its renders had.
                most = cost(message)
                for obj_id, tokens in self._renders[message.tool_call_id].items():
                    yield obj_id, min(tokens, most)
