"""Views of request cycles: rounds as the model saw them, steps as a person sees them, JSON, and summary lines.

**Rounds.** An InferenceRound has the model's input and its output. A round begins with the first output after an input,
or when the response id changes. An output without a response id belongs to the open round, and a response that results
interrupt is one round. A call with a parent, and its result, are in no round: no model made that call nor reads its
result, which comes back in the statement's own result.

**Steps.** A ResolutionStep is a user step or an ai-block with grouped tool calls. A text opens an ai-block and a steer
ends one; calls without a text before them open one whose text is None. Results are no steps: they belong to their calls
and end no group. A statement with children (a `python` call) is transparent: it leaves the groups, so its children
stand next to each other and to their neighbours, and is kept beside them as a statement.

**JSON** has the published names: user-message, agent-output, tool-result, run-stop, steer ... Rounds refer to items by
id; steps have them in full. Values that JSON cannot represent are replaced.

**Summary lines** are deterministic: a line for each request and each step, oldest first. Statements are only numbered,
because the tail lists them (`context.tail.timeline`).

All are pure functions of cycles. Must not know how cycles are made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...core.ids import EventId, LlmResponseId, ToolCallId
from ...core.plain_data import DEEPEST, number
from ...core.text import cut_line, valid_text
from ...core.toolbox import ROUTED, TOOLS, GroupName
from ..events.conversation import AgentReasoning, AgentText, RunStop, RunStopReason, ToolCall, ToolResult, UserMessage
from .machine import Cycles, Item, Output, RequestCycle, RootKind, Waiting

Given = UserMessage | ToolResult


class InferenceRound(Struct, frozen=True):
    """A model's input and output. `number` counts from 1 in the cycle; `given` came after the last round's output."""

    number: int
    response_id: LlmResponseId | None
    given: tuple[Given, ...]
    output: tuple[Output, ...]


class InferenceLoop(Struct, frozen=True):
    """The rounds of a cycle; `unread` is the last input, if no output follows it."""

    rounds: tuple[InferenceRound, ...]
    unread: tuple[Given, ...]


class _Draft(Struct):
    given: list[Given]
    output: list[Output]
    response_id: LlmResponseId | None = None


def rounds_of(cycle: RequestCycle) -> InferenceLoop:
    """Return the rounds of a cycle, ended or not. Late results are in no round."""
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


# --- steps ------------------------------------------------------------------------------------------------------------

_PUBLISHED: Final[dict[str, GroupName]] = {
    "ls": "read-group",
    "read": "read-group",
    "grep": "read-group",
    "find": "read-group",
    "write": "write-group",
    "edit": "write-group",
    "bash": "bash-group",
}
"""The usual names of agents' tools, as the model of request cycles publishes them."""
GROUPS: Final[dict[str, GroupName]] = {
    **_PUBLISHED,
    **{tool.name: tool.group for tool in (*TOOLS.values(), *ROUTED.values())},
}
"""The group of each tool, of other programs, too; all others are in the other-group."""
_STATEMENT: Final = "python"


class Call(Struct, frozen=True):
    """A tool call with its result, which is None while the call is open."""

    call: ToolCall
    result: ToolResult | None


class ToolGroup(Struct, frozen=True):
    """Adjacent calls of one kind; at least one."""

    name: GroupName
    calls: tuple[Call, ...]


class UserStep(Struct, frozen=True):
    step: Literal["non-steer", "steer"]
    message: UserMessage


class AiBlock(Struct, frozen=True):
    """At most one text, the parent statements that were called after it, and the other calls in groups."""

    text: AgentText | AgentReasoning | None
    statements: tuple[Call, ...]
    groups: tuple[ToolGroup, ...]


Step = UserStep | AiBlock


@dataclass(slots=True)
class _CallDraft:
    call: ToolCall
    result: ToolResult | None = None
    transparent: bool = False


@dataclass(slots=True)
class _BlockDraft:
    text: AgentText | AgentReasoning | None = None
    calls: list[_CallDraft] = field(default_factory=list[_CallDraft])


def steps_of(cycle: RequestCycle) -> tuple[Step, ...]:
    """Return the steps of a cycle, ended or not; the first one is its root."""
    drafts: list[UserStep | _BlockDraft] = [UserStep("non-steer", cycle.root)]
    calls: dict[ToolCallId, _CallDraft] = {}
    for item in (*cycle.items, *cycle.late):
        match item:
            case UserMessage():
                drafts.append(UserStep("steer", item))
            case AgentText() | AgentReasoning():
                drafts.append(_BlockDraft(item))
            case ToolCall():
                _add(item, drafts, calls)
            case ToolResult():
                if item.tool_call_id in calls:
                    calls[item.tool_call_id].result = item
    return tuple(draft if isinstance(draft, UserStep) else _block(draft) for draft in drafts)


def _add(call: ToolCall, drafts: list[UserStep | _BlockDraft], calls: dict[ToolCallId, _CallDraft]) -> None:
    parent = calls.get(call.parent_id) if call.parent_id is not None else None
    if parent is not None and parent.call.tool == _STATEMENT:
        parent.transparent = True
    block = drafts[-1]
    if isinstance(block, UserStep):
        block = _BlockDraft()
        drafts.append(block)
    draft = calls[call.tool_call_id] = _CallDraft(call)
    block.calls.append(draft)


