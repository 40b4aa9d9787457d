"""`/edit`: what a person types, read as a request, and how it went."""

from __future__ import annotations

from ..errors import InvalidRequestError
from ..text import code_span
from .command import CommandContext
from .replay_commands import replay_request, replay_text
from .replay_report import EDIT_MODES, EditRequest


async def edit(context: CommandContext, argument: str) -> str:
    head, _, source = argument.partition("\n")
    asked = replay_request(head, context.timeline.cells)
    if asked.mode not in EDIT_MODES:
        raise InvalidRequestError("An edit is recorded, or `--live`.")
    report = await context.edit(EditRequest(asked.first, source, asked.last, asked.mode))
    back = f" This is branch {code_span(report.branch)} now; `/branch` lists all." if report.branch else ""
    return replay_text(report, back)
