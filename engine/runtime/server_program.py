"""An MCP server below the zygote: a program that is talked to for as long as it runs (`core.programs.ServerProcess`).

Owns its descriptors and its end. It ends in three steps, as MCP has them: its input is closed, it is asked to end
(SIGTERM to its group), and it is killed with all that it started. Each of its processes has the limits of a session;
what they hold together is not counted, because it would be looked at for as long as the session lasts. What it writes
to its standard error is read so that it is never held up, slowly, so that a flood costs little, and forgotten but for
its end. Must not know what is said to it. Made for `session.servers`, through `host`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

import anyio

from ..core.programs import CommandOutcome, ServerRequest
from .control_channel import DEATH_SECONDS
from .environment import EnvironmentSpec
from .programs import ForkedProgram
from .zygote import Zygote

_CHUNK: Final = 1 << 16
_KEPT_BYTES: Final = 2_000
_LEFT_OUT: Final = b"... "
_PAUSE_SECONDS: Final = 0.01
"""After each chunk of standard error."""
_INPUT_SECONDS: Final = 1.0
"""A server may take so long to end by itself when its input has ended."""
_TERM_SECONDS: Final = 1.0
"""And so long when it was asked to."""


class ServerProgram:
    """One server, from the request to start it until `stop`, which somebody has to call."""

    def __init__(self, program: ForkedProgram, stdin: int) -> None:
        self._program = program
        self._stdin: int | None = stdin
        self._errors = b""
        self._ended = anyio.Event()
        self._is_closed = False
        # What it writes there is read when somebody wants it, and nobody else is to be woken by it.
        program.epoll.unregister(program.stdout)
        os.set_blocking(stdin, False)
        # In no scope of whoever starts it, because a server is followed to its end whatever is cancelled.
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    @classmethod
    def start(cls, zygote: Zygote, spec: EnvironmentSpec, request: ServerRequest) -> ServerProgram:
        """Asks for the program and returns at once.

        Raises:
            EnvironmentUnavailableError: nobody can be asked.
            ValueError: an argument holds a NUL character, or the request is too long to be sent.
        """
        return cls(*ForkedProgram.start_to_talk(zygote, spec, request))

    async def _watch(self) -> None:
        while self._program.ended is None:
            await anyio.wait_readable(self._program.epoll.fileno())
            for descriptor, events in self._program.epoll.poll(0):
                if descriptor == self._program.stderr:
                    await self._read_errors()
                else:
                    self._program.serve(descriptor, events)
        self._ended.set()

    async def receive(self) -> bytes:
        """As `core.programs.ServerProcess`."""
        while not self._is_closed:
            try:
                data = os.read(self._program.stdout, _CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self._program.stdout)
                continue
            if not data:
                await self._ended_soon(_INPUT_SECONDS)
                if isinstance(self._program.ended, OSError):
                    raise self._program.ended
            return data
        return b""

    async def send(self, data: bytes) -> None:
        """As `core.programs.ServerProcess`."""
        left = memoryview(data)
        while left:
            if self._stdin is None:
                raise BrokenPipeError("the server is being ended")
            try:
                left = left[os.write(self._stdin, left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._stdin)

    def told(self) -> str:
        """As `core.programs.ServerProcess`."""
        last = self._errors.decode("utf-8", "replace").strip()
        ended = self._program.ended
        how = _how(ended) if isinstance(ended, CommandOutcome) else ""
        return "; ".join(filter(None, (how, f"it wrote: {last}" if last else "")))

    async def stop(self) -> None:
        """As `core.programs.ServerProcess`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._close_input()
        if not await self._ended_soon(_INPUT_SECONDS):
            self._program.interrupt()
            if not await self._ended_soon(_TERM_SECONDS):
                self._program.kill()
                if not await self._ended_soon(DEATH_SECONDS):
                    self._program.ended = self._program.give_up()
        self._watching.cancel()
        await asyncio.wait((self._watching,))
        self._program.close()

    def _close_input(self) -> None:
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    async def _ended_soon(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._ended.wait()
        return self._ended.is_set()

    async def _read_errors(self) -> None:
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self._program.stderr, _CHUNK)
            if not data:
                self._program.epoll.unregister(self._program.stderr)
        said = self._errors + data
        # With a mark, because a value may be cut there.
        self._errors = said if len(said) <= _KEPT_BYTES else _LEFT_OUT + said[len(_LEFT_OUT) - _KEPT_BYTES :]
        if len(data) == _CHUNK:
            await anyio.sleep(_PAUSE_SECONDS)


def _how(ended: CommandOutcome) -> str:
    if ended.reason:
        return ended.reason
    return f"it was ended by signal {ended.signal}" if ended.signal is not None else f"it ended with code {ended.code}"
