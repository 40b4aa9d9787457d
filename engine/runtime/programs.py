"""Programs beside the statements of a session: their process, output, time limit and environment variables.

`ForkedProgram` is the process, which a keeper below the zygote starts and reaps (`worker.processes.program`).
`CommandRun` follows one command. After its time limit or a cancel it sends SIGTERM to the group, and after the grace it
kills everything that the program started. A program that has printed enough for a search is killed at once, because it
leaves nothing half done.

Both wait on descriptors of their own and never for the environment's lock, because the statement that requested a
program holds that lock. Must not know the log. Used by `worker_environment`; `server_program` uses `ForkedProgram`.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import math
import os
import shlex
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
from msgspec.structs import replace

from ..core.domain import Domain
from ..core.errors import EnvironmentUnavailableError
from ..core.programs import CommandOutcome, CommandOutput, CommandRequest, ServerRequest
from ..core.text import without_last_word
from ..files.safe_open import trusted_paths
from ..log.statements import OutputSink
from .control_channel import DEATH_SECONDS, ControlChannel, Outbox, Parent, pipe, socket_pair, start_of
from .environment import EnvironmentSpec
from .system.descriptors import widen
from .system.waiting import READABLE, Poller
from .worker.framing import FrameBuffer, FrameTooLargeError, frame, from_keeper
from .worker.processes.memory import LOOK_SECONDS
from .worker.protocol import Execute, Finished, FromKeeper, NotStarted

_CHUNK: Final = 1 << 18
_READS: Final = 8
"""Chunks to read from one pipe before the others."""
_PIPE_BYTES: Final = 1 << 20
_REPORT_CHUNK: Final = 1 << 16
_UNATTENDED: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "echo no editor is available: give the text in the command, or set GIT_EDITOR=true >&2; false",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
"""Keep programs from prompting, paging, editing or drawing, because no user sees them."""
_SOURCED: Final = ("BASH_ENV", "ENV")
"""Variables that name files which shells run at their start; a statement may have written such a file."""
_IN_SCRATCH: Final = {
    "TMPDIR": (),
    "TMP": (),
    "TEMP": (),
    "PYTHONPYCACHEPREFIX": ("pycache",),
    "XDG_CACHE_HOME": ("cache",),
    "MPLCONFIGDIR": ("matplotlib",),
    "IPYTHONDIR": ("ipython",),
    "JUPYTER_RUNTIME_DIR": ("jupyter",),
    "NUMBA_CACHE_DIR": ("numba",),
    "RUFF_CACHE_DIR": ("ruff",),
    "MYPY_CACHE_DIR": ("mypy",),
    "HYPOTHESIS_STORAGE_DIRECTORY": ("hypothesis",),
    "COVERAGE_FILE": ("coverage",),
    "npm_config_cache": ("npm",),
}
"""Variables for cache directories, with their place in the scratch directory. Others follow XDG_CACHE_HOME."""
_OF_PYTEST: Final = "PYTEST_ADDOPTS"


class CommandRun:
    """Follow one program to its end. `grace` is the number of seconds between SIGTERM and SIGKILL."""

    def __init__(self, program: ForkedProgram, request: CommandRequest, grace: float, output: OutputSink) -> None:
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
        """Set when all descriptors are closed."""

    async def conduct(self) -> CommandOutcome:
        """Wait for the end of the program. A cancel ends the program first.

        Raises:
            OSError: the program could not start.
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
        """Kill the program; `reason` becomes part of its outcome."""
        if self._program.ended is None:
            self._reason = reason
            self._kill()

    async def _finish(self) -> CommandOutcome | OSError:
        while self._program.ended is None:
            with anyio.CancelScope(deadline=self._due) as self._wait:
                await anyio.wait_readable(self._program.poller.fileno())
            if self._due <= anyio.current_time():
                self._steps.pop(0)[1]()
            self._serve_ready()
        self._drain()
        return self._program.ended

    @property
    def _due(self) -> float:
        return self._steps[0][0] if self._steps else math.inf

    def _plan(self, *steps: tuple[float, Callable[[], None]]) -> None:
        """Replace the pending steps by these, each so many seconds from now."""
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
        for descriptor, events in self._program.poller.poll(0):
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
                    self._program.poller.unregister(descriptor)
                    return
                stream.feed(data)
                if stream.full and not self._stopped:
                    self._stopped = True
                    if self._program.ended is None:
                        self._kill()

    def _drain(self) -> None:
        """Read the output from before the end, up to a limit: another process may keep the pipe open and write."""
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


