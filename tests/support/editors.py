"""What three kinds of editors show of a call, or of the question whether it may run: pure functions over its fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

Call = dict[str, Any]


def title_alone(call: Call) -> str:
    """A terminal that asks on one line."""
    return " ".join(call["title"].split())


def content_alone(call: Call) -> str:
    """An editor that draws the content as Markdown, and nothing else."""
    return "\n".join(_block(block) for block in call.get("content", ()))


def everything(call: Call) -> str:
    """Title, content, and the raw input as it came."""
    return "\n".join([call["title"], content_alone(call), *_given(call["rawInput"])])


EDITORS: Final[dict[str, Callable[[Call], str]]] = {
    "title": title_alone,
    "content": content_alone,
    "everything": everything,
}


def _given(raw: dict[str, Any]) -> list[str]:
    return [str(raw[key]) for key in ("command", "path", "cwd") if key in raw]


def _block(block: dict[str, Any]) -> str:
    return _diff(block) if block["type"] == "diff" else _drawn(block["content"]["text"])


def _diff(block: dict[str, Any]) -> str:
    """A diff as a person sees it: the name of the file, and both texts without what has no shape of its own."""
    old, new = block["oldText"], block["newText"]
    sides = [("-", "" if old is None else old), ("+", new)]
    rows = [f"{sign}{_seen(line)}" for sign, text in sides for line in text.split("\n")[:-1] or [text] if text]
    return "\n".join([f"~~~ {_seen(block['path'].rpartition('/')[2])}", *rows, "~~~"])


def _seen(line: str) -> str:
    return "".join(char for char in line if char.isprintable() or char == "\t")


def _drawn(markdown: str) -> str:
    """Markdown as it is seen: what stands in a fence between two lines of it, anything else as one paragraph."""
    block = re.fullmatch(r"(`{3,})(\w*)\n(.*)\n\1", markdown, re.DOTALL)
    if block is None:
        return " ".join(markdown.split())
    fence, language, text = block.groups()
    inside = [line for line in text.split("\n") if re.fullmatch(rf" {{0,3}}`{{{len(fence)},}} *", line)]
    assert not inside, "the text ends its own fence"
    return f"--- {language}\n{text}\n---"
