"""The worker's process around its interpreter: repairs the streams before a statement, ends what a stopped one started.

Must not know how it came to be a process. Called by `child`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from ....core.domain import Layer
from ....core.tokens import counter
from ....files.safe_open import keep_out
from ..channel import Channel
from ..guarding.guard import OutsideGuard
from ..handles.outlines import Outlines
from ..interpreter import Interpreter, Request
from ..interrupts import SignalInterrupts
from ..processes import own_process
from ..processes.ending import end_below
from ..processes.proc import children_of
from ..processes.system import become_subreaper, flush_c_streams
from ..protocol import CleanUp, Fork, FromWorker, Started
from ..serving import serve as serve_requests
from ..statements import alarms, streams
from ..statements.own_python import OwnPython

if TYPE_CHECKING:
    from .forking_off import Coming


class Surroundings:
    """The process as its statements find it, held by `layers`. On `handover` come the descriptors of copies of it."""

    def __init__(
        self,
        spares: tuple[int, int],
        channel: Channel,
        handover: socket.socket,
        outlines: Outlines,
        layers: tuple[Layer, ...],
    ) -> None:
        self._spares = spares
        self._channel = channel
        self._handover = handover
        self._outlines = outlines
        self._layers = layers
        self._coming: Coming | None = None
        """A checkpoint that may be on its way."""
        self._children: frozenset[int] | None = None
        """The processes that there were when the latest statement began."""

    def prepare(self) -> None:
        """A statement is about to run."""
        streams.repair(self._spares)
        streams.ensure()
        self._children = children_of("self")

    def begin(self) -> None:
        """A replay begins, and the host has read all that was written before."""

    @property
    def silent(self) -> bool:
        """Whether nothing was written in the replay.

        In this order: the host says so before it reads what was written, so where nothing is left of that, it has.
        """
        return streams.is_empty(self._spares) and self._channel.idle

    def answering(self, answer: Callable[[Request], FromWorker | None]) -> Callable[[Request], FromWorker | None]:
        """`answer`, with what has to be done to the process before and after."""

        def answer_all(request: Request) -> FromWorker | None:
            self._let_come()
            reply = answer(request)
            if isinstance(request, CleanUp):
                self._end_started()
            return reply

        return answer_all

    def snapshot(self, interpreter: Interpreter) -> Started | None:
        """Makes a checkpoint. A worker that is restored from it begins here, and says so."""
        # Late, as the keeper: the zygote loads it when it is ready.
        from .checkpoint import Restoring, take

        self._let_come()
        restoring = take(self._handover, self._spares)
        if not isinstance(restoring, Restoring):
            self._coming = restoring
            return None
        own_process.take_place()
        become_subreaper()
        self._handover.close()
        self._handover = restoring.handover
        self._channel.reopen(restoring.channel)
        self._outlines.reopen(partial(next, iter((restoring.outlines,)), None))
        interpreter.take_place()
        return Started(self._layers)

    def _let_come(self) -> None:
        """Waits until a checkpoint that is on its way is out of reach of what runs next."""
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.wait()

    def _end_started(self) -> None:
        """Ends what the statement that was stopped has started: nothing of it goes on."""
        before, now = self._children, children_of("self")
        if before is None or now is None:
            return
        started = now - before
        if started:
            end_below(os.getpid(), lambda pid: pid not in before)
        for pid in started:
            # Without taking its exit status, which the user's own object may ask for.
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def serve(
    connection: socket.socket,
    spares: tuple[int, int],
    outlines: socket.socket,
    handover: socket.socket,
    namespace: dict[str, object],
    fork: Fork,
    layers: tuple[Layer, ...],
) -> NoReturn:
    """Becomes the worker's loop. `spares` are copies of the stdout and stderr pipes out of a statement's way.

    `layers` hold the process to the domain of `fork`. On `outlines` outlines are asked for, on `handover` come the
    descriptors of copies of this process.
    """
    streams.install()
    interrupts = SignalInterrupts()
    # An interrupt may come before the first statement; Python's own handler would raise it anywhere.
    interrupts.install()
    channel = Channel(connection)
    if fork.confined and fork.kept_out:
        keep_out(fork.kept_out)
    # Ahead of what takes Python's functions as they are now for Python's own.
    guard = OutsideGuard(own_process=True, turn_off=alarms.turn_off, scratch=fork.domain.scratch if fork.domain else "")
    outliner = Outlines(partial(next, iter((outlines,)), None))
    surroundings = Surroundings(spares, channel, handover, outliner, layers)
    interpreter = Interpreter(
        namespace,
        channel,
        interrupts,
        guard,
        count=counter(),
        cwd=fork.cwd,
        directories=fork.directories,
        confined=fork.confined,
        servers=fork.servers,
        domain=fork.domain,
        prepare=surroundings.prepare,
        flush=flush_c_streams,
        output=surroundings,
        python=OwnPython.of_this_process(),
        forks=True,
        outliner=outliner,
    )
    serve_requests(
        channel,
        surroundings.answering(interpreter.answer),
        interpreter.kept,
        partial(surroundings.snapshot, interpreter),
        layers,
    )
