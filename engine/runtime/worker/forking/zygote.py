"""The zygote: one single-threaded process per host that forks workers and keepers of programs, the parent of all.

Loads once what all workers share, then serves three kinds of sockets: the fork socket, which closes when the host is
gone; a control channel for each forked process; and sockets for outlines (`outlining`). Runs no user code. It must not
have threads or state that a fork cannot copy. Started by `boot`; its other end is `runtime.zygote`.

It is the parent and the subreaper, so ids of its children are not reused before it has reaped them. All signals and all
ending of processes go through it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import time
from typing import Final, NoReturn

from ....core import tokens
from ....core.tokens import counter
from ...system import passing
from ...system.brands import Brand
from ...system.own_process import (
    ADOPTS_ORPHANS,
    become_subreaper,
    become_unreadable,
    die_with_parent,
    give_back_memory,
    send,
    take_brand,
    take_precedence,
)
from ...system.process_table import children_of, is_below, session_of
from ...system.waiting import READABLE, Poller
from ..framing import ProtocolError, to_zygote
from ..processes.ending import end_all, end_all_but, end_alone, end_below, end_left_behind, end_left_in, end_tree
from ..processes.memory import Watch as MemoryWatch
from ..processes.memory import is_full
from ..protocol import Adopt, Died, Interrupt, Interrupted, Kill, Start, ToZygote, Watch
from . import realm
from .forked import ExpectedCopies, ForkedProcess, readable
from .outlining import Parsers
from .realm import NOT_STILL, STAND_STILL, Stillness

LIVES: Final = b"L"
"""The first record on the fork socket: the process runs. Sent after the host's first record, see `boot`."""
READY: Final = b"R"
"""The second record: everything is loaded, and fork requests are served."""
PASSED: Final = (4, 5)
"""The possible numbers of descriptors of a fork request: control channel, the process's socket, stdout and stderr
pipes; and the hand-over socket of a worker, or the stdin pipe of a program."""
ADOPTED: Final = 2
"""The number for a copy of a worker: control channel, and the socket on which it reports."""
ASKS: Final = 1
"""The number for requests that pass one socket: for outlines, a realm's fork socket, or one that stops a realm."""
REALM: Final = b"N"
"""The record of the request for a realm."""
_CHUNK: Final = 65536
_AGAIN_SECONDS: Final = 0.1
"""Between two checks of orphans that have not ended yet."""
_ROOM_SECONDS: Final = 5.0
"""The longest wait for killed processes to be gone."""
_ROOM_LOOK_SECONDS: Final = 0.005
_IDLE_SECONDS: Final = 1.0
"""After this time without a request, leftovers of dead hosts are ended, because nobody waits then."""


