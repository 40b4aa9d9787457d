"""An execution as text: what the model reads as the tool's result, and what the editor shows as its output.

Pure and derived from `ExecutionFinished` alone, so that a replayed execution reads like a first one.
"""

from __future__ import annotations

from typing import Final

from ...core.execution import Captured
from ...log.events.execution import ExecutionFinished

VALUE_SHARE: Final = 20
"""A value has as many characters as this part of the context window has tokens: one of 20, so it never fills more."""
VALUE_LEAST: Final = 4_000
"""Characters that a value may have in any window."""


def value_chars(context_budget: int) -> int:
    """How many characters of a statement's value are kept, of which a model reads all."""
    return max(VALUE_LEAST, context_budget // VALUE_SHARE)


def result_text(finished: ExecutionFinished) -> str:
    """Printed output, displayed views, the value, and the exception, in that order; "" for nothing at all."""
    return "\n".join(part for part in (output_text(finished), given_text(finished)) if part)


def output_text(finished: ExecutionFinished) -> str:
    """The first half of a result: what was printed."""
    return printed_text(_stream(finished.stdout), _stream(finished.stderr))


def given_text(finished: ExecutionFinished) -> str:
    """The second half of a result: displayed views, the value, and the exception."""
    parts = [f"[{display.title}]\n{display.text}" for display in finished.displays]
    if finished.value is not None:
        parts.append(finished.value)
    if finished.exception is not None:
        parts.append(finished.exception.traceback or f"{finished.exception.type}: {finished.exception.message}")
    if finished.status in ("timeout", "cancelled"):
        parts.append(f"[{finished.status} after {finished.time_ms / 1000:.1f} s]")
    return "\n".join(part.rstrip("\n") for part in parts if part)


def printed_text(stdout: str, stderr: str) -> str:
    """What was printed, as it stands at the beginning of a result; also while there is more to come."""
    return "\n".join(part.rstrip("\n") for part in (stdout, stderr and f"[stderr]\n{stderr}") if part)


def _stream(captured: Captured) -> str:
    if not captured.total_bytes:
        return ""
    tail = f"\n[... {captured.total_bytes} bytes in all, the first 64 KiB are kept]" if captured.truncated else ""
    return captured.text + tail
