"""Executions as text: the tool result that a model reads, and the output that an editor shows.

Pure, and derived from `ExecutionFinished` alone, so a replayed execution reads like the first run. Also the one
spelling of statements and results for models that cannot call tools.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.execution import Captured
from ...core.pictures import description
from ...core.text import fenced, printable
from ...log.events.conversation import ToolCall, ToolResult
from ...log.events.execution import ExecutionFinished

VALUE_SHARE: Final = 20
"""A value has at most as many characters as 1/20 of the context window has tokens."""
VALUE_LEAST: Final = 4_000
"""Characters of a value that every window allows."""


def value_chars(context_budget: int) -> int:
    """Return how many characters of a value are kept.

    A model reads all of them.
    """
    return max(VALUE_LEAST, context_budget // VALUE_SHARE)


def result_text(finished: ExecutionFinished) -> str:
    """Write printed output, displayed views, value and exception, in this order; "" for none."""
    return "\n".join(part for part in (output_text(finished), given_text(finished)) if part)


def shown_text(finished: ExecutionFinished) -> str:
    """Write a result for a reader who sees no pictures: with a line for each."""
    return "\n".join(part for part in (result_text(finished), *map(description, finished.pictures)) if part)


def read_text(result: ToolResult) -> str:
    """Write a result as a model reads it: its text, and a line for each picture."""
    return "\n".join([*([result.text] if result.text else []), *map(description, result.pictures)])


def output_text(finished: ExecutionFinished) -> str:
    """Write the first half of a result: printed output."""
    return printed_text(_stream(finished.stdout), _stream(finished.stderr))


def given_text(finished: ExecutionFinished) -> str:
    """Write the second half of a result: displayed views, value and exception.

    A statement that was cancelled has no traceback: where the interrupt met it tells nobody anything.
    """
    parts = [f"[{display.title}]\n{display.text}" for display in finished.displays]
    if finished.value is not None:
        parts.append(finished.markdown or finished.value)
    if finished.exception is not None and finished.status != "cancelled":
        parts.append(finished.exception.traceback or f"{finished.exception.type}: {finished.exception.message}")
    if finished.status in ("timeout", "cancelled"):
        parts.append(f"[{finished.status} after {finished.time_ms / 1000:.1f} s]")
    return "\n".join(part.rstrip("\n") for part in parts if part)


def printed_text(stdout: str, stderr: str) -> str:
    """Write printed output as at the beginning of a result; also during a run."""
    return "\n".join(part.rstrip("\n") for part in (stdout, stderr and f"[stderr]\n{stderr}") if part)


def _stream(captured: Captured) -> str:
    if not captured.total_bytes:
        return ""
    tail = (
        f"\n[... {captured.total_bytes} bytes in total; only the first 64 KiB are saved]" if captured.truncated else ""
    )
    return captured.text + tail


# --- models without tools --------------------------------------------------------------------------------------------


STATEMENT_TOOL: Final = "python"
"""The only tool of a model."""
MEDIA_TYPE: Final = "text/x-python"
OPENING: Final = f'<script type="{MEDIA_TYPE}">'
CLOSING: Final = "</script>"
REST_LEFT_OUT: Final = "Only one statement of a reply is run; the rest of this reply was left out."
"""Tells user and model that a reply contained more than its text and one statement."""
_RESULT: Final = "[Result of the statement]"


def written_call(call: ToolCall) -> str:
    """Write a call as the model's own words: the statement as a block, a tool of another program as text."""
    source = call.arguments.get("source")
    if call.tool == STATEMENT_TOOL and isinstance(source, str):
        return f"{OPENING}\n{source.removesuffix(chr(10))}\n{CLOSING}"
    return f"[Call of {printable(call.tool)}]\n{fenced(msgspec.json.encode(call.arguments).decode())}"


def written_result(text: str) -> str:
    """Write a result as a user message, in a fence that the result cannot end."""
    return f"{_RESULT}\n{fenced(text)}"


def with_note(text: str, call: ToolCall) -> str:
    """Add the sentence about an omitted rest to a call's source or result, if there was one."""
    return f"{text}\n[{REST_LEFT_OUT}]" if call.rest_left_out else text
