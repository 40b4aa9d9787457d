"""Text with the style it is shown in, and the escape sequences that a terminal draws it with.

A style is a name for what a text is; how it looks is decided here alone. Texts in fragments hold no control character
but newline and tab: whoever makes one of a text from elsewhere makes its controls visible first. Pure.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Final

Fragment = tuple[str, str]
"""A style and a text."""

LOOK: Final = "look:"
"""Begins a style that is itself the parameters of an escape sequence; only what renders Markdown makes one."""
_LOOKS: Final = {
    "quiet": "2",
    "strong": "1",
    "user": "1",
    "thinking": "2;3",
    "stderr": "33",
    "error": "31",
    "notice": "33",
    "added": "32",
    "removed": "31",
    "place": "36",
    "code": "36",
    "keyword": "35",
    "string": "32",
    "number": "36",
    "comment": "2",
    "defined": "34",
}
"""The parameters of the escape sequence (SGR) by style; any other style is shown as it is."""


def painted(fragments: Iterable[Fragment], in_colour: bool) -> str:
    """The fragments as one text for a terminal; without any escape sequence where `in_colour` is False."""
    return "".join(_painted(_look(style) if in_colour else None, text) for style, text in fragments)


def _look(style: str) -> str | None:
    return style.removeprefix(LOOK) if style.startswith(LOOK) else _LOOKS.get(style)


def _painted(look: str | None, text: str) -> str:
    if look is None:
        return text
    # Line by line, so that a look that stays behind on a terminal ends with its line.
    lines = text.split("\n")
    return "\n".join(f"\x1b[{look}m{line}\x1b[0m" if line else "" for line in lines)


def indented(fragments: Iterable[Fragment], indent: str, at_start: bool) -> list[Fragment]:
    """The fragments with `indent` before each line that holds something.

    Args:
        at_start: whether the first of them begins a line.
    """
    result: list[Fragment] = []
    for style, text in fragments:
        for line in io.StringIO(text, newline="\n"):
            if at_start and line != "\n":
                result.append(("", indent))
            result.append((style, line))
            at_start = line.endswith("\n")
    return result
