"""An interpreter in a thread of the host's process, behind the same `Connection` as a worker.

Owns the thread, its interrupts and its output. Must not know what a statement is. Opened by `in_process`.

A thread cannot be killed. `kill` interrupts it and has it leave when it next looks for a message; one that does neither
is left behind: it is a daemon, what it writes is dropped, and nobody waits for it.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
from collections.abc import Callable
from typing import Final

import anyio

from ..core.tokens import counter
from ..files.outline.indentation import IndentationOutliner
from .capture import Capture
from .connection import Connection
from .death import Death
from .environment import EnvironmentSpec
from .thread_channel import Doorbell, HostGone, ThreadChannel, body_of
from .thread_interrupts import ThreadInterrupts
from .thread_output import STDERR, STDOUT, OutputPipe, Streams, leave_behind, text_stream, write_to, written_to
from .worker.guarding.guard import OutsideGuard
from .worker.interpreter import Interpreter, Request
from .worker.protocol import Failed, FromWorker, Kept, Replay, Run, ToWorker
from .worker.serving import serve
from .worker.statements.own_python import OwnPython
from .worker.statements.streams import no_input
from .worker_messages import MessageReader

_LEAVE_SECONDS: Final = 0.1
"""How long a thread is waited for; one that comes to it later leaves all the same."""

Count = Callable[[str], int]


class _Resident:
    """What lives in the thread: an interpreter with a namespace and streams of its own."""

    def __init__(
        self,
        spec: EnvironmentSpec,
        channel: ThreadChannel,
        pipe: OutputPipe,
        interrupts: ThreadInterrupts,
        count: Count,
    ) -> None:
        # As a worker, which has to change into it.
        os.scandir(spec.cwd).close()
        self._pipe = pipe
        self._interrupts = interrupts
        self._streams = _streams(pipe, interrupts)
        self._interpreter = Interpreter(
            _namespace(),
            channel,
            interrupts,
            OutsideGuard(),
            count=count,
            cwd=spec.cwd,
            directories=spec.directories,
            confined=spec.confined,
            servers=spec.servers,
            prepare=self._prepare,
            flush=_nothing_more,
            output=pipe,
            python=OwnPython.of_nobody(),
            forks=False,
            outliner=IndentationOutliner(),
        )

    def answer(self, request: Request) -> FromWorker | None:
        """The interpreter's answer; what a statement writes meanwhile goes into the pipe."""
        if not isinstance(request, Run | Replay):
            return self._interpreter.answer(request)
        with written_to(self._streams):
            return self._interpreter.answer(request)

    def kept(self, execution_id: str) -> Kept:
        """What follows the answer to a request that `keeps`."""
        return self._interpreter.kept(execution_id)

    def _prepare(self) -> None:
        if any(stream.closed for stream in self._streams):
            self._streams = _streams(self._pipe, self._interrupts)
            write_to(self._streams)


class ThreadConnection(Connection):
    """The host's end of one thread, from its start until `close`."""

    def __init__(self, spec: EnvironmentSpec, count: Count | None) -> None:
        super().__init__(MessageReader(spec.redactor))
        self._bell = Doorbell()
        self._channel = ThreadChannel(self._bell)
        self._pipe = OutputPipe(self._bell.ring)
        self._interrupts = ThreadInterrupts()
        self._captures = (Capture(spec.redactor), Capture(spec.redactor))
        self._left = False
        self._spec = spec
        self._count = count
        self._thread = threading.Thread(target=self._work, name="statements", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            count = self._count or counter()
            resident = _Resident(self._spec, self._channel, self._pipe, self._interrupts, count)
            serve(self._channel, resident.answer, resident.kept, lambda: None)
        except HostGone:
            pass
        except Exception as error:
            self._channel.send(Failed(f"{type(error).__name__}: {error}"))
        finally:
            self._left = True
            self._bell.ring()

    # --- for the host ------------------------------------------------------------------------------------------------

    def send(self, message: ToWorker) -> None:
        self._channel.to_thread.put(body_of(message))

    def interrupt(self) -> None:
        self._interrupts.interrupt()

    def begin_capture(self, stdout: Capture, stderr: Capture) -> None:
        self._captures = (stdout, stderr)

    async def acknowledged(self) -> None:
        """An interrupt is sent as soon as it is asked for."""

    def drain(self) -> None:
        for stream, data in self._pipe.take():
            self._captures[stream].feed(data)

    def look(self) -> bool:
        if not self.dead:
            self._notice_end()
        return not self.dead

    def end(self) -> None:
        self._channel.to_thread.put(None)
        self._interrupts.interrupt()

    def close(self) -> None:
        """Has the thread leave, if it still listens, and drops what it goes on to write."""
        if self._closed:
            return
        self.end()
        self._closed = True
        self._pipe.close()
        self._bell.close()

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _progress(self) -> None:
        await anyio.wait_readable(self._bell.fileno())
        self._bell.silence()
        self.drain()
        self._notice_end()

    def _notice_end(self) -> None:
        if self._left and self._death is None:
            self._death = Death("the thread of its namespace was ended")

    def _next_body(self) -> bytes | None:
        return self._channel.to_host.popleft() if self._channel.to_host else None

    def _stop_reading(self) -> None:
        """Nothing more is looked at after a violation."""

    def _death_seconds(self) -> float:
        return _LEAVE_SECONDS

    def _give_up(self) -> Death:
        self._pipe.close()
        self._interrupts.withdraw()
        leave_behind(self._thread.ident or 0)
        return Death("a thread cannot be killed, so it was left behind, and its namespace with it")


def _namespace() -> dict[str, object]:
    """The names of a script, with builtins of its own: some of Python's belong to whoever is at the keyboard."""
    # The interactive `exit` closes stdin, which is the host's.
    replaced = {"input": no_input, "exit": sys.exit, "quit": sys.exit}
    return {"__name__": "__main__", "__builtins__": {**vars(builtins), **replaced}}


def _streams(pipe: OutputPipe, interrupts: ThreadInterrupts) -> Streams:
    return text_stream(pipe, STDOUT, interrupts), text_stream(pipe, STDERR, interrupts)


def _nothing_more() -> None:
    """What C code has buffered is the host's."""
