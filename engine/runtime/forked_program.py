"""A program below the zygote: asked for, and ended, by way of its keeper (`worker.program`).

Owns the descriptors of one keeper. Must not know what the program prints, nor how long it may run. Started by
`worker_environment`, conducted by `command_run`; those that are talked to by `server_program`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket

from ..core.domain import Domain
from ..core.errors import EnvironmentUnavailableError
from ..core.programs import CommandOutcome, CommandRequest, ServerRequest
from .command_run import RunningProgram
from .control_channel import ControlChannel, Parent, pipe, socket_pair
from .environment import EnvironmentSpec
from .variables import program_variables
from .worker.framing import FrameBuffer, FrameTooLargeError, from_keeper
from .worker.protocol import Execute, Finished, FromKeeper, NotStarted

_PIPE_BYTES = 1 << 20
_CHUNK = 65536


class ForkedProgram(RunningProgram):
    """One program, from the request to fork its keeper until `close`."""

    def __init__(self, zygote: Parent, control: socket.socket, report: socket.socket, pipes: list[int]) -> None:
        super().__init__(*pipes)
        self._zygote = zygote
        self._control = ControlChannel(zygote, control, self.epoll, "the program")
        self._report = report
        self._frames = FrameBuffer()

    @classmethod
    def start(cls, zygote: Parent, spec: EnvironmentSpec, request: CommandRequest) -> ForkedProgram:
        """Asks for the program and returns at once.

        Raises:
            EnvironmentUnavailableError: nobody can be asked.
            ValueError: an argument holds a NUL character, or the request is too long to be sent.
        """
        return cls._start(zygote, _execute(spec, request), ())

    @classmethod
    def start_to_talk(cls, zygote: Parent, spec: EnvironmentSpec, request: ServerRequest) -> tuple[ForkedProgram, int]:
        """Asks for a program whose stdin is a pipe, and returns at once: the program, and the end to write to.

        Raises as `start`.
        """
        with contextlib.ExitStack() as ours:
            stdin, writer = os.pipe()
            ours.callback(os.close, writer)
            try:
                program = cls._start(zygote, _server(spec, request), (stdin,))
            finally:
                os.close(stdin)
            ours.pop_all()
            return program, writer

    @classmethod
    def _start(cls, zygote: Parent, asked: Execute, stdin: tuple[int, ...]) -> ForkedProgram:
        zygote.ensure()
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                control, report = (socket_pair(ours, theirs) for _ in range(2))
                pipes = [pipe(ours, theirs) for _ in range(2)]
                for _, writer in pipes:
                    with contextlib.suppress(OSError):  # a user may have no more room for pipes
                        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
                zygote.fork([control[1].fileno(), report[1].fileno(), *(writer for _, writer in pipes), *stdin])
                program = cls(zygote, control[0], report[0], [reader for reader, _ in pipes])
                ours.pop_all()
                ours.callback(program.close)
                program._control.begin(asked)
            except FrameTooLargeError as error:
                raise ValueError(f"the program and its input are too long to be sent: {error}") from None
            except OSError as error:
                raise EnvironmentUnavailableError(f"no program could be requested: {error}") from error
            ours.pop_all()
            return program

    def serve(self, descriptor: int, events: int) -> None:
        self._control.serve(events)
        if self._control.death is not None and self.ended is None:
            self.ended = self._end(self._control.death.reason)

    def interrupt(self) -> None:
        self._control.interrupt()

    def kill(self) -> None:
        self._control.end()

    def give_up(self) -> CommandOutcome:
        # One that is stopped would keep everybody waiting who asks next.
        if not self._control.forked and self._zygote.stopped:
            self._zygote.kill()
        return CommandOutcome(reason=self._control.give_up().reason)

    def watch_memory(self) -> None:
        self._control.watch_memory(True)

    def close(self) -> None:
        super().close()
        self._control.close()
        self._report.close()

    def _end(self, reason: str) -> CommandOutcome | OSError:
        """What the keeper reported; without a report, what was seen of its own end."""
        match self._reported():
            case Finished(wait_status=status):
                code = os.waitstatus_to_exitcode(status)
                return CommandOutcome(code=code) if code >= 0 else CommandOutcome(signal=-code)
            case NotStarted(number=number, reason=words, about=about):
                return OSError(number, words, about)
            case None if not self._control.forked:
                return OSError(errno.EAGAIN, f"the program was not started: {reason}")
            case None:
                return CommandOutcome(reason=reason)

    def _reported(self) -> FromKeeper | None:
        # The keeper reports before it ends, so all of it is there.
        with contextlib.suppress(OSError):
            self._report.setblocking(False)
            while data := self._report.recv(_CHUNK):
                self._frames.feed(data)
        body = self._frames.next()
        return None if body is None else from_keeper(body)


def _execute(spec: EnvironmentSpec, request: CommandRequest) -> Execute:
    variables = program_variables(spec, request)
    return _limited(spec, request, variables, request.stdin, merged=request.merged, domain=request.domain)


def _server(spec: EnvironmentSpec, request: ServerRequest) -> Execute:
    return _limited(spec, request, request.variables, None, merged=False)


def _limited(
    spec: EnvironmentSpec,
    request: CommandRequest | ServerRequest,
    variables: dict[str, str],
    stdin: bytes | None,
    *,
    merged: bool,
    domain: Domain | None = None,
) -> Execute:
    return Execute(
        argv=tuple(map(os.fsencode, request.argv)),
        cwd=os.fsencode(request.cwd),
        variables=variables,
        stdin=stdin,
        merged=merged,
        data_bytes=spec.limits.data_bytes,
        open_files=spec.limits.open_files,
        allow_sudo=spec.allow_sudo,
        domain=domain,
    )
