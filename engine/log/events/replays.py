"""Statements that ran again on purpose, and what came out differently when they did."""

from __future__ import annotations

from typing import ClassVar, Literal

from ...core.execution import Aspect, ReplayMode, StatementNumber
from ...core.ids import ExecutionId
from .base import Event

ReplayOutcome = Literal["completed", "failed", "cancelled", "interrupted"]
"""`failed`: a timeout, a lost worker or a rejected statement ended it. `interrupted`: the whole program ended first."""


class ReplayBegun(Event, frozen=True, kw_only=True):
    """The statements `first` to `last`, by their numbers, are about to run again; `statements` of them can.

    Of a `live` replay the executions count from now on, unless it ends otherwise than completed.
    """

    kind: ClassVar[str] = "replay_begun"

    first: int
    last: int
    mode: ReplayMode
    statements: int


class EditBegun(Event, frozen=True, kw_only=True):
    """Another source is about to run in the place of statement `first`, then what came behind it, up to `last`.

    On the branch of that, whose first event it is but for the command; `statements` run, as new ones. It is over with
    the end of its run.
    """

    kind: ClassVar[str] = "edit_begun"

    first: int
    last: int
    statements: int


class Diverged(Event, frozen=True, kw_only=True):
    """In one aspect the execution came out otherwise than `against`, the earlier one of the same statement.

    `statement` is the number of that. `before` and `after` are what each came to, in a few words; empty is nothing.
    The record of the execution, which comes after it, is to be read with it.
    """

    kind: ClassVar[str] = "diverged"

    execution_id: ExecutionId
    against: ExecutionId
    statement: StatementNumber
    aspect: Aspect
    before: str
    after: str


class ReplayEnded(Event, frozen=True, kw_only=True):
    """The replay that had begun is over. Where it is not `completed`, everything is as before it; `detail` says why."""

    kind: ClassVar[str] = "replay_ended"

    outcome: ReplayOutcome
    detail: str = ""


ReplayEvent = ReplayBegun | EditBegun | Diverged | ReplayEnded
