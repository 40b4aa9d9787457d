"""What a tool of an MCP server returns: blocks of content as the server sent them, and data where it sent some."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, cast

from ...core.text import cut_middle

SHOWN_CHARS: Final = 4_000
"""Of the text, in the repr: half from the beginning, half from the end."""


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The answer of an MCP server.

    Args:
        content: its blocks, as MCP has them: dicts with a `type` such as `text`, `image`, `resource`.
        data: the structured content of the answer; None where there is none.
    """

    content: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    data: Any = None

    @property
    def text(self) -> str:
        """Its texts, a line for each block that is none; the data as JSON where it has nothing else."""
        if not self.content and self.data is not None:
            return json.dumps(self.data, ensure_ascii=False, indent=1)
        return "\n".join(map(_text_of, self.content))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return cut_middle(self.text, SHOWN_CHARS) or "(an empty answer)"


def _text_of(block: dict[str, Any]) -> str:
    resource = block.get("resource")
    held = cast("dict[str, Any]", resource) if isinstance(resource, dict) else block
    text = held.get("text")
    if isinstance(text, str):
        return text
    kind, media = block.get("type"), held.get("mimeType")
    where = held.get("uri") or held.get("name")
    return f"[{' '.join(str(part) for part in (kind, media, where) if part)}]"
