"""What the message lists of all providers have in common: roles, thinking blocks, fields that are not read.

Must not know which provider it is. Used by every format.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, cast

from ....core.text import cut_line
from ....log.events.conversation import ThinkingBlock
from .document import Document, Fields, Item
from .parts import joined
from .report import Report
from .writer import Reply, Writer

REDACTED: Final = "[redacted thinking]"
_NAME_CHARS: Final = 80
_THINKER: Final = "anthropic"
"""Whose signatures the blocks named `thinking` carry, through whatever program they came."""


def role_of(item: Item, roles: Sequence[str]) -> str:
    """The message's role. Raises InvalidRequestError unless it is one of `roles`."""
    role = item.fields.get("role")
    if role not in roles:
        said = "it has no role" if role is None else f"its role is {cut_line(str(role), _NAME_CHARS)!r}"
        item.refuse(f"{said}; known are {', '.join(roles)}")
    return str(role)


def note_unread(fields: Fields, read: Collection[str], report: Report, where: str = "fields") -> None:
    """Counts the fields that hold something and are not read."""
    for key, value in fields.items():
        if key not in read and value is not None and value is not False and value not in ("", [], {}):
            report.ignored[f"{cut_line(key, _NAME_CHARS)} {where}"] += 1


def system(item: Item, writer: Writer) -> None:
    """A system message: a prompt where it comes first, else a message that says what it is."""
    text = joined(item.fields.get("content"), item.place, writer.report)
    if not writer.begun:
        writer.system(text)
        return
    writer.report.noted["later system messages, as messages of the user"] += 1
    writer.user(f"[system] {text}")


def think(block: Fields, reply: Reply, report: Report) -> None:
    """A block of the types `thinking` and `redacted_thinking`."""
    if block.get("type") == "redacted_thinking":
        report.noted["redacted thinking blocks"] += 1
        reply.reasoning(REDACTED)
        return
    text, signature = block.get("thinking"), block.get("signature")
    if not isinstance(text, str):
        text = ""
    if isinstance(signature, str) and signature:
        reply.thinking(ThinkingBlock(text=text, signature=signature, provider=_THINKER))
    elif text:
        reply.thinking(ThinkingBlock(text=text))


def think_aloud(fields: Fields, reply: Reply, report: Report) -> None:
    """The reasoning of a message as gateways keep it: `thinking_blocks`, and beside them, or alone, as a text."""
    listed = fields.get("thinking_blocks")
    members = cast("list[object]", listed) if isinstance(listed, list) else []
    blocks = [cast("Fields", block) for block in members if isinstance(block, dict)]
    for block in blocks:
        think(block, reply, report)
    known = [block.get("thinking") for block in blocks]
    for key in ("reasoning_content", "reasoning"):
        text = fields.get(key)
        if isinstance(text, str) and text and text not in known and text != "".join(map(str, known)):
            reply.reasoning(text)
            known.append(text)


def refuse_without_messages(document: Document) -> None:
    """Raises InvalidRequestError for an empty list."""
    if not document.items:
        Item(document.name, {}).refuse("there is no message in it")
