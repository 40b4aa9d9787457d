"""The zygote: one single-threaded process per host that forks workers, and the parent of everything they start.

Loads once what all workers share, then serves two kinds of socket: the fork socket, whose closing means that the host
is gone, and one control channel per worker. Runs nothing of the user's. It must not hold threads or state that a fork
could not copy. Started by `boot`; its other end is `environment.zygote`.

It is the parent and the subreaper, so ids of its children cannot be reused before it has reaped them: all signals and
all ending of processes go through it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
from typing import Final

from .. import tokens
from ..tokens import counter
from . import child
from .brands import Brand
from .ending import end_below, end_left_behind, end_tree
from .framing import FrameBuffer, ProtocolError, frame, to_zygote
from .memory import Watch as MemoryWatch
from .privileges import become_unreadable
from .proc import children_of
from .processes import become_subreaper, die_with_parent, send, take_brand
from .protocol import Died, Fork, Forked, FromZygote, Interrupt, Interrupted, Kill, ToZygote, Watch

LIVES: Final = b"L"
"""First record on the fork socket: the process runs. Sent after the host's first record, see `boot`."""
READY: Final = b"R"
"""Second record: everything is loaded, fork requests are served."""
PASSED: Final = 4
"""Descriptors that come with a fork request: control channel, worker socket, stdout and stderr pipes."""
_CHUNK: Final = 65536
_SIGNALS: Final = (signal.SIGTERM, signal.SIGCHLD)
_AGAIN_SECONDS: Final = 0.1
"""Between two looks at orphans that have not ended yet."""
_IDLE_SECONDS: Final = 1.0
"""Without a request, before what dead hosts left behind is ended: nobody waits then."""


class _Keeper:
    """What the zygote knows of one worker: its control channel, the descriptors to pass on, its process id.

    And how much memory its processes may hold, in bytes, and why it was ended, where we did.
    """

    __slots__ = ("buffer", "control", "limit", "passed", "pid", "reason")

    def __init__(self, control: socket.socket, passed: list[int]) -> None:
        self.control = control
        self.passed = passed
        self.pid: int | None = None
        self.limit = 0
        self.reason = ""
        self.buffer = FrameBuffer()

    def say(self, message: FromZygote) -> None:
        # The host may have gone or closed the session; then there is nobody to report to.
        with contextlib.suppress(OSError):
            self.control.sendall(frame(message))

    def forget(self) -> None:
        for descriptor in self.passed:
            os.close(descriptor)
        self.passed = []


