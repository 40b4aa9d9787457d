"""A cycle as the model saw it: InferenceRounds, each with what the model was given and what it answered.

Pure over one `RequestCycle`. Must not know steps or groups. A call with a parent and its result are in no round, since
no model made the call nor reads the result: what a statement's helpers did comes back in the statement's own result.

A round begins with the first output after something was fed back, or where the response id changes. An output without
a response id belongs to whatever round is open; one response that results interrupt is one round.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ...core.ids import LlmResponseId, ToolCallId
from ..events.conversation import ToolCall, ToolResult, UserMessage
from .model import Item, Output, RequestCycle

Given = UserMessage | ToolResult


class InferenceRound(Struct, frozen=True):
    """`number` counts from 1 within the cycle. `given` is what came in after the output of the round before."""

    number: int
    response_id: LlmResponseId | None
    given: tuple[Given, ...]
    output: tuple[Output, ...]


class InferenceLoop(Struct, frozen=True):
    """The rounds of a cycle; `unread` is what was fed back last, with no output after it."""

    rounds: tuple[InferenceRound, ...]
    unread: tuple[Given, ...]


class _Draft(Struct):
    given: list[Given]
    output: list[Output]
    response_id: LlmResponseId | None = None


def rounds_of(cycle: RequestCycle) -> InferenceLoop:
    """The InferenceLoop view of a cycle, ended or not. Results that came after its end are in no round."""
    drafts: list[_Draft] = []
    pending: list[Given] = [cycle.root]
    for item in _served(cycle):
        if isinstance(item, (UserMessage, ToolResult)):
            pending.append(item)
            continue
        if not drafts or _begins(item, drafts[-1], bool(pending)):
            drafts.append(_Draft(pending, []))
            pending = []
        drafts[-1].output.append(item)
        drafts[-1].response_id = drafts[-1].response_id or item.llm_response_id
    rounds = [
        InferenceRound(number, draft.response_id, tuple(draft.given), tuple(draft.output))
        for number, draft in enumerate(drafts, 1)
    ]
    return InferenceLoop(tuple(rounds), tuple(pending))


def _served(cycle: RequestCycle) -> Iterator[Item]:
    nested: dict[ToolCallId, bool] = {}
    for item in cycle.items:
        if isinstance(item, ToolCall):
            nested[item.tool_call_id] = item.parent_id is not None
        if not isinstance(item, (ToolCall, ToolResult)) or not nested.get(item.tool_call_id, False):
            yield item


def _begins(item: Output, current: _Draft, fed_back: bool) -> bool:
    if item.llm_response_id and current.response_id:
        return item.llm_response_id != current.response_id
    return fed_back
