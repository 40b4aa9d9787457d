"""How an error reads on the command line: one rule for all of them, which hold for errors of the engine as well.

A complaint is a line that begins with the program's name. A single sentence has no full stop at its end, as is usual
there; of several each has one. Called by all commands.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar

import typer

from ..core.text import cut_line, visible

Choice = TypeVar("Choice", bound=str)
_SHOWN_CHARS: Final = 60


def complaint(error: object) -> str:
    """The line, without a newline at its end."""
    text = visible(str(error))
    sentence = text.removesuffix(".")
    is_single = ". " not in sentence and not sentence.endswith(".")
    return f"rewindow: {sentence if is_single else text}"


def chosen(option: str, given: str, choices: Collection[Choice]) -> Choice:
    """The choice that `given` is. Raises typer.BadParameter where it is none of these two or more."""
    for choice in choices:
        if choice == given:
            return choice
    *most, last = choices
    shown = cut_line(visible(given), _SHOWN_CHARS)
    raise typer.BadParameter(f"{option} must be {', '.join(most)} or {last}, not {shown!r}")