class ZygoteLoop:
    """The loop over the fork socket, the control channels and the ends of children."""

    def __init__(self, forks: socket.socket, *, is_swept: bool, outside: int = -1) -> None:
        self._forks = forks
        self._is_swept = is_swept
        self._outside = outside
        """In a realm, a descriptor of the outer /proc."""
        self._realms: set[int] = set()
        """The zygotes of realms."""
        self._without_realms = ""
        """Why process namespaces are unavailable for realms."""
        self._has_orphans = False
        self._memory = MemoryWatch(lambda: bool(readable(self._processes.keys())), in_realm=outside >= 0)
        self._poll = Poller()
        self._poll.register(forks.fileno(), READABLE)
        self._processes: dict[int, ForkedProcess] = {}
        self._copies = ExpectedCopies(self._poll)
        self._still = Stillness(self._poll)
        self._queued: dict[ForkedProcess, Start] = {}
        """Processes to start when the others are no longer stopped."""
        self._parsers = Parsers(self._poll)
        self._wake_read, wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        wake_write.setblocking(False)
        self._wake_write = wake_write
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        self._poll.register(self._wake_read.fileno(), READABLE)

    def serve(self) -> NoReturn:
        """Serve until the host is gone; then leave the process."""
        while True:
            self._still.free_late()
            if not self._still:
                self._start_queued()
            # One at a time, because the work for one may have served another already.
            ready = self._poll.poll(self._patience(), 1)
            if not self._still:  # because a look, or ending processes, would continue the stopped ones
                self._look_at_memory()
            if not ready:
                self._use_idle_time()
            for descriptor, _ in ready:
                self._serve(descriptor)

    def _serve(self, descriptor: int) -> None:
        if descriptor == self._forks.fileno():
            self._accept()
        elif descriptor == self._wake_read.fileno():
            self._wake_read.recv(_CHUNK)
            self._reap()
        elif descriptor in self._processes:
            self._receive(self._processes[descriptor])
        elif self._still.has(descriptor):
            self._still.end(descriptor)
        elif self._copies.has(descriptor):
            self._copies.take_in()
        elif self._parsers.has(descriptor):
            self._parsers.serve(descriptor)

    def _patience(self) -> float | None:
        """Seconds until there is other work than requests; None if there is none."""
        is_due = self._has_orphans or self._still.has_late
        otherwise = _AGAIN_SECONDS if is_due else None if self._is_swept else _IDLE_SECONDS
        look = self._memory.patience()
        return otherwise if look is None else look if otherwise is None else min(look, otherwise)

    def _use_idle_time(self) -> None:
        if self._has_orphans:
            self._end_orphans()
        elif not self._is_swept and not self._memory.is_busy:
            self._sweep()

    def _look_at_memory(self) -> None:
        for pid, reason in self._memory.look():
            if process := self._process_of(pid):
                process.reason = reason
            self._memory.end(pid)
            self._end_tree(pid)

    def _sweep(self) -> None:
        """Once: end leftovers of hosts that were killed together with their zygotes."""
        self._is_swept = True
        end_left_behind()

    def announce(self, record: bytes) -> None:
        """Report the progress of the start to the host; leave if it is gone."""
        try:
            self._forks.send(record)
        except OSError:
            self.leave()

    def notice(self, *_: object) -> None:
        """Handle SIGCHLD: the wake-up descriptor is enough for the loop."""

    def leave(self, *_: object) -> None:
        """End every descendant, then this process; also the handler of SIGTERM."""
        end_below(os.getpid(), reap=self._reap_orphan)
        if not self._is_swept:
            self._sweep()
        os._exit(0)

    def _accept(self) -> None:
        try:
            data, passed = passing.receive(self._forks, max(PASSED))
        except OSError:
            self.leave()
            return
        if not data:
            self.leave()
        if len(passed) == ASKS:
            if data == REALM:
                self._begin_realm(passed[0])
            elif data == STAND_STILL:
                self._stand_still(passed[0])
            else:
                self._parsers.add(socket.socket(fileno=passed[0]))
            return
        if len(passed) not in (ADOPTED, *PASSED):  # the host's record to load, or a request that lost its descriptors
            for descriptor in passed:
                os.close(descriptor)
            return
        control = socket.socket(fileno=passed[0])
        process = ForkedProcess(control, passed[1:], self._parsers.ask, self._number_of)
        self._processes[control.fileno()] = process
        self._poll.register(control.fileno(), READABLE)
        if len(passed) == ADOPTED:
            self._copies.add(process)

    def _stand_still(self, descriptor: int) -> None:
        if self._outside >= 0:
            self._still.begin(descriptor)
        else:  # because then it would be all processes of the user
            with socket.socket(fileno=descriptor) as wanted, contextlib.suppress(OSError):
                wanted.send(NOT_STILL)

    def _begin_realm(self, descriptor: int) -> None:
        """Fork the zygote of a realm, in its own process namespace if available."""
        begun = realm.Begun(0, self._without_realms)
        if not begun.missing:
            begun = realm.begin(descriptor, serve_realm, apart=True)
            self._without_realms = begun.missing
        if begun.missing:
            begun = realm.begin(descriptor, serve_realm, apart=False)
        if begun.pid:
            self._realms.add(begun.pid)
        os.close(descriptor)

    def _number_of(self, pid: int) -> int:
        return realm.number_outside(pid, self._outside)

    def _receive(self, process: ForkedProcess) -> None:
        # Because a copy may have reported, and the message may be for it.
        self._copies.take_in()
        try:
            data = process.control.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._drop(process)
            return
        try:
            process.buffer.feed(data)
            while (body := process.buffer.next()) is not None:
                self._handle(process, to_zygote(body))
        except ProtocolError as error:
            process.say(Died(-1, f"control channel: {error}"))
            self._drop(process)

    def _drop(self, process: ForkedProcess) -> None:
        self._poll.unregister(process.control.fileno())
        self._queued.pop(process, None)
        was_expected = self._copies.give_up(process)
        del self._processes[process.control.fileno()]
        process.forget()
        self._end(process)
        process.control.close()
        if was_expected:
            self._end_orphans()

    def _end(self, process: ForkedProcess) -> None:
        # A false copy, made by a statement, is not our child, so its id may have been reused.
        if process.pid is None or not is_below(process.pid, os.getpid()):
            return
        if process.pauses:
            # Processes below a false copy, made by a statement, are orphans then.
            send(process.pid, signal.SIGKILL)
        else:
            self._end_tree(process.pid)

    def _give_up(self, process: ForkedProcess) -> None:
        """Give up a process; it is not started if it still waits for that."""
        if self._queued.pop(process, None) is not None:
            process.say(Died(-1, "the process was ended before its start"))
            process.forget()

    def _make_room(self) -> None:
        """Wait until killed processes of a realm are gone, because each uses a process id until then."""
        deadline = time.monotonic() + _ROOM_SECONDS
        while self._outside >= 0 and is_full() and time.monotonic() < deadline:
            self._reap()
            time.sleep(_ROOM_LOOK_SECONDS)

    def _end_tree(self, pid: int) -> None:
        if self._outside < 0:
            end_tree(pid, self._reap_orphan)
        elif end_alone(pid):
            pass
        elif self._known() == {pid} and not self._copies:
            end_all()
        else:
            end_all_but(lambda: self._spared() - {pid})

    def _spared(self) -> set[int]:
        """The children that are not orphans."""
        return {pid for pid in children_of("self") or () if not self._is_orphan(pid)}

    def _handle(self, process: ForkedProcess, message: ToZygote) -> None:
        match message:
            case Start():
                self._start(process, message)
            case Adopt():
                process.adopt_with(message)
            case Interrupt():
                if process.pid is not None:
                    send(process.pid, signal.SIGINT)
                process.say(Interrupted())
            case Kill():
                self._give_up(process)
                self._end(process)
            case Watch(on=on):
                if process.pid is not None and on:
                    self._memory.begin(process.pid, process.limit, process.who, process.domain)
                elif process.pid is not None:
                    self._memory.rest(process.pid, process.limit, process.domain)

    def _start(self, process: ForkedProcess, request: Start) -> None:
        """Fork the process; later, if all others are stopped now."""
        if self._still:
            self._queued.setdefault(process, request)
        else:
            self._make_room()
            process.fork(request)

    def _start_queued(self) -> None:
        queued, self._queued = self._queued, {}
        for process, request in queued.items():
            self._start(process, request)

    def _reap(self) -> None:
        """Reap dead children, end leftovers of dead workers, and report the ends of requested processes."""
        died: list[tuple[ForkedProcess, int]] = []
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if os.WIFSTOPPED(status):  # a thread that was stopped
                    continue
                self._memory.end(pid)
                self._realms.discard(pid)
                self._parsers.ended(pid, status)
                if process := self._process_of(pid):
                    process.pid = None
                    died.append((process, status))
                    if not ADOPTS_ORPHANS:
                        end_left_in(pid)
        self._end_orphans()
        for process, status in died:
            process.say(Died(status, process.reason))

    def _process_of(self, pid: int) -> ForkedProcess | None:
        return next((process for process in self._processes.values() if process.pid == pid), None)

    def _reap_orphan(self, pid: int) -> None:
        """Reap a dead leftover of a worker. Workers are left to `_reap`, which reports their ends."""
        if pid not in self._known():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _end_orphans(self) -> None:
        """End leftovers of dead workers: children of the zygote that are not workers were reparented to it."""
        unknown = (children_of("self") or frozenset()) - self._known()
        # Repeated until there are none, because one that was missed may never end, and so never be noticed.
        self._has_orphans = bool(unknown)
        if self._still:
            return
        if any(map(self._is_orphan, unknown)):
            if self._outside < 0:
                end_below(os.getpid(), self._is_orphan, self._reap_orphan)
            else:
                end_all_but(self._spared)
                for pid in unknown:
                    self._reap_orphan(pid)

    def _is_orphan(self, pid: int) -> bool:
        """Whether a child is neither one of ours nor a copy that has not reported yet (`checkpoint`)."""
        session = session_of(pid)
        # In this order: a copy is announced before it is made, and reports before it leaves its original's session.
        while readable((self._forks.fileno(),)):
            self._accept()
        self._copies.take_in()
        known = self._known()
        return pid not in known and not (self._copies and session in known)

    def _known(self) -> set[int]:
        forked = (process.pid for process in self._processes.values() if process.pid is not None)
        return self._parsers.pids.union(self._realms, forked)


