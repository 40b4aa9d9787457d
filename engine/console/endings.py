"""How a command ended, in words, and whether a statement's value only says again what a command printed. Pure."""

from __future__ import annotations

import signal
from typing import Final

from ..events.execution import CommandEnded

_COMPARED_CHARS: Final = 1_500
"""Of the output, less than the half that a value shows of a long one."""


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
