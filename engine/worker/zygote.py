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
from .framing import FrameBuffer, ProtocolError, frame, to_zygote
from .privileges import become_unreadable
from .processes import become_subreaper, descendants, die_with_parent, end_tree, own_children, send
from .protocol import Died, Fork, Forked, FromZygote, Interrupt, Interrupted, Kill

LIVES: Final = b"L"
"""First record on the fork socket: the process runs. Sent after the host's first record, see `boot`."""
READY: Final = b"R"
"""Second record: everything is loaded, fork requests are served."""
PASSED: Final = 4
"""Descriptors that come with a fork request: control channel, worker socket, stdout and stderr pipes."""
_CHUNK: Final = 65536
_SIGNALS: Final = (signal.SIGTERM, signal.SIGCHLD)


class _Keeper:
    """What the zygote knows of one worker: its control channel, the descriptors to pass on, its process id."""

    __slots__ = ("buffer", "control", "passed", "pid")

    def __init__(self, control: socket.socket, passed: list[int]) -> None:
        self.control = control
        self.passed = passed
        self.pid: int | None = None
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

    def __init__(self, forks: socket.socket) -> None:
        self._forks = forks
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
            for descriptor, _ in self._poll.poll():
                if descriptor == self._forks.fileno():
                    self._accept()
                elif descriptor == self._wake_read.fileno():
                    self._wake_read.recv(_CHUNK)
                    self._reap()
                elif descriptor in self._keepers:
                    self._receive(self._keepers[descriptor])

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
        end_tree(descendants([os.getpid()]))
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
            end_tree([keeper.pid])
        keeper.control.close()

    def _handle(self, keeper: _Keeper, message: Fork | Interrupt | Kill) -> None:
        match message:
            case Fork():
                self._fork(keeper, message)
            case Interrupt():
                if keeper.pid is not None:
                    send(keeper.pid, signal.SIGINT)
                keeper.say(Interrupted())
            case Kill():
                if keeper.pid is not None:
                    end_tree([keeper.pid])

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
        keeper.pid = pid
        keeper.forget()
        keeper.say(Forked(pid))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            keeper = next((keeper for keeper in self._keepers.values() if keeper.pid == pid), None)
            if keeper is not None:
                keeper.pid = None
            self._end_orphans()
            if keeper is not None:
                keeper.say(Died(status))

    def _end_orphans(self) -> None:
        """Ends what dead workers left behind: a child of the zygote that is no worker was reparented to it."""
        workers = {keeper.pid for keeper in self._keepers.values()}
        # Children alone, because while a process below a worker ends, its own children seem to be below none.
        end_tree([pid for pid in own_children() or () if pid not in workers])


def main(fork_socket: int, host: int, with_thread: bool) -> None:
    """Becomes the zygote of the process `host`.

    Args:
        fork_socket: an inherited SOCK_SEQPACKET descriptor; each record carries the four descriptors of one worker.
        host: the process id of the parent; when it is not the parent any more the zygote leaves at once.
        with_thread: whether the host's spawning thread lives as long as the host, so that its end may be a signal.
    """
    forks = socket.socket(fileno=fork_socket)
    os.set_inheritable(fork_socket, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become_unreadable()
    become_subreaper()
    zygote = ZygoteLoop(forks)
    zygote.announce(LIVES)
    signal.signal(signal.SIGCHLD, zygote.notice)
    # SIGTERM, because SIGKILL would end the zygote before it can end its descendants.
    signal.signal(signal.SIGTERM, zygote.leave)
    if with_thread and not die_with_parent(signal.SIGTERM, host):
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