def serve_realm(fork_socket: int, outside: int) -> NoReturn:
    """Become the zygote of a realm, in a process that has loaded everything. Arguments from `realm.begin`."""
    forks = socket.socket(fileno=fork_socket)
    zygote = ZygoteLoop(forks, is_swept=True, outside=outside)
    zygote.announce(LIVES)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, zygote.notice)
    signal.signal(signal.SIGTERM, zygote.leave)
    zygote.serve()


def main(fork_socket: int, brand: Brand, with_thread: bool, is_swept: bool) -> None:
    """Become the zygote of the host that the brand names.

    Args:
        fork_socket: an inherited socket of `passing`; each record carries the descriptors of one request.
        brand: of this process and all below it. The zygote leaves at once if the host is not its parent any more.
        with_thread: whether the host's spawning thread lives as long as the host, so that its end may send a signal.
        is_swept: whether leftovers of dead hosts were ended already.
    """
    forks = socket.socket(fileno=fork_socket)
    os.set_inheritable(fork_socket, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become_unreadable()
    become_subreaper()
    take_precedence()
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
    _load_later()
    zygote.serve()


def _load() -> None:
    tokens.load()
    counter()("the first count builds what counting needs")
    gc.collect()
    give_back_memory()  # 4 MB that reading the ranks needed temporarily
    gc.freeze()


def _load_later() -> None:
    """Load modules that the first statement does not need. Workers that exist by then load them when needed."""
    from ..guarding.outside import load as load_unaudited
    from ..keeping import value_keeper
    from ..statements import executor
    from . import checkpoint, outlining

    del checkpoint, value_keeper, outlining, executor
    load_unaudited()
    gc.freeze()
