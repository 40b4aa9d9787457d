"""The keeper of a program: a process below the zygote that starts one program, waits for it, and ends what it left.

It is the program's parent and the subreaper of everything that the program starts, so a process that leaves the
program's group or outlives its parent becomes the keeper's child. The keeper reaps them as they end, because a fork
bomb leaves thousands. When the program has ended, everything below the keeper is ended, and only then the host is told.
Killing the keeper's tree, as the zygote does at a time limit, a cancel or the end of a session, kills all of it.

The program gets its own session, hence no terminal. Its input is a file in memory, which needs no writer, or a pipe for
a dialogue. It inherits only these three descriptors, and no ignored signals. Called by `forked` in the forked child.
Must not know what the program is for.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from ....core.domain import is_held
from ....files.safe_open import same_directory
from ...sandbox.entering import enter, give_up_reading_others, starter
from ...system.descriptors import close_all_but, memory_file
from ...system.own_process import ADOPTS_ORPHANS, become_subreaper, die_with_parent
from ..framing import frame, received
from ..protocol import Execute, Finished, FromKeeper, NotStarted
from .ending import end_below, end_left_in
from .memory import set_limits

_EXIT_SETUP: Final = 70
_WAITED_FOR: Final = (signal.SIGCHLD, signal.SIGINT)


def become_keeper(parent: int, report: int, stdout: int, stderr: int, stdin: int | None = None) -> NoReturn:
    """Turn this forked process into the keeper of a program; leaves only by `os._exit`.

    The host sends the request on the socket `report`, on which the keeper reports `Finished` or `NotStarted` later. An
    interrupt sends SIGTERM to the program's group. Without `stdin` the program reads the input of the request.
    """
    # Signals are blocked until `_wait` waits for them, so none is lost and none runs a handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    for number in _WAITED_FOR:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.setsid()
        become_subreaper()
        if not die_with_parent(signal.SIGKILL, parent):
            os._exit(_EXIT_SETUP)
        close_all_but(*(descriptor for descriptor in (report, stdout, stderr, stdin) if descriptor is not None))
        request = received(report)
        assert isinstance(request, Execute)
        set_limits(request.data_bytes, request.open_files)
        before = _confine(request)
        stdin = _file_of(request.stdin or b"") if stdin is None else stdin
        program = _start(request, before, stdin, stdout, stderr)
        # Otherwise the host could not see the end of the output, nor the program the end of its input.
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        answer: FromKeeper = Finished(_wait(program))
        if not ADOPTS_ORPHANS:
            end_left_in(program)
        end_below(os.getpid(), reap=_reap)
    except OSError as error:
        answer = NotStarted(error.errno or 0, error.strerror or str(error), os.fsdecode(error.filename or ""))
    except BaseException as error:
        answer = NotStarted(0, f"{type(error).__name__}: {error}", "")
    with suppress(BaseException):
        socket.socket(fileno=report).sendall(frame(answer))
    os._exit(0)


def _confine(request: Execute) -> Sequence[bytes]:
    """Sandbox this process; return what must come before the program instead, on a system that does that."""
    if request.domain is None:
        give_up_reading_others(domain=not request.allow_sudo)
        return ()
    if before := starter(request.domain):
        return tuple(map(os.fsencode, before))
    if not is_held(enter(request.domain, request.data_bytes), request.domain):
        raise PermissionError(errno.EPERM, "the program was not started, because its sandbox is unavailable here", "")
    return ()


def _file_of(data: bytes) -> int:
    """A file in memory with that content, at position 0."""
    descriptor = memory_file("stdin")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _start(request: Execute, before: Sequence[bytes], stdin: int, stdout: int, stderr: int) -> int:
    try:
        with same_directory(request.cwd, request.directory) as place:
            os.chdir(place)
    except OSError as error:
        raise OSError(error.errno, error.strerror, request.cwd) from None
    sources = (stdin, stdout, stdout if request.merged else stderr)
    if before and not os.access(request.argv[0], os.X_OK):
        os.stat(request.argv[0])  # raises what the start of a missing program raises
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), request.argv[0])
    command = (*before, *request.argv)
    return os.posix_spawn(
        command[0],
        command,
        request.variables,
        file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(sources)],
        setsid=True,
        setsigmask=[],
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )


def _wait(program: int) -> int:
    """Wait for the program and return its status; reap all others that end meanwhile."""
    while (status := _reap_ended(program)) is None:
        if signal.sigwait(_WAITED_FOR) == signal.SIGINT:
            with suppress(OSError):
                os.killpg(program, signal.SIGTERM)
    return status


def _reap_ended(program: int) -> int | None:
    status = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                status = ended[1]
    return status


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
