"""Request cycles for people: one block of lines for each, then what waits, was withdrawn, has no place, or was odd.

Owns the layout only; `cycles` says what a cycle is made of. Each thing is one line that is safe for a terminal. Called
by `rewindow show --cycles`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..log.cycles import Cycles, RequestCycle, steps_of
from ..log.cycles.machine import ANOMALIES, Item
from ..log.cycles.views import AiBlock, Call, Step
from ..log.events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from .calls import WIDTH, call_line
from .output.printing import shown, shown_line

_OPEN: Final = "open"
"""The status of a call that has no result."""
_STATUS_WIDTH: Final = 9
_ORDINARY: Final = (("completed", "end_turn"), ("interrupted", "cancelled"), ("error", "error"))
"""Causes that say no more than their reason."""
_NOTHING: Final = "No request yet."


def cycles_text(model: Cycles) -> Iterator[str]:
    """The blocks: each cycle, then queue, withdrawn, strays and anomalies where there are any."""
    for cycle in model.cycles:
        yield "\n".join(_cycle(cycle))
    if not model.cycles:
        yield _NOTHING
    sections = (
        ("queue", [_line(f"{waiting.message_id}>", waiting.text) for waiting in model.queue]),
        ("withdrawn", [_line(f"{each.message_id}>", each.text or "") for each in model.withdrawn]),
        ("outside all cycles", [_item(item) for item in model.strays]),
        ("anomalies", [_anomaly(each.seq, each.kind, each.subject, ANOMALIES[each.kind]) for each in model.anomalies]),
    )
    for name, lines in sections:
        if lines:
            yield "\n".join([name, *(f"  {line}" for line in lines)])


def _cycle(cycle: RequestCycle) -> Iterator[str]:
    yield _line(f"cycle {cycle.number} ({cycle.root_kind})>", cycle.root.text)
    for step in steps_of(cycle)[1:]:
        yield from _step(step)
    yield "  [still running]" if cycle.stop is None else f"  {_stop(cycle.stop)}"


def _step(step: Step) -> Iterator[str]:
    if not isinstance(step, AiBlock):
        yield "  " + _line("steer>", step.message.text)
        return
    yield "  ai-block" if step.text is None else f"  {_item(step.text)}"
    for call in step.statements:
        yield f"    {_call('statement', call)}"
    for group in step.groups:
        yield f"    {group.name}"
        for call in group.calls:
            yield f"      {_call('', call)}"


def _call(kind: str, call: Call) -> str:
    status = _OPEN if call.result is None else call.result.status
    return f"{kind} {status:<{_STATUS_WIDTH}} {call_line(call.call)}".lstrip()


def _stop(stop: RunStop) -> str:
    cause = "" if (stop.reason, stop.cause) in _ORDINARY else f" ({stop.cause})"
    detail = f": {shown_line(stop.detail, WIDTH)}" if stop.detail else ""
    return f"[{stop.reason}{cause}{detail}]"


def _item(item: Item) -> str:
    match item:
        case UserMessage(text=text):
            return _line("user>", text)
        case AgentText(text=text):
            return _line("agent>", text)
        case AgentReasoning(text=text):
            return _line("reasoning>", text)
        case ToolCall():
            return f"call> {call_line(item)}"
        case ToolResult(status=status, text=text):
            return _line(f"result ({status})>", text)


def _anomaly(seq: int, kind: str, subject: str, sentence: str) -> str:
    about = f" ({shown(subject)})" if subject else ""
    return f"event {seq}, {kind}{about}: {sentence}"


def _line(head: str, text: str) -> str:
    return f"{shown(head)} {shown_line(text, WIDTH)}".rstrip()
