"""What a slash command is, and what it works on. The commands themselves are rows of `commands`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from ...log.timeline import Cell
from ..requests import ActiveRequest, PastRequest, PastResult
from ..session_runtime import SessionRuntime


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What a command works on: the session's runtime, and the request that the command itself is."""

    runtime: SessionRuntime
    active: ActiveRequest

    @property
    def cells(self) -> Sequence[Cell]:
        """The statements of the active branch, oldest first."""
        return self.runtime.cells

    async def perform(self, request: PastRequest) -> PastResult:
        """As `SessionRuntime.perform`."""
        return await self.runtime.perform(request, self.active)

    @property
    def as_of(self) -> str:
        """The heading of what is answered while a turn runs, from what is known already."""
        cells = reversed(self.cells)
        done = next((cell.statement.index for cell in cells if cell.finished is not None), None)
        return f"As of statement {done}; a turn is running." if done else "As of the beginning; a turn is running."


CommandRun = Callable[[CommandContext, str], Awaitable[str]]
"""Carries a command out on its argument; the answer."""


class Command(Struct, frozen=True):
    """One slash command. `usage` is its argument as `/help` spells it and `hint` in words, empty where it takes none.

    `takes` says what may be completed: the numbers of statements, that of a model call, names of branches, Python, or
    the numbers and on the next lines Python.
    `glance` answers while a turn is running, from what is known already; None where it has to wait for its turn. Where
    `run` is None the argument is a statement, which the session runs as the user's own. One that `moves_head` is on the
    log where it leads: its message follows the move, or, where it made none, comes ahead of its answer. One
    that is `torn` by a cancel may be ended at any await; another one hears of it by itself, and comes to its end. What
    `is_said` is read by models, too: statements come of it that they are to know.
    """

    name: str
    usage: str
    hint: str
    description: str
    run: CommandRun | None
    glance: Callable[[CommandContext, str], str] | None = None
    takes: Literal["nothing", "statement", "call", "branch", "source", "edit"] = "nothing"
    moves_head: bool = False
    torn: bool = True
    is_said: bool = False


def glancing(
    glance: Callable[[CommandContext, str], str],
) -> CommandRun:
    """A command's `run` that is its glance, because all is known at any time."""

    async def run(context: CommandContext, argument: str) -> str:
        return glance(context, argument)

    return run
