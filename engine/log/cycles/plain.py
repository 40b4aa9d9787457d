"""The model as plain JSON, with the published names: user-message, agent-output, tool-result, run-stop, steer ...

Owns the shape only. Must not derive anything that the model and its two views do not say. Called by whoever shows
cycles. Total like the fold: what JSON cannot hold is replaced. Rounds refer to things by id; steps hold them in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from ...core.plain_data import DEEPEST, number
from ...core.text import valid_text
from ..events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from .model import Cycles, Item, RequestCycle, RootKind, Waiting
from .rounds import InferenceRound, rounds_of
from .steps import AiBlock, Call, Step, steps_of

Plain = dict[str, Any]

SCHEMA: Final = "request-cycles/1"


def to_json(model: Cycles) -> bytes:
    """`to_plain` as UTF-8. The same log gives the same bytes."""
    return msgspec.json.encode(to_plain(model))


def to_plain(model: Cycles) -> Plain:
    """`{schema, state, cycles, queue, withdrawn, strays, anomalies}`, made of dicts, lists and scalars."""
    return {
        "schema": SCHEMA,
        "state": "active" if model.active else "idle",
        "cycles": [_cycle(cycle) for cycle in model.cycles],
        "queue": [_waiting(waiting) for waiting in model.queue],
        "withdrawn": [
            {"messageId": valid_text(each.message_id), "text": None if each.text is None else valid_text(each.text)}
            for each in model.withdrawn
        ],
        "strays": [_stray(item) for item in model.strays],
        "anomalies": [
            {"type": each.kind, "seq": each.seq, "subject": valid_text(each.subject)} for each in model.anomalies
        ],
    }


def _cycle(cycle: RequestCycle) -> Plain:
    loop = rounds_of(cycle)
    return {
        "cycle": cycle.number,
        "root": _message(cycle.root, cycle.root_kind),
        "stop": None if cycle.stop is None else _stop(cycle.stop),
        "steps": [_step(step, cycle.root_kind) for step in steps_of(cycle)],
        "rounds": [_round(each, cycle) for each in loop.rounds],
        "unread": [_reference(item, cycle) for item in loop.unread],
    }


def _step(step: Step, root_kind: RootKind) -> Plain:
    if isinstance(step, AiBlock):
        return {
            "type": "ai-block",
            "text": None if step.text is None else _text_item(step.text),
            "statements": [_call(call) for call in step.statements],
            "groups": [{"type": group.name, "calls": [_call(call) for call in group.calls]} for group in step.groups],
        }
    return {"type": step.step, "message": _message(step.message, root_kind if step.step == "non-steer" else "steer")}


def _round(each: InferenceRound, cycle: RequestCycle) -> Plain:
    return {
        "round": each.number,
        "responseId": _optional(each.response_id),
        "input": [_reference(item, cycle) for item in each.given],
        "output": [_reference(item, cycle) for item in each.output],
    }


def _reference(item: Item, cycle: RequestCycle) -> Plain:
    match item:
        case UserMessage():
            kind = cycle.root_kind if item is cycle.root else "steer"
            return {"type": "user-message", "kind": kind, "messageId": valid_text(item.message_id)}
        case ToolCall():
            return {"type": "agent-output", "item": "tool-call", "toolCallId": valid_text(item.tool_call_id)}
        case ToolResult():
            return {"type": "tool-result", "toolCallId": valid_text(item.tool_call_id)}
        case AgentText() | AgentReasoning():
            return {"type": "agent-output", "item": _item_name(item), "messageId": valid_text(item.message_id)}


def _stray(item: Item) -> Plain:
    match item:
        case UserMessage():
            return _message(item, "steer")
        case AgentText() | AgentReasoning():
            return _text_item(item)
        case ToolCall():
            return _call(Call(item, None))
        case ToolResult():
            return {**_result(item), "toolCallId": valid_text(item.tool_call_id)}


def _waiting(waiting: Waiting) -> Plain:
    return {
        "type": "user-message",
        "kind": "followUp",
        "messageId": valid_text(waiting.message_id),
        "text": valid_text(waiting.text),
    }


def _message(message: UserMessage, kind: str) -> Plain:
    return {
        "type": "user-message",
        "kind": kind,
        "messageId": valid_text(message.message_id),
        "text": valid_text(message.text),
        "attachments": [valid_text(attachment.uri) for attachment in message.attachments],
        "seq": message.seq,
    }


def _text_item(item: AgentText | AgentReasoning) -> Plain:
    return {
        "type": "agent-output",
        "item": _item_name(item),
        "messageId": valid_text(item.message_id),
        "text": valid_text(item.text),
        "seq": item.seq,
    }


def _item_name(item: AgentText | AgentReasoning) -> str:
    return "assistant" if isinstance(item, AgentText) else "reasoning"


def _call(call: Call) -> Plain:
    return {
        "type": "agent-output",
        "item": "tool-call",
        "toolCallId": valid_text(call.call.tool_call_id),
        "tool": valid_text(call.call.tool),
        "arguments": _value(call.call.arguments, 0),
        "parentId": _optional(call.call.parent_id),
        "seq": call.call.seq,
        "result": None if call.result is None else _result(call.result),
    }


def _result(result: ToolResult) -> Plain:
    return {"type": "tool-result", "status": result.status, "text": valid_text(result.text), "seq": result.seq}


def _stop(stop: RunStop) -> Plain:
    return {
        "type": "run-stop",
        "reason": stop.reason,
        "cause": stop.cause,
        "detail": _optional(stop.detail),
        "seq": stop.seq,
    }


def _optional(text: str | None) -> str | None:
    return None if text is None else valid_text(text)


def _value(value: object, depth: int) -> object:
    """Keys sorted, so that equal arguments give equal bytes; what is no JSON becomes its type in angle brackets."""
    match value:
        case None | bool():
            return value
        case str():
            return valid_text(value)
        case int() | float():
            return number(value)
        case Mapping() if depth < DEEPEST:
            pairs = cast("Mapping[object, object]", value).items()
            named = sorted(((_key(key), item) for key, item in pairs), key=lambda pair: pair[0])
            return {key: _value(item, depth + 1) for key, item in named}
        case list() | tuple() if depth < DEEPEST:
            return [_value(item, depth + 1) for item in cast("Sequence[object]", value)]
        case _:
            return f"<{type(value).__name__}>"


def _key(key: object) -> str:
    return valid_text(key) if isinstance(key, str) else f"<{type(key).__name__}>"