class KeptOutput:
    """The beginning and the end of a stream, in constant memory.

    Args:
        kept: bytes to keep, half of them from the beginning, half from the end.
        sink: receives the kept text: the beginning while the program runs, without its last word, which a cut may
            remove; the rest at the end.
        stop_at: ignore everything after so many bytes.
    """

    def __init__(self, kept: int, sink: Callable[[str], None], stop_at: int | None = None) -> None:
        self._tail_room = max(0, kept) // 2
        self._head_room = max(0, kept) - self._tail_room
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop_at = math.inf if stop_at is None else stop_at
        self._shown = 0
        self._held = ""
        """The last word of the beginning."""
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    @property
    def full(self) -> bool:
        """Whether `stop_at` is reached."""
        return self._total >= self._stop_at

    def feed(self, data: bytes) -> None:
        if self._total + len(data) > self._stop_at:
            data = data[: int(self._stop_at) - self._total]
        self._total += len(data)
        first = data[: self._head_room - len(self._head)]
        if first:
            self._head += first
            self._held += self._decoder.decode(first)
            whole = without_last_word(self._held)
            self._held = self._held[len(whole) :]
            self._show(whole)
        self._tail += data[len(first) :][-self._tail_room :] if self._tail_room else b""
        del self._tail[: max(0, len(self._tail) - self._tail_room)]

    def finish(self) -> CommandOutput:
        """The kept output; the sink receives the rest of its text."""
        output = CommandOutput(head=bytes(self._head), tail=bytes(self._tail), total=self._total)
        self._show(output.text[self._shown :])
        return output

    def _show(self, text: str) -> None:
        if text:
            self._shown += len(text)
            self._sink(text)


