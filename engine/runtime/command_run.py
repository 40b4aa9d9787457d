"""One program from its start to its end: its output, its time, its cancel, and what it is ended by.

A program is asked to end (SIGTERM to its group), and after the grace it is killed with all that it started; what is not
reported dead then is given up. That is one list of steps with their times, which a time limit, a cancel and a close
begin. A program that has printed what a search needs is killed at once, because it leaves nothing half done.

Waits on descriptors of its own and never for the environment's turn, because the statement that asked for the program
holds that and waits. Must not know the log, nor whether the program runs below the zygote. Used by
`connected_environment`.
"""

from __future__ import annotations

import math
import os
import select
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
from msgspec.structs import replace

from ..core.programs import CommandOutcome, CommandRequest
from ..log.statements import OutputSink
from .control_channel import DEATH_SECONDS
from .kept_output import KeptOutput
from .worker.processes.memory import LOOK_SECONDS

_CHUNK: Final = 1 << 18
_READS: Final = 8
"""Chunks taken from one pipe before others have their turn."""


class RunningProgram(ABC):
    """A program that was started, with all that it starts; `stdout` and `stderr` are the reading ends of its pipes.

    Attributes:
        ended: how it ended, with everything below it, or why it could not be started, once that is known. What it
            printed may be waiting in the pipes.
    """

    def __init__(self, stdout: int, stderr: int) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.ended: CommandOutcome | OSError | None = None
        self.epoll = select.epoll()
        for descriptor in (stdout, stderr):
            os.set_blocking(descriptor, False)
            self.epoll.register(descriptor, select.EPOLLIN)

    @abstractmethod
    def serve(self, descriptor: int, events: int) -> None:
        """Something else than a pipe is ready: sets `ended` when it is the end."""

    @abstractmethod
    def interrupt(self) -> None:
        """Asks the program and its group to end."""

    @abstractmethod
    def kill(self) -> None:
        """Ends it with all that it started, whatever they do; `ended` follows."""

    @abstractmethod
    def give_up(self) -> CommandOutcome:
        """It should have ended by now: does what is left to do, and says what became of it."""

    @abstractmethod
    def watch_memory(self) -> None:
        """It runs for longer than a moment: what it holds with all its own is bounded, where that can be."""

    def close(self) -> None:
        """Gives everything back, and ends what still runs."""
        self.epoll.close()
        for descriptor in (self.stdout, self.stderr):
            os.close(descriptor)


class CommandRun:
    """One program, from when it was started. `grace` is how many seconds it has to end when it is asked to."""

    def __init__(self, program: RunningProgram, request: CommandRequest, grace: float, output: OutputSink) -> None:
        self._program = program
        self._request = request
        self._grace = grace
        self._sink: OutputSink | None = output
        self._streams = {
            program.stdout: KeptOutput(request.kept_bytes, partial(self._show, "stdout"), request.stop_at),
            program.stderr: KeptOutput(request.kept_bytes, partial(self._show, "stderr")),
        }
        self._began = anyio.current_time()
        self._steps: list[tuple[float, Callable[[], None]]] = []
        self._plan((LOOK_SECONDS, program.watch_memory), (request.seconds, self._time_out))
        self._wait = anyio.CancelScope()
        self._ending = False
        self._timed_out = False
        self._stopped = False
        self._reason = ""
        self.finished = anyio.Event()
        """Set when everything was given back."""

    async def conduct(self) -> CommandOutcome:
        """Follows the program to its end. When the awaiting task is cancelled, the program is ended first.

        Raises:
            OSError: it could not be started.
        """
        try:
            try:
                ended = await self._finish()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    self._sink = None
                    if not self._ending:
                        self._stop()
                    await self._finish()
                raise
            if isinstance(ended, OSError):
                raise ended
            return self._outcome(ended)
        finally:
            self._program.close()
            self.finished.set()

    def end(self, reason: str) -> None:
        """Has the program killed, for a reason in words."""
        if self._program.ended is None:
            self._reason = reason
            self._kill()

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _finish(self) -> CommandOutcome | OSError:
        while self._program.ended is None:
            with anyio.CancelScope(deadline=self._due) as self._wait:
                await anyio.wait_readable(self._program.epoll.fileno())
            if self._due <= anyio.current_time():
                self._steps.pop(0)[1]()
            self._serve_ready()
        self._drain()
        return self._program.ended

    @property
    def _due(self) -> float:
        return self._steps[0][0] if self._steps else math.inf

    def _plan(self, *steps: tuple[float, Callable[[], None]]) -> None:
        """What comes next, each so many seconds from now, in place of what was to come."""
        now = anyio.current_time()
        self._steps = sorted(((now + seconds, step) for seconds, step in steps), key=lambda step: step[0])

    def _time_out(self) -> None:
        self._timed_out = True
        self._stop()

    def _stop(self) -> None:
        self._ending = True
        self._program.interrupt()
        self._plan((self._grace, self._kill))

    def _kill(self) -> None:
        self._ending = True
        self._program.kill()
        self._plan((DEATH_SECONDS, self._give_up))
        self._wait.deadline = self._due

    def _give_up(self) -> None:
        self._program.ended = self._program.give_up()

    def _serve_ready(self) -> None:
        for descriptor, events in self._program.epoll.poll(0):
            if descriptor in self._streams:
                self._read(descriptor, _READS)
            else:
                self._program.serve(descriptor, events)

    def _read(self, descriptor: int, chunks: int) -> None:
        stream = self._streams[descriptor]
        with suppress(BlockingIOError):
            for _ in range(chunks):
                data = os.read(descriptor, _CHUNK)
                if not data:
                    self._program.epoll.unregister(descriptor)
                    return
                stream.feed(data)
                if stream.full and not self._stopped:
                    self._stopped = True
                    if self._program.ended is None:
                        self._kill()

    def _drain(self) -> None:
        """Takes what was printed before the end. A pipe that somebody else holds has no end, so there is a bound."""
        for descriptor in self._streams:
            with suppress(OSError):
                self._read(descriptor, _READS)

    def _show(self, stream: str, text: str) -> None:
        if self._sink is not None:
            self._sink("stdout" if stream == "stdout" else "stderr", text)

    def _outcome(self, ended: CommandOutcome) -> CommandOutcome:
        by_us = self._timed_out or self._stopped or bool(self._reason)
        return replace(
            ended,
            code=None if by_us else ended.code,
            signal=None if by_us else ended.signal,
            timed_out=self._timed_out,
            stopped=self._stopped,
            reason=self._reason or ("" if by_us else ended.reason),
            stdout=self._streams[self._program.stdout].finish(),
            stderr=self._streams[self._program.stderr].finish(),
            seconds=anyio.current_time() - self._began,
        )
