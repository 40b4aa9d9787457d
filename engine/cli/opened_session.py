"""A session that a command opens, works on, and closes: as a process of its own, beside which nobody may have it.

Owns the life of the engine around that. What is raised inside is kept and raised when the engine is closed, because the
engine's task group would wrap it. Must not know any command.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio
import typer

from ..core.errors import EngineError
from ..core.text import visible
from ..log.file_history import finished_lines
from ..runtime.zygote import Zygote
from ..session.host import Host
from ..session.session import Session
from .output.opened import find, settings, store

T = TypeVar("T")


def in_session(start: str, act: Callable[[Session], Awaitable[T]]) -> T:
    """What `act` gives, done to the only session whose id starts so. An interrupt cancels it, which it may undo.

    What opening the session has finished of an earlier command is said on standard error.

    Raises:
        EngineError: there is no such session, or another process has it open; and what `act` raises.
    """
    with store() as opened:
        session_id = find(opened, start).session_id
    zygote = Zygote.spawn()
    try:
        host = Host(settings(), os.environ, zygote=zygote, must_have_model=False)
    except BaseException:
        zygote.close()
        raise
    given: list[T] = []
    failures: list[EngineError] = []

    async def run() -> None:
        async with host:
            try:
                session = await host.sessions.load(session_id)
                for line in finished_lines(session.settled, partial(os.path.relpath, start=session.cwd)):
                    typer.echo(visible(line), err=True)
                given.append(await act(session))
            except EngineError as error:
                failures.append(error)

    anyio.run(run)
    if failures:
        raise failures[0]
    return given[0]