def _block(draft: _BlockDraft) -> AiBlock:
    statements: list[Call] = []
    runs: list[tuple[GroupName, list[Call]]] = []
    for each in draft.calls:
        call = Call(each.call, each.result)
        name = GROUPS.get(each.call.tool, "other-group")
        if each.transparent:
            statements.append(call)
        elif runs and runs[-1][0] == name:
            runs[-1][1].append(call)
        else:
            runs.append((name, [call]))
    return AiBlock(draft.text, tuple(statements), tuple(ToolGroup(name, tuple(run)) for name, run in runs))


# --- the summary that adapters report ---------------------------------------------------------------------------------


class CycleSummary(Struct, frozen=True, kw_only=True):
    """An ended cycle in numbers. `number` counts cycles from 1; `queued` prompts waited at its end."""

    number: int
    root: RootKind
    stop: RunStopReason
    rounds: int
    steps: int
    queued: int


def summary_of(cycle: RequestCycle, *, queued: int) -> CycleSummary:
    """Return the summary of an ended cycle."""
    assert cycle.stop is not None
    return CycleSummary(
        number=cycle.number,
        root=cycle.root_kind,
        stop=cycle.stop.reason,
        rounds=len(rounds_of(cycle).rounds),
        steps=len(steps_of(cycle)),
        queued=queued,
    )


# --- JSON -------------------------------------------------------------------------------------------------------------

Plain = dict[str, Any]

SCHEMA: Final = "request-cycles/1"


def to_json(model: Cycles) -> bytes:
    """Return `to_plain` as JSON in UTF-8. The same log gives the same bytes."""
    return msgspec.json.encode(to_plain(model))


def to_plain(model: Cycles) -> Plain:
    """Return `{schema, state, cycles, queue, withdrawn, strays, anomalies}` as dicts, lists and scalars."""
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
    """Return the value for JSON, with sorted keys; other values become their type in angle brackets."""
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


# --- summary lines ----------------------------------------------------------------------------------------------------

LINE_CHARS: Final = 240
"""The length at which a line is cut."""

Numbers = Mapping[ToolCallId, int]
_Line = str | int
"""A line, or the number of a statement."""


def summary_lines(cycles: Cycles, entries: Collection[EventId], numbers: Numbers) -> tuple[str, ...]:
    """Return lines that summarize part of a session, in log order.

    Args:
        cycles: the cycles of the whole session.
        entries: ids of the events to summarize; results count with their calls.
        numbers: the numbers of the statements, by their calls.
    """
    lines: list[_Line] = []
    for cycle in cycles.cycles:
        part = replace(cycle, items=_within(cycle.items, entries), late=())
        if part.items or cycle.root.event_id in entries:
            lines += _cycle_lines(part, cycle.root.event_id in entries, numbers)
    for item in _within(cycles.strays, entries):
        lines += _stray_lines(item)
    return tuple(_lines(lines))


def _lines(parts: Iterable[_Line]) -> Iterator[str]:
    """Yield the lines; consecutive statements share one."""
    run: list[int] = []
    for each in parts:
        if run and each != run[-1] + 1:
            yield _statements(run)
            run = []
        if isinstance(each, int):
            run.append(each)
        else:
            yield each
    if run:
        yield _statements(run)


def _statements(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"You ran statement {numbers[0]}."
    return f"You ran statements {numbers[0]} to {numbers[-1]}."


def _within(items: Sequence[Item], entries: Collection[EventId]) -> tuple[Item, ...]:
    return tuple(item for item in items if item.event_id in entries)


def _cycle_lines(cycle: RequestCycle, with_root: bool, numbers: Numbers) -> list[_Line]:
    lines: list[_Line] = []
    for step in steps_of(cycle)[0 if with_root else 1 :]:
        match step:
            case UserStep(step=kind, message=message):
                lines.append(
                    _line("The user said meanwhile: " if kind == "steer" else "The user asked: ", message.text)
                )
            case AiBlock():
                lines += _block_lines(step, numbers)
    return lines


def _block_lines(block: AiBlock, numbers: Numbers) -> list[_Line]:
    lines = [_line("You said: ", block.text.text)] if isinstance(block.text, AgentText) else []
    calls = [*block.statements, *(call for group in block.groups for call in group.calls)]
    return [*lines, *(numbers.get(call.call.tool_call_id) or _call_line(call) for call in calls)]


def _call_line(call: Call) -> str:
    status = call.result.status if call.result is not None else "open"
    text = _line(f"You ran {call.call.tool} ({status}): ", str(call.call.arguments.get("source", call.call.arguments)))
    if call.result is not None and call.result.status == "error":
        text += f" -> {cut_line(call.result.text.strip().rpartition(chr(10))[2], LINE_CHARS)}"
    return text


def _stray_lines(item: Item) -> list[str]:
    match item:
        case UserMessage(text=text):
            return [_line("The user said: ", text)]
        case AgentText(text=text):
            return [_line("You said: ", text)]
        case ToolCall(tool=tool, arguments=arguments):
            return [_line(f"You ran {tool}: ", str(arguments.get("source", arguments)))]
        case _:
            return []


def _line(head: str, text: str) -> str:
    return head + cut_line(" ".join(text.split()), LINE_CHARS)
