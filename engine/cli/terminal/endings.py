"""How turns and commands ended, in words, and whether a value only says again what a command printed. Pure."""

from __future__ import annotations

import signal
from typing import Final

from ...log.events.conversation import RunStop, StopCause
from ...log.events.execution import CommandEnded, ExecutionFinished

_STOPS: Final[dict[StopCause, str]] = {
    "cancelled": "cancelled",
    "max_tokens": "the reply was cut: it reached the length that the model allows",
    "max_turn_requests": "stopped: as many model calls as one turn may have (max_rounds)",
    "refusal": "the model refused to answer",
    "error": "error",
}
_COMPARED_CHARS: Final = 1_500
"""Of the output, less than the half that a value shows of a long one."""


def turn_ending(event: RunStop) -> str:
    """How the turn ended, and why."""
    return f"[{_STOPS[event.cause]}{f': {event.detail}' if event.detail else ''}]"


def cancelled_after(event: ExecutionFinished) -> str:
    """That a statement was cancelled, in one line."""
    return f"[cancelled after {event.time_ms / 1000:.1f} s]"


def ending(event: CommandEnded) -> str:
    """How the command ended; empty where that is well."""
    if event.timed_out:
        return f"[timed out after {event.time_ms / 1000:.1f} s]"
    if event.reason:
        return f"[ended: {event.reason}]"
    if event.signal is not None:
        return f"[killed by {_name(event.signal)}]"
    return f"[exit code {event.code}]" if event.code else ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a log from elsewhere may hold any number
        return f"signal {number}"


def repeats(value: str | None, output: str) -> bool:
    """Whether the value is that of the command which printed `output`: it begins with the same."""
    head = output.rstrip("\n")[:_COMPARED_CHARS]
    return value is not None and bool(head) and value.startswith(head)
