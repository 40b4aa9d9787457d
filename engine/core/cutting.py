"""Texts that are too long for their place, and the words that stand for what is missing: one spelling for all of them.

Within a line an ellipsis marks the cut. Between lines a line counts what is missing: `... 3 more handles` at the end of
a list, `... 90 characters left out ...` between two ends. Lengths are in characters. What is cut to a budget of tokens
is measured by its own module and takes the words from here. Pure; imports nothing of the engine.
"""

from __future__ import annotations

from typing import Final

ELLIPSIS: Final = "…"
"""Stands for the rest of a line."""
DOTS: Final = "..."
"""Stands for lines where there is no room to count them; begins every line that counts."""


def cut_line(text: str, limit: int) -> str:
    """The text within `limit` characters (1 or more), the last of them an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS


def cut_line_from(text: str, start: int, limit: int) -> str:
    """The text from `start` on within `limit` characters (2 or more), with an ellipsis at each end that is missing."""
    return cut_line(text, limit) if start <= 0 else ELLIPSIS + cut_line(text[start:], limit - 1)


def cut_end(text: str, limit: int, where: str = "") -> str:
    """The first `limit` characters, and a line that counts the others, so the result is longer by that line.

    Args:
        where: goes after the count: where the rest is to be found.
    """
    return text if len(text) <= limit else f"{text[:limit]}\n{more(len(text) - limit, 'character', where)}"


def cut_middle(text: str, limit: int) -> str:
    """Both ends, `limit` characters together, and between them a line that counts the others."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return text[:half] + between(len(text) - 2 * half) + text[len(text) - half :]


def more(count: int, noun: str = "", where: str = "") -> str:
    """The line at the end of what is cut: `... 3 more handles`. Without a newline.

    Args:
        noun: what is counted, in the singular.
    """
    return " ".join(part for part in (DOTS, str(count), "more", plural(count, noun), where) if part)


def between(count: int, reason: str = "", noun: str = "character") -> str:
    """The line between two ends, with its newlines: `... 90 characters left out ...`, the reason after a comma."""
    return f"\n{DOTS} {left_out(count, noun)}{reason and f', {reason}'} {DOTS}\n"


def left_out(count: int, noun: str = "character") -> str:
    """The words for what is missing: `90 characters left out`."""
    return f"{count} {plural(count, noun)} left out"


def plural(count: int, noun: str) -> str:
    """The noun as so many have it; empty where it is."""
    if count == 1 or not noun:
        return noun
    return f"{noun}es" if noun.endswith(("ch", "s", "sh", "x")) else f"{noun}s"