class ZygoteLoop:
    """The loop over the fork socket, the control channels and the ends of children."""

    def __init__(self, forks: socket.socket, *, is_swept: bool) -> None:
        self._forks = forks
        self._is_swept = is_swept
        self._has_orphans = False
        self._memory = MemoryWatch()
        self._poll = select.epoll()
        self._poll.register(forks.fileno(), select.EPOLLIN)
        self._keepers: dict[int, _Keeper] = {}
        self._wake_read, wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        wake_write.setblocking(False)
        self._wake_write = wake_write
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        self._poll.register(self._wake_read.fileno(), select.EPOLLIN)

    def serve(self) -> None:
        """Never returns: leaves the process when the host is gone."""
        while True:
            ready = self._poll.poll(self._patience())
            self._look_at_memory()
            if not ready:
                self._use_idle_time()
            for descriptor, _ in ready:
                if descriptor == self._forks.fileno():
                    self._accept()
                elif descriptor == self._wake_read.fileno():
                    self._wake_read.recv(_CHUNK)
                    self._reap()
                elif descriptor in self._keepers:
                    self._receive(self._keepers[descriptor])

    def _patience(self) -> float | None:
        """Seconds to wait for a request before there is something else to do; None for ever."""
        otherwise = _AGAIN_SECONDS if self._has_orphans else None if self._is_swept else _IDLE_SECONDS
        look = self._memory.patience()
        return otherwise if look is None else look if otherwise is None else min(look, otherwise)

    def _use_idle_time(self) -> None:
        if self._has_orphans:
            self._end_orphans()
        elif self._memory.patience() is None:
            self._sweep()

    def _look_at_memory(self) -> None:
        for pid, reason in self._memory.look():
            if keeper := self._keeper_of(pid):
                keeper.reason = reason
            self._memory.end(pid)
            end_tree(pid, self._reap_orphan)

    def _sweep(self) -> None:
        """Once in a zygote's life: ends what hosts left that were killed with their zygotes."""
        self._is_swept = True
        end_left_behind()

    def announce(self, record: bytes) -> None:
        """Reports to the host how far the start is; leaves where there is no host any more."""
        try:
            self._forks.send(record)
        except OSError:
            self.leave()

    def notice(self, *_: object) -> None:
        """Handles SIGCHLD: the wake-up descriptor has what the loop needs."""

    def leave(self, *_: object) -> None:
        """Ends every descendant, then this process; also the handler of SIGTERM."""
        end_below(os.getpid(), reap=self._reap_orphan)
        if not self._is_swept:
            self._sweep()
        os._exit(0)

    def _accept(self) -> None:
        try:
            data, passed, _, _ = socket.recv_fds(self._forks, 1, PASSED)
        except OSError:
            self.leave()
            return
        if not data:
            self.leave()
        if len(passed) != PASSED:  # the host's record to load, or a request that lost its descriptors
            for descriptor in passed:
                os.close(descriptor)
            return
        control = socket.socket(fileno=passed[0])
        for descriptor in passed:
            os.set_inheritable(descriptor, False)
        self._keepers[control.fileno()] = _Keeper(control, passed[1:])
        self._poll.register(control.fileno(), select.EPOLLIN)

    def _receive(self, keeper: _Keeper) -> None:
        try:
            data = keeper.control.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._drop(keeper)
            return
        try:
            keeper.buffer.feed(data)
            while (body := keeper.buffer.next()) is not None:
                self._handle(keeper, to_zygote(body))
        except ProtocolError as error:
            keeper.say(Died(-1, f"control channel: {error}"))
            self._drop(keeper)

    def _drop(self, keeper: _Keeper) -> None:
        self._poll.unregister(keeper.control.fileno())
        del self._keepers[keeper.control.fileno()]
        keeper.forget()
        if keeper.pid is not None:
            end_tree(keeper.pid, self._reap_orphan)
        keeper.control.close()

    def _handle(self, keeper: _Keeper, message: ToZygote) -> None:
        match message:
            case Fork():
                self._fork(keeper, message)
            case Interrupt():
                if keeper.pid is not None:
                    send(keeper.pid, signal.SIGINT)
                keeper.say(Interrupted())
            case Kill():
                if keeper.pid is not None:
                    end_tree(keeper.pid, self._reap_orphan)
            case Watch(on=on):
                if keeper.pid is not None and on:
                    self._memory.begin(keeper.pid, keeper.limit)
                elif keeper.pid is not None:
                    self._memory.end(keeper.pid)

    def _fork(self, keeper: _Keeper, request: Fork) -> None:
        if keeper.pid is not None or not keeper.passed:
            return
        parent = os.getpid()
        # A signal between fork and the child's own handlers would run the zygote's handlers in the child.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            keeper.say(Died(-1, f"fork failed: {error}"))
            keeper.forget()
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            worker_socket, stdout, stderr = keeper.passed
            child.become_worker(request, parent, worker_socket, stdout, stderr)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        keeper.pid, keeper.limit = pid, request.data_bytes
        keeper.forget()
        keeper.say(Forked(pid))

    def _reap(self) -> None:
        """Reaps all that has ended, ends what dead workers left, and reports the workers among them."""
        died: list[tuple[_Keeper, int]] = []
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                self._memory.end(pid)
                if keeper := self._keeper_of(pid):
                    keeper.pid = None
                    died.append((keeper, status))
        self._end_orphans()
        for keeper, status in died:
            keeper.say(Died(status, keeper.reason))

    def _keeper_of(self, pid: int) -> _Keeper | None:
        return next((keeper for keeper in self._keepers.values() if keeper.pid == pid), None)

    def _reap_orphan(self, pid: int) -> None:
        """Reaps what a dead worker left and has ended; a worker is left to `_reap`, which reports its end."""
        if self._keeper_of(pid) is None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _end_orphans(self) -> None:
        """Ends what dead workers left behind: a child of the zygote that is no worker was reparented to it."""
        workers = {keeper.pid for keeper in self._keepers.values() if keeper.pid is not None}
        # Again until there are none, because one that was missed may never end by itself and so never be noticed.
        self._has_orphans = bool((children_of("self") or frozenset()) - workers)
        if self._has_orphans:
            end_below(os.getpid(), spared=workers, reap=self._reap_orphan)


def main(fork_socket: int, brand: Brand, with_thread: bool, is_swept: bool) -> None:
    """Becomes the zygote of the process that the brand names.

    Args:
        fork_socket: an inherited SOCK_SEQPACKET descriptor; each record carries the four descriptors of one worker.
        brand: for this process and all below it. When its host is not the parent any more the zygote leaves at once.
        with_thread: whether the host's spawning thread lives as long as the host, so that its end may be a signal.
        is_swept: whether what dead hosts left behind was ended already.
    """
    forks = socket.socket(fileno=fork_socket)
    os.set_inheritable(fork_socket, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become_unreadable()
    become_subreaper()
    take_brand(brand)
    zygote = ZygoteLoop(forks, is_swept=is_swept)
    zygote.announce(LIVES)
    signal.signal(signal.SIGCHLD, zygote.notice)
    # SIGTERM, because SIGKILL would end the zygote before it can end its descendants.
    signal.signal(signal.SIGTERM, zygote.leave)
    if with_thread and not die_with_parent(signal.SIGTERM, brand.host):
        zygote.leave()
    _load()
    zygote.announce(READY)
    zygote.serve()


def _load() -> None:
    tokens.load()
    counter()("the first count builds what counting needs")
    gc.collect()
    gc.disable()
    gc.freeze()
