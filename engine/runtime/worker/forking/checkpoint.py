"""A checkpoint: a copy of the worker that waits, and from which workers are forked that go on where it is.

The copy shares the worker's memory as long as neither writes to it. It has a socket to the host; when that is closed it
ends. On it come the descriptors of a worker to be: then the copy is copied once more, and that copy takes the worker's
place, with a channel, pipes and a hand-over socket of its own. The checkpoint stays as it is, for the next time.

It waits in the middle of its fork, where that can be: what Python and the statements' modules do in a forked process is
left to the workers that are restored. So it writes to little memory, and nothing of a statement's runs in it.

Not taken where a fork would not do: threads are not copied, and whoever waits for one, or for a lock that it holds,
would wait for ever. What a copy cannot have is told: processes, what is behind pipes and sockets, shared memory.

What a copy must not do is told by `own_process`; what it shares by descriptor is separated by `separation`; how it
comes to be the zygote's child is the business of `forking_off`. Must not know when checkpoints are taken. Used by
`main`.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from ....core.text import plural
from ..framing import frame
from ..keeping.descriptors import keep_high
from ..processes.proc import children_of
from ..processes.system import block_signals, set_blocked
from ..protocol import FromCheckpoint, NotTaken, Paused
from .forking_off import Coming, fork_off
from .separation import Shared, give_outputs, open_files_anew, separate, shared

PASSED_TO_TAKE: Final = 2
"""Descriptors of a checkpoint to be: its socket to the host, and the one on which the zygote is told."""
PASSED_TO_RESTORE: Final = 6
"""Those of a worker to be: channel, stdout and stderr pipes, hand-over socket, the socket on which outlines are asked
for, and the one on which the zygote is told."""
_RECORD: Final = 16
_EXIT_FAILED: Final = 73
_LOST_IN_FORKS: Final = {b"libgomp": "OpenMP", b"libcuda.so": "CUDA"}
"""Libraries that do not work in a copy: their own threads are not there, and the next call hangs or fails."""
_SHARED: Final = (b" rw-s ", b" rwxs ", b" -w-s ", b" -wxs ")
"""Rights of a mapping in which others see what is written."""
_CHUNK: Final = 4096


class Restoring:
    """What a worker that is restored gets of the host."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        channel, stdout, stderr, handover, outlines = descriptors
        self.channel, self.handover, self.outlines = (
            socket.socket(fileno=keep_high(each)) for each in (channel, handover, outlines)
        )
        self.pipes = (stdout, stderr)


def take(handover: socket.socket, spares: tuple[int, int]) -> Restoring | Coming | None:
    """Makes a checkpoint of this worker, if that can be. Returns also in each worker that is restored from it.

    In this one what is to be waited for before anything of a statement's runs. Where there is no checkpoint, it is None
    and the host is told why. Without a host, or with a hand-over socket that a statement has closed, there is none.
    """
    try:
        passed = _received(handover, PASSED_TO_TAKE, socket.MSG_DONTWAIT)
    except (OSError, ValueError):
        return None
    # What it is need not be asked for.
    life, known = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=passed[0]), passed[1]
    started, children, hindrance = time.monotonic(), len(children_of("self") or ()), _hindrance()
    coming, found, blocked = None, None, block_signals()
    try:
        if not hindrance:
            found = shared(spares, frozenset(passed))
            pause = _Pause(life, found, started, children)
            coming = fork_off(known, partial(separate, found), pause.live, reaps=True, shares=found.has_statements)
            if coming is None:
                return pause.over()
    except OSError as error:
        hindrance = error.strerror or str(error)
    finally:
        set_blocked(blocked)
    if hindrance:
        _say(life, NotTaken(hindrance))
    if found is not None:
        found.close()
    life.close()
    os.close(known)
    return coming


class _Pause:
    """What a copy does until it is wanted. `started` is when it was asked for, `children` are those of its original."""

    def __init__(self, life: socket.socket, found: Shared, started: float, children: int) -> None:
        self._life = life
        self._found = found
        self._started = started
        self._children = children
        self._passed: list[int] = []

    def live(self, amid: bool) -> None:
        """Waits for as long as the host wants the checkpoint. Returns in the workers that are restored from it."""
        try:
            in_common = _in_common(self._children, self._found.lost)
            _say(self._life, Paused(time.monotonic() - self._started, in_common))
            while self._is_original(amid):
                for each in self._passed:
                    os.close(each)
        except BaseException:
            os._exit(_EXIT_FAILED)

    def _is_original(self, amid: bool) -> bool:
        """Whether this is the process that has waited, and not a worker that was restored from it."""
        try:
            self._passed = _received(self._life, PASSED_TO_RESTORE)
        except (OSError, ValueError):
            os._exit(0)
        with suppress(OSError):  # the host finds the sockets closed
            coming = fork_off(
                self._passed[-1], partial(open_files_anew, self._found), reaps=False, shares=True, amid=amid
            )
            if coming is None:
                return False
            coming.wait()
        return True

    def over(self) -> Restoring:
        """For a worker that was restored."""
        try:
            self._life.close()
            restoring = Restoring(self._passed[:-1])
            give_outputs(self._found, restoring.pipes)
            for pipe in restoring.pipes:
                os.close(pipe)
        except BaseException:
            os._exit(_EXIT_FAILED)
        return restoring


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
            if library in _mappings():
                return f"threads of {name} at work"
    return ""


def _in_common(children: int, lost: int) -> tuple[str, ...]:
    """What a copy has in common with others, or lacks, in phrases."""
    mappings = _mappings()
    shared = sum(map(mappings.count, _SHARED))
    found = ((children, "child processes"), (lost, "open pipes and sockets"), (shared, "mappings of shared memory"))
    return tuple(f"{what}: {number}" for number, what in found if number)


def _mappings() -> bytes:
    """What the kernel says of the mappings of this process, a line for each; empty where it cannot be read."""
    pieces = list[bytes]()
    with suppress(OSError):
        # Not by `open`, which is a long way here.
        descriptor = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
        while piece := os.read(descriptor, _CHUNK):
            pieces.append(piece)
        os.close(descriptor)
    return b"".join(pieces)
