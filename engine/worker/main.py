"""The worker: serves one request after the other until its host is gone.

Owns the namespace, the board of nodes and the table of requests. Runs statements through `executor`; what the statement
asks of the host goes through `effects`. Must not know how it came to be a process. Called by `child`.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import NoReturn

from ..events import Event
from ..events.execution import NamesRebound
from ..execution import ExceptionInfo
from ..ids import ExecutionId
from ..tokens import counter
from . import streams
from .board import Board, BoardReport
from .channel import Channel
from .effects import Effects
from .executor import Executor, Result
from .files import DirectFiles
from .framing import FrameTooLargeError, pack_events
from .guard import OutsideGuard, planning, replaying
from .interrupts import Interrupts
from .names import InjectedNames
from .namespace import NamespaceWatch
from .processes import end_tree, own_children
from .protocol import Answer, Calm, Calmed, Failed, FromWorker, Project, Projected, Ran, Run, Started, Tick, Ticked


class Worker:
    """One namespace with its nodes."""

    def __init__(
        self,
        channel: Channel,
        spares: tuple[int, int],
        namespace: dict[str, object],
        cwd: str,
        directories: tuple[str, ...],
    ) -> None:
        self._channel = channel
        self._spares = spares
        self._namespace = namespace
        self._count = counter()
        self._interrupts = Interrupts()
        self._interrupts.install()
        self._board = Board(DirectFiles(), self._count, cwd, directories, time.time)
        self._effects = Effects(channel, self._interrupts)
        self._names = InjectedNames(self._board, self._effects.ask, namespace)
        self._executor = Executor(namespace, NamespaceWatch(namespace, self._names.originals), self._interrupts)
        self._guard = OutsideGuard()
        self._children: frozenset[int] | None = None
        """The processes that there were when the latest statement began."""

    def serve(self) -> NoReturn:
        """Answers requests; leaves the process from within `channel` when the host has gone."""
        self._channel.send(Started())
        while True:
            request = self._channel.receive()
            # An answer here is one to a question that an interrupt tore off.
            if not isinstance(request, Answer):
                self._reply(request, self._answer(request))

    def _answer(self, request: Run | Tick | Project | Calm) -> FromWorker:
        try:
            match request:
                case Run():
                    return self._run(request)
                case Tick():
                    return self._tick(request)
                case Project():
                    return self._project(request)
                case Calm():
                    self._interrupts.forget()
                    self._end_started()
                    return Calmed()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return _unrecorded(request, reason) if isinstance(request, Run) else Failed(reason)

    def _reply(self, request: Run | Tick | Project | Calm, reply: FromWorker) -> None:
        try:
            self._channel.send(reply)
        except FrameTooLargeError as error:
            reason = f"FrameTooLargeError: {error}"
            self._channel.send(_unrecorded(request, reason) if isinstance(request, Run) else Failed(reason))

    def _run(self, request: Run) -> Ran:
        streams.repair(self._spares)
        streams.ensure()
        self._interrupts.install()
        self._children = own_children()
        self._effects.open(request.recorded)
        self._board.begin(request.round_id)
        if request.recorded is not None:
            self._guard.arm(replaying)
        elif request.plan:
            self._guard.arm(planning)
        try:
            result = self._executor.run(request.source, request.label)
        finally:
            self._guard.disarm()
            self._effects.close()
        return self._ran(result, self._board.finish(), request)

    def _end_started(self) -> None:
        """Ends what the statement that was stopped has started: nothing of it goes on."""
        before, now = self._children, own_children()
        started = now - before if now is not None and before is not None else frozenset[int]()
        if started:
            end_tree(list(started))
        for pid in started:
            # Without taking its exit status, which the user's own object may ask for.
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    def _ran(self, result: Result, report: BoardReport, request: Run) -> Ran:
        stops = (*self._guard.stops, *self._effects.stops) if request.recorded is not None else ()
        return Ran(
            execution_id=request.execution_id,
            status="ok" if result.exception is None else "error",
            value=result.value,
            exception=result.exception,
            time_ms=result.time_ms,
            displays=report.displays,
            locations=report.locations,
            diff=result.diff,
            events=pack_events((*report.events, *self._rebound(request.execution_id))),
            stops=stops,
        )

    def _rebound(self, execution_id: str) -> tuple[Event, ...]:
        names = self._names.newly_rebound()
        return (NamesRebound(execution_id=ExecutionId(execution_id), names=names),) if names else ()

    def _tick(self, request: Tick) -> Ticked:
        started = time.perf_counter_ns()
        events = self._board.tick(request.round_id, request.now)
        return Ticked(events=pack_events(events), time_ms=(time.perf_counter_ns() - started) / 1e6)

    def _project(self, request: Project) -> Projected:
        counts = tuple(self._count(text) for text in request.texts)
        if request.budget == 0:
            return Projected(tail="", tail_tokens=0, text_tokens=counts, handles=())
        text, tokens, handles = self._board.tail(self._namespace, request.budget)
        return Projected(tail=text, tail_tokens=tokens, text_tokens=counts, handles=handles)


def _unrecorded(request: Run, reason: str) -> Ran:
    """The statement ran, but no full record of it can be given."""
    failure = ExceptionInfo(type="RecordError", message=f"the statement's record was lost: {reason}")
    return Ran(execution_id=request.execution_id, status="error", exception=failure)


def serve(
    connection: socket.socket,
    spares: tuple[int, int],
    namespace: dict[str, object],
    cwd: str,
    directories: tuple[str, ...],
) -> NoReturn:
    """Becomes the worker's loop. `spares` are copies of the stdout and stderr pipes out of a statement's way."""
    streams.install()
    Worker(Channel(connection), spares, namespace, cwd, directories).serve()
