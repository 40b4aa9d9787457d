"""Anthropic messages: content blocks, with tool uses in assistant messages and their results in user messages.

Text beside results in one user message is a steer. Source: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import json
from typing import Final, cast

from .document import Document, Fields, Item
from .messages import joined, note_unread, parts_of, refuse_without_messages, role_of, system, text_of, think
from .writer import Reply, Writer

NAME: Final = "anthropic"
TITLE: Final = "Anthropic messages"
_ROLES: Final = ("user", "assistant", "system")
_READ: Final = frozenset(("role", "content", "id", "type", "model"))
_THINKING: Final = ("thinking", "redacted_thinking")
_USE, _RESULT = "tool_use", "tool_result"
"""How the types of calls and results end, those of the provider's own tools included."""


def recognises(document: Document) -> bool:
    """Whether it has a system prompt beside the messages, or own block types."""
    return (document.around.get("system") is not None and any("role" in item.fields for item in document.items)) or any(
        _is_own(part) for item in document.items for part in _blocks_of(item)
    )


def read(document: Document, writer: Writer) -> None:
    """Write the conversation.

    Raises:
        InvalidRequestError: an item is not a message or block. The error names its place.
    """
    refuse_without_messages(document)
    note_unread(document.around, ("system", "model", "id"), writer.report, "of the request")
    writer.system(joined(document.around.get("system"), document.name, writer.report))
    for item in document.items:
        role = role_of(item, _ROLES)
        note_unread(item.fields, _READ, writer.report)
        if role == "system":
            system(item, writer)
        elif role == "user":
            _user(item, writer)
        else:
            _assistant(item, writer)


def _user(item: Item, writer: Writer) -> None:
    texts: list[str] = []
    answers = False
    for block in parts_of(item.fields.get("content"), item.place):
        if _is_result(block):
            _result(block, item, writer)
            answers = True
        else:
            texts.append(text_of(block, writer.report))
    if texts or not answers:
        writer.user("\n".join(texts))


def _assistant(item: Item, writer: Writer) -> None:
    reply = writer.reply(item.fields.get("id"))
    for block in parts_of(item.fields.get("content"), item.place):
        kind = str(block.get("type"))
        if kind in _THINKING:
            think(block, reply, writer.report)
        elif kind.endswith(_USE):
            _call(block, reply, item)
        elif _is_result(block):
            _result(block, item, writer)
        else:
            reply.text(text_of(block, writer.report))


def _call(block: Fields, reply: Reply, item: Item) -> None:
    tool = block.get("name")
    if not isinstance(tool, str) or not tool:
        item.refuse(f"a {block['type']} block does not name a tool")
    reply.call(block.get("id"), tool, block.get("input"))


def _result(block: Fields, item: Item, writer: Writer) -> None:
    named, content = block.get("tool_use_id"), block.get("content")
    if not isinstance(named, str) or not named:
        item.refuse(f"a {block['type']} block has no tool_use_id")
    # The provider's own tools return data of many shapes. As JSON it is complete.
    own = block["type"] in (_RESULT, f"mcp_{_RESULT}")
    text = joined(content, item.place, writer.report) if own else json.dumps(content, ensure_ascii=False)
    writer.result(named, "error" if block.get("is_error") is True else "ok", text)


def _blocks_of(item: Item) -> list[Fields]:
    content = item.fields.get("content")
    return list(parts_of(cast("object", content), item.place)) if isinstance(content, list) else []


def _is_own(block: Fields) -> bool:
    kind = str(block.get("type"))
    return kind in _THINKING or kind.endswith((_USE, _RESULT)) or (kind in ("image", "document") and "source" in block)


def _is_result(block: Fields) -> bool:
    return str(block.get("type")).endswith(_RESULT)