class ForkedProgram:
    """A program below the zygote, from the request to fork its keeper until `close`.

    Attributes:
        stdout, stderr: the reading ends of its pipes.
        ended: how it ended with all its descendants, or why it could not start; None until then. Output may still be
            in the pipes.
    """

    def __init__(self, zygote: Parent, control: socket.socket, report: socket.socket, pipes: list[int]) -> None:
        self.stdout, self.stderr = pipes
        self.ended: CommandOutcome | OSError | None = None
        self.poller = Poller()
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
            self.poller.register(descriptor, READABLE)
        self._zygote = zygote
        self._control = ControlChannel(zygote, control, self.poller, "the program")
        self._report = report
        self._outbox = Outbox(report, self.poller)
        self._frames = FrameBuffer()

    @classmethod
    def start(cls, zygote: Parent, spec: EnvironmentSpec, request: CommandRequest) -> ForkedProgram:
        """Request the program and return at once.

        Raises:
            EnvironmentUnavailableError: its parent cannot be reached.
            ValueError: an argument contains a NUL character, or the request is too long.
        """
        return cls._start(zygote, _execute(spec, request), ())

    @classmethod
    def start_to_talk(cls, zygote: Parent, spec: EnvironmentSpec, request: ServerRequest) -> tuple[ForkedProgram, int]:
        """Request a program with a pipe as stdin: the program, and the pipe's writing end. Raises as `start`."""
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
        try:
            request = frame(asked)
        except FrameTooLargeError as error:
            raise ValueError(f"the program and its input are too long to send: {error}") from None
        zygote.ensure()
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                control, report = (socket_pair(ours, theirs) for _ in range(2))
                pipes = [pipe(ours, theirs) for _ in range(2)]
                for _, writer in pipes:
                    with contextlib.suppress(OSError):  # a user may have no more room for pipes
                        widen(writer, _PIPE_BYTES)
                zygote.fork([control[1].fileno(), report[1].fileno(), *(writer for _, writer in pipes), *stdin])
                program = cls(zygote, control[0], report[0], [reader for reader, _ in pipes])
                ours.pop_all()
                ours.callback(program.close)
                program._post(request)
                program._control.begin(start_of(asked))
            except OSError as error:
                raise EnvironmentUnavailableError(f"the request for a program failed: {error}") from error
            ours.pop_all()
            return program

    def serve(self, descriptor: int, events: int) -> None:
        """Handle an event of another descriptor than the pipes; set `ended` at the end of the program."""
        if descriptor == self._report.fileno():
            self._post()
            return
        self._control.serve(events)
        if self._control.death is not None and self.ended is None:
            self.ended = self._end(self._control.death.reason)

    def _post(self, data: bytes = b"") -> None:
        """Send the request, or the rest of it. Its report is read at the end."""
        self._outbox.post(data)
        if not self._outbox.waiting:
            self._outbox.stop_reading()

    def interrupt(self) -> None:
        """Send SIGTERM to the program's group."""
        self._control.interrupt()

    def kill(self) -> None:
        """Kill the program with all its descendants; `ended` follows."""
        self._control.end()

    def give_up(self) -> CommandOutcome:
        """End a program that did not end in time, and return its outcome."""
        # A stopped parent would delay the next requests.
        if not self._control.forked and self._zygote.stopped:
            self._zygote.kill()
        return CommandOutcome(reason=self._control.give_up().reason)

    def watch_memory(self) -> None:
        """Limit the memory of the program with all its descendants, from now on."""
        self._control.watch_memory(True)

    def close(self) -> None:
        """Close all descriptors, which ends a program that still runs."""
        self.poller.close()
        for descriptor in (self.stdout, self.stderr):
            os.close(descriptor)
        self._control.close()
        self._report.close()

    def _end(self, reason: str) -> CommandOutcome | OSError:
        """The keeper's report; without one, the end of the keeper."""
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
            while data := self._report.recv(_REPORT_CHUNK):
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
        directory=request.directory if isinstance(request, CommandRequest) else None,
        data_bytes=spec.limits.data_bytes,
        open_files=spec.limits.open_files,
        allow_sudo=spec.allow_sudo,
        domain=domain,
    )


# --- environment variables --------------------------------------------------------------------------------------------


def worker_variables(spec: EnvironmentSpec) -> dict[str, str]:
    """A worker's environment variables. In a domain, caches and temporary files are in its scratch directory."""
    return {**spec.variables, **_in_scratch(spec.domain, spec.variables)}


def program_variables(spec: EnvironmentSpec, request: CommandRequest) -> dict[str, str]:
    """A program's environment variables. Outside a domain, none refers to a place that a statement can write."""
    variables = {**spec.variables, **_in_scratch(request.domain, spec.variables)}
    kept = {name: value for name, value in variables.items() if name not in _SOURCED}
    return {**trusted_paths(kept, request.distrusted), **_UNATTENDED}


def _in_scratch(domain: Domain | None, given: Mapping[str, str]) -> Mapping[str, str]:
    if domain is None:
        return {}
    # Only an option moves pytest's cache. If it is not writable, pytest warns, and a project may make that an error.
    cache = shlex.join(("-o", f"cache_dir={os.path.join(domain.scratch, 'pytest')}"))
    return {
        **{name: os.path.join(domain.scratch, *place) for name, place in _IN_SCRATCH.items()},
        _OF_PYTEST: " ".join(filter(None, (given.get(_OF_PYTEST), cache))),
    }
