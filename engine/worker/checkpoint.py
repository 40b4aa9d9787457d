"""A checkpoint: a copy of the worker that waits, and from which workers are forked that go on where it is.

The copy shares the worker's memory as long as neither writes to it. It has a socket to the host; when that is closed it
ends. On it come the descriptors of a worker to be: then the copy is copied once more, and that copy takes the worker's
place, with a channel, pipes and a hand-over socket of its own. The checkpoint stays as it is, for the next time.

Not taken where a fork would not do: threads are not copied, and whoever waits for one, or for a lock that it holds,
would wait for ever. What a copy cannot have is told: processes, what is behind pipes and sockets, shared memory.

What a copy must not do is told by `own_process`; what it shares by descriptor is separated by `separation`; how it
comes to be the zygote's child is the business of `forking_off`. Must not know when checkpoints are taken. Used by
`main`.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ..cutting import plural
from .forking_off import fork_off
from .framing import frame
from .keeping.descriptors import keep_high
from .proc import children_of
from .protocol import FromCheckpoint, NotTaken, Paused
from .separation import Separated, give_outputs, open_files_anew, separate

PASSED_TO_TAKE: Final = 2
"""Descriptors of a checkpoint to be: its socket to the host, and the one on which the zygote is told."""
PASSED_TO_RESTORE: Final = 6
"""Those of a worker to be: channel, stdout and stderr pipes, hand-over socket, the socket on which outlines are asked
for, and the one on which the zygote is told."""
_RECORD: Final = 16
_EXIT_FAILED: Final = 73
_LOST_IN_FORKS: Final = {"libgomp": "OpenMP", "libcuda.so": "CUDA"}
"""Libraries that do not work in a copy: their own threads are not there, and the next call hangs or fails."""
_WRITABLE: Final = "w"
_SHARED: Final = "s"
"""In the second and the fourth place of a mapping's rights."""


class Restoring:
    """What a worker that is restored gets of the host."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        channel, stdout, stderr, handover, outlines = descriptors
        self.channel, self.handover, self.outlines = (
            socket.socket(fileno=keep_high(each)) for each in (channel, handover, outlines)
        )
        self.pipes = (stdout, stderr)


def take(handover: socket.socket, spares: tuple[int, int]) -> Restoring | None:
    """Makes a checkpoint of this worker, if that can be. None in this worker; what a restored one gets in each such.

    Where there is none, the host is told why. Without a host, or with a hand-over socket that a statement has closed,
    there is none.
    """
    try:
        passed = _received(handover, PASSED_TO_TAKE, socket.MSG_DONTWAIT)
    except (OSError, ValueError):
        return None
    life, known = (socket.socket(fileno=each) for each in passed)
    with life, known:
        started, children = time.monotonic(), len(children_of("self") or ())
        if hindrance := _hindrance():
            _say(life, NotTaken(hindrance))
            return None
        found = list[Separated]()

        def separate_all() -> None:
            handover.close()
            found.append(separate(spares, frozenset((life.fileno(), known.fileno()))))

        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            if not fork_off(known, separate_all, reaps=True):
                return None
        except OSError as error:
            _say(life, NotTaken(error.strerror or str(error)))
            return None
        else:
            return _live(life, found[0], started, children)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _live(life: socket.socket, found: Separated, started: float, children: int) -> Restoring:
    """What the copy does. Returns in the workers that are restored from it, and never raises."""
    try:
        life = socket.socket(fileno=keep_high(life.detach()))
        _say(life, Paused(time.monotonic() - started, _shared(children, found.lost)))
        restoring = _wait(life)
        give_outputs(found, restoring.pipes)
        for pipe in restoring.pipes:
            os.close(pipe)
    except BaseException:
        os._exit(_EXIT_FAILED)
    return restoring


def _wait(life: socket.socket) -> Restoring:
    """Waits for as long as the host wants the checkpoint. Returns in the workers that are restored from it."""
    while True:
        try:
            passed = _received(life, PASSED_TO_RESTORE)
        except (OSError, ValueError):
            os._exit(0)
        *rest, last = passed
        with socket.socket(fileno=last) as known:
            try:
                if fork_off(known, open_files_anew, reaps=False):
                    life.close()
                    return Restoring(rest)
            except OSError:
                pass  # the host finds the sockets closed
        for each in rest:
            os.close(each)


def _received(connection: socket.socket, number: int, flags: int = 0) -> list[int]:
    """The descriptors that come next. Raises OSError, and ValueError where they are not all there."""
    data, descriptors, _, _ = socket.recv_fds(connection, _RECORD, number, flags)
    if not data or len(descriptors) != number:
        for descriptor in descriptors:
            os.close(descriptor)
        raise ValueError("the host has gone")
    return descriptors


def _say(connection: socket.socket, message: FromCheckpoint) -> None:
    with suppress(OSError):
        connection.send(frame(message), socket.MSG_DONTWAIT)


def _hindrance() -> str:
    """Why a copy would not do, in a phrase; empty where it would."""
    others = len(sys._current_frames()) - 1  # pyright: ignore[reportPrivateUsage] -- documented
    if others:
        return f"{others} {plural(others, 'thread')} of the statements at work"
    if len(os.listdir("/proc/self/task")) > 1:
        for library, name in _LOST_IN_FORKS.items():
            if any(library in mapping for mapping in _mappings()):
                return f"threads of {name} at work"
    return ""


def _shared(children: int, lost: int) -> tuple[str, ...]:
    """What a copy has in common with others, or lacks, in phrases."""
    rights = [mapping.split(None, 2)[1] for mapping in _mappings()]
    shared = sum(each[1:2] == _WRITABLE and each[3:4] == _SHARED for each in rights)
    found = ((children, "child processes"), (lost, "open pipes and sockets"), (shared, "mappings of shared memory"))
    return tuple(f"{what}: {number}" for number, what in found if number)


def _mappings() -> list[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as listed:
            return listed.readlines()
    except OSError:
        return []
