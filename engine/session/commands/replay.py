"""`/replay`: what a person types, read as a request, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from ...context.tail.feed import divergence_phrase
from ...core.errors import InvalidRequestError
from ...core.execution import ReplayMode
from ...core.text import code_span, cut_line, more, plural, printable
from ...log.timeline import Cell
from ..past.numbered import no_statement, number_in
from ..past.replay_report import ReplayReport, ReplayRequest
from .command import CommandContext

MODES: Final[tuple[ReplayMode, ...]] = ("recorded", "live", "dry")
"""The first is what counts where none is given."""
_HOW: Final[dict[ReplayMode, str]] = {
    "recorded": "with the recorded answers to what they ask for",
    "live": "with their effects",
    "dry": "as far as the first that asks for an effect",
}
_SHOWN: Final = 50
"""Divergences in one report."""
_SHOWN_CHARS: Final = 40


async def replay(context: CommandContext, argument: str) -> str:
    return replay_text(await context.replay(replay_request(argument, context.timeline.cells)))


def replay_request(argument: str, cells: Sequence[Cell], known: Sequence[ReplayMode] = MODES) -> ReplayRequest:
    """`K [J]` and perhaps one of the `known` modes, as in `--live`, in any order. Raises InvalidRequestError."""
    words = argument.split()
    modes = [word[2:] for word in words if word.startswith("--")]
    numbers = [word for word in words if not word.startswith("--")]
    for mode in modes:
        if mode not in known:
            ways = ", ".join(f"`--{each}`" for each in known)
            raise InvalidRequestError(f"{_shown(f'--{mode}')} is no option of it; there are {ways}.")
    if len(numbers) not in (1, 2) or len(modes) > 1:
        raise InvalidRequestError(
            "Give the number of a statement, optionally that of a later one, and at most one mode."
        )
    first, *last = (_number(cells, word) for word in numbers)
    mode = cast("ReplayMode", modes[0]) if modes else "recorded"
    return ReplayRequest(first, last[0] if last else None, mode)


def _number(cells: Sequence[Cell], word: str) -> int:
    found = number_in(word)
    if found is None:
        raise InvalidRequestError(no_statement(cells, word))
    return found


def _shown(word: str) -> str:
    return f"'{cut_line(printable(word), _SHOWN_CHARS)}'"


def replay_text(report: ReplayReport, conclusion: str = "") -> str:
    """How it went, in Markdown: a sentence, and a list of what came out differently. `conclusion` follows the first."""
    said = [
        f"statement {each.statement}: {code_span(printable(divergence_phrase(each)))}" for each in report.divergences
    ]
    left = len(said) - _SHOWN
    said = [*said[:_SHOWN], *([more(left, "divergence")] if left > 0 else ()), *report.not_run]
    return "\n".join([_heading(report) + conclusion, *(f"- {sentence}" for sentence in said)])


def _heading(report: ReplayReport) -> str:
    ran, differ = len(report.executions), len({each.execution_id for each in report.divergences})
    found = f"{differ} came out differently" if differ else "none came out differently"
    end = "" if report.outcome == "completed" else " It ended early."
    detail = f" {report.detail[:1].upper()}{report.detail[1:]}." if report.detail else ""
    state = "what came of that" if report.is_kept else "as it was"
    again = f"{ran} {plural(ran, 'statement')} ran again, {_HOW[report.mode]}: {found}."
    return f"{again}{end}{detail} The namespace is {state}."
