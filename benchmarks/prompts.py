"""What a model read, from the bodies that a server of chat completions received, and how much of it stayed the same.

A provider keeps what a prompt has in common with the one before from the first token on, and bills it at a tenth.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from engine.core.tokens import count


def text_of(body: dict[str, Any]) -> str:
    """The messages as one text, in the order in which they are sent."""
    return "".join(
        f"{message['role']}: {message.get('content') or ''}{json.dumps(message.get('tool_calls') or '')}\n"
        for message in body["messages"]
    ).removesuffix('""\n')


def tools_of(body: dict[str, Any]) -> str:
    """The tools as one text, which providers put in front of the messages; empty where there are none."""
    return json.dumps(body["tools"]) if body.get("tools") else ""


def shared_tokens(texts: Sequence[str]) -> int:
    """Tokens that each text has in common with the one before, from the first on."""
    return sum(count(_prefix(before, text)) for before, text in pairwise(texts))


def _prefix(before: str, text: str) -> str:
    pairs = zip(before, text, strict=False)
    return text[: next((at for at, (old, new) in enumerate(pairs) if old != new), min(len(before), len(text)))]
