"""How an error reads on the command line: one rule for all of them, which hold for errors of the engine as well.

A complaint is a line that begins with the program's name. A single sentence has no full stop at its end, as is usual
there; of several each has one. Called by all commands.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import typer

from ..cutting import cut_line
from ..text import visible

_SHOWN_CHARS: Final = 60


def complaint(error: object) -> str:
    """The line, without a newline at its end."""
    text = visible(str(error))
    sentence = text.removesuffix(".")
    is_single = ". " not in sentence and not sentence.endswith(".")
    return f"rewindow: {sentence if is_single else text}"


def check_choice(option: str, given: str, choices: Collection[str]) -> None:
    """Raises typer.BadParameter where `given` is none of the choices, of which there are at least two."""
    if given not in choices:
        *most, last = choices
        shown = cut_line(visible(given), _SHOWN_CHARS)
        raise typer.BadParameter(f"{option} must be {', '.join(most)} or {last}, not {shown!r}")
