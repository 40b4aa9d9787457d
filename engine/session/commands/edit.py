"""`/edit`: what a person types, read as a request, and how it went."""

from __future__ import annotations

from typing import cast

from ...core.text import code_span
from ..past.replay_report import EDIT_MODES, EditMode, EditRequest
from .command import CommandContext
from .replay import replay_request, replay_text


async def edit(context: CommandContext, argument: str) -> str:
    head, _, source = argument.partition("\n")
    asked = replay_request(head, context.timeline.cells, EDIT_MODES)
    report = await context.edit(EditRequest(asked.first, source, asked.last, cast("EditMode", asked.mode)))
    back = f" This is branch {code_span(report.branch)} now; `/branch` lists all." if report.branch else ""
    return replay_text(report, back)
