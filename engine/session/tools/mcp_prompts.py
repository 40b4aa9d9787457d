"""An MCP server's prompts as slash commands: their names and arguments, and the text that a model reads of an answer.

The data is untrusted: names, lists and texts are limited. What a server embeds in a prompt gets an address of that
server, so it is never taken for a file. Pure. Takes MCP's plain data, so it does not import the SDK. Used by
`mcp_listing` and `servers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from ...core.mcp_servers import address_of
from ...core.text import cut_end, cut_line, legible_line, valid_text
from ...core.toolbox import numbered
from ...log.events.conversation import Attachment

MOST_PROMPTS: Final = 200
"""Prompts of one server that are listed."""
TEXT_CHARS: Final = 40_000
"""Characters of a prompt's texts together, and of each text that it embeds."""
LEFT_OUT: Final = "[{kind} left out]"
_MOST_EMBEDDED: Final = 20
_MOST_ARGUMENTS: Final = 50
_NAME_CHARS: Final = 64
_ABOUT_CHARS: Final = 1_000
_URI_CHARS: Final = 2_000
_OTHER: Final = re.compile(r"[^\w.-]+")


class PromptArgument(Struct, frozen=True):
    """An argument by its name at the server."""

    name: str
    required: bool


class Prompt(Struct, frozen=True):
    """A prompt: its name in commands and at the server, and its arguments in the order of their declaration."""

    name: str
    key: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def usage(self) -> str:
        """The arguments in words; optional ones are in brackets."""
        shown = (cut_line(legible_line(each.name), _NAME_CHARS) for each in self.arguments)
        return " ".join(
            name if each.required else f"[{name}]" for name, each in zip(shown, self.arguments, strict=True)
        )


def prompts_of(found: Sequence[Mapping[str, Any]]) -> dict[str, Prompt]:
    """Return the prompts by their names in commands. Invalid ones are left out."""
    prompts: dict[str, Prompt] = {}
    for each in found[:MOST_PROMPTS]:
        key = each.get("name")
        if not isinstance(key, str) or not key:
            continue
        spelled = _OTHER.sub("_", key).strip("_")
        name = numbered(spelled if 0 < len(spelled) <= _NAME_CHARS else "prompt", prompts)
        about = each.get("description") or each.get("title")
        prompts[name] = Prompt(name, key, _line(about), tuple(_arguments(each.get("arguments"))))
    return prompts


def _arguments(found: object) -> list[PromptArgument]:
    given = cast("list[object]", found)[:_MOST_ARGUMENTS] if isinstance(found, list) else []
    named = [(each.get("name"), each.get("required") is True) for each in map(_object, given)]
    return [PromptArgument(name, required) for name, required in named if isinstance(name, str) and name]


def bound(prompt: Prompt, words: Sequence[str]) -> dict[str, str]:
    """Return the arguments by name, from the words that a person typed.

    A word `name=value` is the argument of that name. Other words are the remaining arguments in their order; the last
    argument gets the rest.

    Raises ValueError with a sentence: there are too many or too few.
    """
    names = [each.name for each in prompt.arguments]
    given: dict[str, str] = {}
    rest: list[str] = []
    for word in words:
        name, sign, value = word.partition("=")
        if sign and name in names and name not in given:
            given[name] = value
        else:
            rest.append(word)
    free = [name for name in names if name not in given]
    if rest and not free:
        raise ValueError(f"the prompt takes no further argument: {cut_line(rest[0], _NAME_CHARS)!r}")
    if len(rest) > len(free):
        rest[len(free) - 1 :] = [" ".join(rest[len(free) - 1 :])]
    given.update(zip(free, rest, strict=False))
    missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
    if missing:
        raise ValueError(f"the prompt needs {', '.join(missing)}")
    return given


def read_prompt(messages: Sequence[Mapping[str, Any]], module: str) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a server's answer, and the texts that it embeds. Both are empty if it has nothing to read."""
    attachments: list[Attachment] = []
    texts: list[tuple[str, str]] = []
    for message in messages:
        text = _block(_object(message.get("content")), module, attachments)
        if text:
            texts.append(("Assistant" if message.get("role") == "assistant" else "User", text))
    is_dialogue = any(role == "Assistant" for role, _ in texts)
    parts = [f"{role}:\n{text}" if is_dialogue else text for role, text in texts]
    return cut_end("\n\n".join(parts), TEXT_CHARS), tuple(attachments)


def _block(block: Mapping[str, Any], module: str, attachments: list[Attachment]) -> str:
    kind = block.get("type")
    if kind == "text":
        return valid_text(str(block.get("text", "")))
    if kind == "resource_link":
        uri = _uri(block)
        return f"[{_line(block.get('name')) or 'resource'}]({address_of(module, uri)})" if uri else _left_out(kind)
    resource = _object(block.get("resource"))
    uri, text, media = _uri(resource), resource.get("text"), resource.get("mimeType")
    if not uri or not isinstance(text, str) or len(attachments) == _MOST_EMBEDDED:
        return _left_out(kind)
    attachments.append(
        Attachment(
            uri=address_of(module, uri),
            name=_line(uri.rstrip("/").rpartition("/")[2]) or "resource",
            media_type=media if isinstance(media, str) else None,
            text=cut_end(valid_text(text), TEXT_CHARS),
        )
    )
    return ""


def _left_out(kind: object) -> str:
    return LEFT_OUT.format(kind=_line(kind) or "content")


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _uri(block: Mapping[str, Any]) -> str:
    """Return the URI of a resource; "" if it cannot be part of a line."""
    uri = block.get("uri")
    return uri if isinstance(uri, str) and len(uri) <= _URI_CHARS and uri.isprintable() else ""


def _line(value: object) -> str:
    text = legible_line(" ".join(valid_text(value).split())) if isinstance(value, str) else ""
    return cut_line(text, _ABOUT_CHARS)
