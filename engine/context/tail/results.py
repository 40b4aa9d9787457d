"""An execution as text: what the model reads as the tool's result, and what the editor shows as its output.

Pure and derived from `ExecutionFinished` alone, so that a replayed execution reads like a first one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.execution import Captured
from ...core.text import fenced, printable
from ...log.events.conversation import ToolCall
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


# written:
# How statements stand in text, for models that cannot call tools: the cell as a block, what came of it in a fence.
#
# One spelling for what a model is told to write, for what it reads of its earlier statements, and for what that
# costs. Pure. Called by `instructions`, `prompt` and the models.

STATEMENT_TOOL: Final = "python"
"""The one tool that a model has."""
MEDIA_TYPE: Final = "text/x-python"
OPENING: Final = f'<script type="{MEDIA_TYPE}">'
CLOSING: Final = "</script>"
REST_LEFT_OUT: Final = "Only one statement of a reply is run; the rest of this reply was left out."
"""What user and model are told where a reply held more than its text and one statement."""
_RESULT: Final = "[Result of the statement]"


def written_call(call: ToolCall) -> str:
    """What the model reads as its own words: the cell as a block; a call of another program's tool as what it was."""
    source = call.arguments.get("source")
    if call.tool == STATEMENT_TOOL and isinstance(source, str):
        return f"{OPENING}\n{source.removesuffix(chr(10))}\n{CLOSING}"
    return f"[Call of {printable(call.tool)}]\n{fenced(msgspec.json.encode(call.arguments).decode())}"


def written_result(text: str) -> str:
    """What the model reads as the user's message, in a fence that nothing in the result can end."""
    return f"{_RESULT}\n{fenced(text)}"


def with_note(text: str, call: ToolCall) -> str:
    """A text of the call, its source or its result, with the sentence on what was left out of its reply, if so."""
    return f"{text}\n[{REST_LEFT_OUT}]" if call.rest_left_out else text
