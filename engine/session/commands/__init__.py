"""The type of slash commands, and the context that they work on. The commands are rows of `table`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import anyio.to_thread
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
Reading = Callable[[], str]
"""Returns an answer for which contents are read from the store. Runs on a thread, because a network may be slow."""
Glance = Callable[[CommandContext, str], str | Reading]
"""Returns the answer of a command, or how to read it. It runs on the event loop, so it reads no contents."""


class Command(Struct, frozen=True):
    """One slash command.

    Args:
        usage: the arguments as `/help` shows them, such as `[N | tail]`; "" if it takes none.
        hint: the same in words, for editors and for errors; "" if it takes none.
        run: performs it and returns the answer; None if the argument is a statement, which runs like a typed one.
        glance: answers at once, even during a turn; None if the command waits until the turn has ended.
        takes: what the terminal completes: numbers of statements (`edit`: then Python on the next lines), numbers of
            model calls, branches, or Python.
        moves_head: it moves to another statement or branch. Its message is logged after the move, on the new branch;
            if nothing moved, the message is logged before the answer.
        is_cancellable: a cancel may interrupt it at any await. If False, the command handles a cancel itself.
        is_said: models read command and answer too, because it adds statements that they must know.
    """

    name: str
    usage: str
    hint: str
    description: str
    run: CommandRun | None
    glance: Glance | None = None
    takes: Literal["nothing", "statement", "call", "branch", "source", "edit"] = "nothing"
    moves_head: bool = False
    is_cancellable: bool = True
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


def glancing(glance: Glance) -> CommandRun:
    """A `run` that only calls the glance, because its answer is known at any time."""

    async def run(context: CommandContext, argument: str) -> str:
        return await answer_of(glance(context, argument))

    return run


async def answer_of(answer: str | Reading) -> str:
    """Return what a glance answers."""
    return answer if isinstance(answer, str) else await anyio.to_thread.run_sync(answer, abandon_on_cancel=True)
