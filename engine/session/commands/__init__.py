"""The type of slash commands, and the context that they work on. The commands are rows of `table`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from msgspec import Struct

from ...log.timeline import Cell
from ..requests import ActiveRequest, PastRequest, PastResult
from ..session_runtime import SessionRuntime


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The session's runtime, and the request of the command itself."""

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
        """The heading of an answer during a turn, which uses only what is known already."""
        cells = reversed(self.cells)
        done = next((cell.statement.index for cell in cells if cell.finished is not None), None)
        return f"As of statement {done}; a turn is running." if done else "As of the beginning; a turn is running."


CommandRun = Callable[[CommandContext, str], Awaitable[str]]
"""Performs a command with its argument; returns the answer."""


class Command(Struct, frozen=True):
    """One slash command.

    Args:
        usage: its arguments as `/help` shows them; "" if it takes none.
        hint: its arguments in words; "" if it takes none.
        run: performs it; None if the argument is a statement, which runs as the user's own.
        glance: answers during a turn from what is known already; None if the command waits for its turn.
        takes: what to complete: numbers of statements (`edit`: then Python on the next lines), numbers of model calls,
            branches, or Python.
        moves_head: its message follows the move on the log, on the branch that is active then; if nothing moved, it
            comes before the answer.
        torn: a cancel may end it at any await. If not, it handles the cancel itself.
        is_said: models read it too, because it makes statements that they must know.
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


class CustomNames(Struct, frozen=True):
    """The names of commands of files and servers, a container and an iterable of them."""

    names: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    """MCP servers, all of whose names `MODULE:NAME` belong to them, known or not."""

    def __contains__(self, name: str) -> bool:
        module, sign, _ = name.partition(":")
        return name in self.names or (bool(sign) and module in self.modules)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.names))


NO_CUSTOM: Final = CustomNames()


def glancing(
    glance: Callable[[CommandContext, str], str],
) -> CommandRun:
    """A `run` that only calls the glance, because its answer is known at any time."""

    async def run(context: CommandContext, argument: str) -> str:
        return glance(context, argument)

    return run
