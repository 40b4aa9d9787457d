"""A statement as the worker is asked for it, live or in a replay.

Must not know when it is sent, nor what comes of it. Used by `statement_run` for one, and by `ahead` for a stretch.
"""

from __future__ import annotations

from msgspec import Struct

from ..log.statements import RunRequest
from .worker.protocol import Answer, Look, Run


class Recording(Struct, frozen=True, kw_only=True):
    """What a statement of a replay is given, as fields of `Run`."""

    answers: tuple[Answer, ...] = ()
    revisions: tuple[Look, ...] | None = ()
    after_reading: bool = False
    ticks: tuple[float, ...] = ()


def run_message(request: RunRequest, recording: Recording | None, *, after_reading: bool) -> Run:
    """The request as the worker takes it."""
    return Run(
        execution_id=request.execution_id,
        label=request.label,
        source=request.source,
        round_id=request.round_id,
        index=request.index,
        recorded=None if recording is None else recording.answers,
        revisions=None if recording is None else recording.revisions,
        plan=request.plan,
        answered=request.answered,
        after_reading=after_reading,
        ticks=() if recording is None else recording.ticks,
        keeps=request.keeps,
    )
