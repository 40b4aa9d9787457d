"""Chat completions: `role` and `content`, `tool_calls` with JSON text as arguments, and results as separate messages.

Also reads the variants of gateways and older programs: `reasoning_content`, `thinking_blocks`, `function_call`, and
results without an id. Source: https://platform.openai.com/docs/api-reference/chat/create (messages).
"""

from __future__ import annotations

from typing import Any, Final, cast

from .document import Document, Fields, Item
from .messages import joined, note_unread, parts_of, refuse_without_messages, role_of, system, text_of, think_aloud
from .writer import Reply, Writer

NAME: Final = "openai"
TITLE: Final = "OpenAI chat completions"
_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
_READ: Final = frozenset(
    (
        *("role", "content", "tool_calls", "function_call", "tool_call_id", "refusal", "audio", "id", "tool_name"),
        *("reasoning_content", "reasoning", "thinking_blocks"),
    )
)


def recognises(document: Document) -> bool:
    """Whether it is a list of messages. The other formats are tried first."""
    return any("role" in item.fields for item in document.items)


def read(document: Document, writer: Writer) -> None:
    """Write the conversation.

    Raises:
        InvalidRequestError: an item is not a message. The error names its place.
    """
    refuse_without_messages(document)
    note_unread(document.around, ("system", "model", "id"), writer.report, "of the request")
    for part in parts_of(document.around.get("system"), document.name):
        writer.system(text_of(part, writer.report))
    for item in document.items:
        role = role_of(item, _ROLES)
        note_unread(item.fields, _READ | {"name"} if role == "function" else _READ, writer.report)
        match role:
            case "system" | "developer":
                system(item, writer)
            case "user":
                writer.user(joined(item.fields.get("content"), item.place, writer.report))
            case "assistant":
                _assistant(item, writer)
            case _:
                _result(item, writer)


def _assistant(item: Item, writer: Writer) -> None:
    fields, reply = item.fields, writer.reply()
    think_aloud(fields, reply, writer.report)
    reply.text(joined(fields.get("content"), item.place, writer.report))
    refusal = fields.get("refusal")
    if isinstance(refusal, str):
        reply.text(refusal)
    if isinstance(fields.get("audio"), dict):
        reply.text(text_of({**fields["audio"], "type": "audio"}, writer.report))
    calls = fields.get("tool_calls")
    if not isinstance(calls, (list, type(None))):
        item.refuse("tool_calls is not a list")
    for number, call in enumerate(cast("list[object]", calls or ()), 1):
        _call(call, reply, item, f"tool call {number}")
    if fields.get("function_call") is not None:
        _call({"function": fields["function_call"]}, reply, item, "its function_call")


def _call(call: object, reply: Reply, item: Item, what: str) -> None:
    fields = cast("Fields", call) if isinstance(call, dict) else {}
    inner: Any = fields.get("function") or fields.get("custom") or fields
    function = cast("Fields", inner) if isinstance(inner, dict) else {}
    tool = function.get("name")
    if not isinstance(tool, str) or not tool:
        item.refuse(f"{what} does not name a function")
    reply.call(fields.get("id"), tool, function.get("arguments", function.get("input")))


def _result(item: Item, writer: Writer) -> None:
    fields = item.fields
    named = fields.get("tool_call_id")
    text = joined(fields.get("content"), item.place, writer.report)
    tool = fields.get("name") if fields["role"] == "function" else fields.get("tool_name")
    if not writer.result(named if isinstance(named, str) else None, "ok", text, tool):
        item.refuse("tool_call_id is missing, and no tool call is open")
