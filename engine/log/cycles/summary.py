"""What happened, in lines: the deterministic summary of a part of a session.

Pure over the cycles and a set of entries. Each request and each step of the agent's is one line, oldest first: what was
asked, what the agent said, which calls it made. Statements are named by their numbers alone, because the tail lists
them (`context.tail.timeline`). Must not know how long a summary may be. Called by `sessions.condenser`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ...core.cutting import cut_line
from ...core.ids import EventId, ToolCallId
from ..events.conversation import AgentText, ToolCall, UserMessage
from .model import Cycles, Item, RequestCycle
from .steps import AiBlock, Call, UserStep, steps_of

LINE_CHARS: Final = 240
"""A line is cut after so many characters."""

Numbers = Mapping[ToolCallId, int]
_Told = str | int
"""A line, or a statement by its number."""


def summary_lines(cycles: Cycles, entries: Collection[EventId], numbers: Numbers) -> tuple[str, ...]:
    """One line for each of the `entries` that says something, in log order.

    Args:
        cycles: the whole session's.
        entries: ids of events; results count with their calls.
        numbers: those of the statements, by their calls.
    """
    lines: list[_Told] = []
    for cycle in cycles.cycles:
        part = replace(cycle, items=_within(cycle.items, entries), late=())
        if part.items or cycle.root.event_id in entries:
            lines += _cycle_lines(part, cycle.root.event_id in entries, numbers)
    for item in _within(cycles.strays, entries):
        lines += _stray_lines(item)
    return tuple(_lines(lines))


def _lines(told: Iterable[_Told]) -> Iterator[str]:
    """The lines; statements whose numbers follow each other share one."""
    run: list[int] = []
    for each in told:
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


def _cycle_lines(cycle: RequestCycle, with_root: bool, numbers: Numbers) -> list[_Told]:
    lines: list[_Told] = []
    for step in steps_of(cycle)[0 if with_root else 1 :]:
        match step:
            case UserStep(step=kind, message=message):
                lines.append(
                    _line("The user said meanwhile: " if kind == "steer" else "The user asked: ", message.text)
                )
            case AiBlock():
                lines += _block_lines(step, numbers)
    return lines


def _block_lines(block: AiBlock, numbers: Numbers) -> list[_Told]:
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
