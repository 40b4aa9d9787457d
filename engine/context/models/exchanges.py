"""The conversation of a View as exchanges: a reply of the model, the results of its calls, what was said after it.

Owns the shape that every LLM API asks for, whatever the log looks like: each call is answered right after the reply
that made it, once, and nothing stands between. Must not know any API. Called by `messages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...core.ids import LlmResponseId, ToolCallId
from ...log.events import Event
from ...log.events.conversation import AgentReasoning, AgentText, ToolCall, ToolResult, UserMessage
from ...log.user_message import user_text
from ..view import Summary

Said = AgentText | AgentReasoning | ToolCall


@dataclass(slots=True)
class Exchange:
    """`reply` is empty only in the first one; `results` are those of its calls; `said` holds no blank texts."""

    response: LlmResponseId | None = None
    reply: list[Said] = field(default_factory=list[Said])
    results: dict[ToolCallId, ToolResult] = field(default_factory=dict[ToolCallId, ToolResult])
    said: list[str] = field(default_factory=list[str])
    answered: bool = False

    @property
    def calls(self) -> Sequence[ToolCall]:
        return [event for event in self.reply if isinstance(event, ToolCall)]

    def continued_by(self, event: Said) -> bool:
        """Whether `event` is of the same reply. Where a log names no replies, a result ends one."""
        if not self.reply or self.said or event.llm_response_id != self.response:
            return False
        return self.response is not None or not self.answered


def exchanges(events: Iterable[Event]) -> list[Exchange]:
    """The exchanges in order, the first without a reply.

    A call keeps its own result, wherever it comes; a second result or call of one id, a result without a call, and
    what a statement called itself are left out. A call without a result stays, for whoever says so.
    """
    entries = list(events)
    results: dict[ToolCallId, ToolResult] = {}
    for event in entries:
        if isinstance(event, ToolResult) and event.parent_id is None:
            results.setdefault(event.tool_call_id, event)
    called: set[ToolCallId] = set()
    found = [Exchange()]
    for event in entries:
        last = found[-1]
        match event:
            case UserMessage():
                _say(last, user_text(event))
            case Summary():
                _say(last, f"[What happened before, summed up]\n{event.text}")
            case ToolResult():
                last.answered = last.answered or event.tool_call_id in last.results
            case AgentText() | AgentReasoning() if event.text.strip() or isinstance(event, AgentReasoning):
                _reply(found, event)
            case ToolCall(parent_id=None) if event.tool_call_id not in called:
                called.add(event.tool_call_id)
                result = results.get(event.tool_call_id)
                holder = _reply(found, event)
                if result is not None:
                    holder.results[event.tool_call_id] = result
            case _:
                pass
    return found


def _say(exchange: Exchange, text: str) -> None:
    if text.strip():
        exchange.said.append(text)


def _reply(found: list[Exchange], event: Said) -> Exchange:
    """The exchange that holds `event` now: the last one, or a new one where the last is of another reply."""
    if not found[-1].continued_by(event):
        found.append(Exchange(response=event.llm_response_id))
    found[-1].reply.append(event)
    return found[-1]
