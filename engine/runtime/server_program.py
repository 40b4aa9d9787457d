"""An MCP server below the zygote: a program that the host talks to (`core.programs.ServerProcess`).

Owns its descriptors and its end, in the three steps of MCP: its input is closed, it gets SIGTERM, and it is killed with
its descendants. Each of its processes has the limits of a session. Their total memory is not limited, because that
would need polling for as long as the session lasts. Its standard error is read so that the server never blocks, slowly
so that a flood costs little, and only its end is kept. Must not know what is said to it. Started by the host.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

import anyio

from ..core.programs import CommandOutcome, ServerRequest
from ..core.text import DOTS, whole_words_after_cut
from .control_channel import DEATH_SECONDS
from .environment import EnvironmentSpec
from .programs import ForkedProgram
from .zygote import Zygote

_CHUNK: Final = 1 << 16
_KEPT_BYTES: Final = 2_000
_PAUSE_SECONDS: Final = 0.01
"""Pause after each chunk of standard error."""
_INPUT_SECONDS: Final = 1.0
"""Time for a server to exit after its input was closed."""
_TERM_SECONDS: Final = 1.0
"""Time for a server to exit after SIGTERM."""


class ServerProgram:
    """One server, from its start until `stop`, which the caller must await."""

    def __init__(self, program: ForkedProgram, stdin: int) -> None:
        self._program = program
        self._stdin: int | None = stdin
        self._errors = b""
        self._is_cut = False
        self._ended = anyio.Event()
        self._is_closed = False
        # Output is read in `receive` alone, so it must not wake `_watch`.
        program.poller.unregister(program.stdout)
        os.set_blocking(stdin, False)
        # Outside of the caller's cancel scopes: a server is followed to its end even if its start is cancelled.
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    @classmethod
    def start(cls, zygote: Zygote, spec: EnvironmentSpec, request: ServerRequest) -> ServerProgram:
        """Request the program and return at once.

        Raises:
            EnvironmentUnavailableError: the zygote cannot be reached.
            ValueError: an argument contains a NUL character, or the request is too long.
        """
        return cls(*ForkedProgram.start_to_talk(zygote, spec, request))

    async def _watch(self) -> None:
        while self._program.ended is None:
            await anyio.wait_readable(self._program.poller.fileno())
            for descriptor, events in self._program.poller.poll(0):
                if descriptor == self._program.stderr:
                    await self._read_errors()
                else:
                    self._program.serve(descriptor, events)
        self._ended.set()

    async def receive(self) -> bytes:
        """See `core.programs.ServerProcess`."""
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
        """See `core.programs.ServerProcess`."""
        left = memoryview(data)
        while left:
            if self._stdin is None:
                raise BrokenPipeError("the server is being ended")
            try:
                left = left[os.write(self._stdin, left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._stdin)

    def told(self) -> str:
        """See `core.programs.ServerProcess`."""
        last = self._errors.decode("utf-8", "replace").strip()
        if self._is_cut:
            last = f"{DOTS} {whole_words_after_cut(last).strip()}"
        ended = self._program.ended
        how = _how(ended) if isinstance(ended, CommandOutcome) else ""
        return "; ".join(filter(None, (how, f"it wrote: {last}" if last else "")))

    async def stop(self) -> None:
        """See `core.programs.ServerProcess`."""
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
                self._program.poller.unregister(self._program.stderr)
        errors = self._errors + data
        self._is_cut = self._is_cut or len(errors) > _KEPT_BYTES
        self._errors = errors[-_KEPT_BYTES:]
        if len(data) == _CHUNK:
            await anyio.sleep(_PAUSE_SECONDS)


def _how(ended: CommandOutcome) -> str:
    if ended.reason:
        return ended.reason
    return (
        f"the server was ended by signal {ended.signal}"
        if ended.signal is not None
        else f"the server ended with code {ended.code}"
    )
