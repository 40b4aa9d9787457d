"""The worker's process around its interpreter: repairs the streams before a statement, ends what a stopped one started.

Must not know how it came to be a process. Called by `child`.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import partial
from typing import NoReturn

from ..tokens import counter
from . import alarms, interpreter, streams
from .channel import Channel
from .ending import end_below
from .guard import OutsideGuard
from .interpreter import Interpreter, Request
from .interrupts import SignalInterrupts
from .outlines import Outlines
from .own_python import OwnPython
from .proc import children_of
from .processes import flush_c_streams
from .protocol import CleanUp, FromWorker, Run


class Worker:
    """One interpreter and its process."""

    def __init__(self, interpreter: Interpreter, spares: tuple[int, int]) -> None:
        self._interpreter = interpreter
        self._spares = spares
        self._children: frozenset[int] | None = None
        """The processes that there were when the latest statement began."""

    def answer(self, request: Request) -> FromWorker | None:
        """The interpreter's answer, with what has to be done to the process ahead of it or after it."""
        if isinstance(request, Run):
            streams.repair(self._spares)
            streams.ensure()
            self._children = children_of("self")
        reply = self._interpreter.answer(request)
        if isinstance(request, CleanUp):
            self._end_started()
        return reply

    def _end_started(self) -> None:
        """Ends what the statement that was stopped has started: nothing of it goes on."""
        before, now = self._children, children_of("self")
        started = now - before if now is not None and before is not None else frozenset[int]()
        if started:
            end_below(os.getpid(), spared=before or ())
        for pid in started:
            # Without taking its exit status, which the user's own object may ask for.
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def serve(
    connection: socket.socket,
    spares: tuple[int, int],
    outlines: socket.socket,
    namespace: dict[str, object],
    cwd: str,
    directories: tuple[str, ...],
) -> NoReturn:
    """Becomes the worker's loop. `spares` are copies of the stdout and stderr pipes out of a statement's way.

    On `outlines` outlines are asked for.
    """
    streams.install()
    interrupts = SignalInterrupts()
    # An interrupt may come before the first statement; Python's own handler would raise it anywhere.
    interrupts.install()
    channel = Channel(connection)
    # Ahead of what takes Python's functions as they are now for Python's own.
    guard = OutsideGuard(own_process=True, turn_off=alarms.turn_off)
    inner = Interpreter(
        namespace,
        channel,
        interrupts,
        guard,
        count=counter(),
        cwd=cwd,
        directories=directories,
        flush=flush_c_streams,
        python=OwnPython.of_this_process(),
        forks=True,
        outliner=Outlines(partial(next, iter((outlines,)), None)),
    )
    interpreter.serve(channel, Worker(inner, spares).answer)
