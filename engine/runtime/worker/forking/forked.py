"""The zygote's records of the processes that it forks, and of expected copies of workers.

`ForkedProcess` has the control channel, the descriptors and the id of one process, and forks it. `ExpectedCopies` are
copies of workers that the host announced and that have not reported yet, with the sockets for their reports. Must not
know when a process is ended, nor what it does. Used by `zygote`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable, Collection
from typing import Final, NoReturn

from ....core.domain import Domain
from ...sandbox.entering import prepare
from ...system.descriptors import receive_named
from ...system.process_table import is_below
from ...system.waiting import READABLE, Poller
from ..framing import FrameBuffer, frame
from ..processes import program
from ..protocol import Adopt, Died, Forked, FromZygote, Start
from ..writes import opening
from . import child

HANDLED: Final = (signal.SIGTERM, signal.SIGCHLD)
"""The signals that the zygote has handlers for."""


class ForkedProcess:
    """One process, and the channel of the host's request for it.

    `limit` is the memory limit of its tree in bytes, `domain` is its sandbox, `who` its name in reasons, and `reason`
    says why the zygote ended it. One that `pauses` starts nothing. `ask_outlines` returns the descriptor on which a
    worker asks for outlines, `number_of` a process's id in the host's namespace.
    """

    __slots__ = (
        "ask_outlines", "buffer", "control", "domain", "limit", "number_of", "passed", "pauses", "pid", "reason", "who"
    )  # fmt: skip

    def __init__(
        self,
        control: socket.socket,
        passed: list[int],
        ask_outlines: Callable[[], socket.socket],
        number_of: Callable[[int], int],
    ) -> None:
        self.control = control
        self.number_of = number_of
        self.ask_outlines = ask_outlines
        self.passed = passed
        self.pid: int | None = None
        self.limit = 0
        self.domain: Domain | None = None
        self.pauses = False
        self.who = ""
        self.reason = ""
        self.buffer = FrameBuffer()

    def say(self, message: FromZygote) -> None:
        # Because the host may be gone, or have closed the session.
        with contextlib.suppress(OSError):
            self.control.sendall(frame(message))

    def say_forked(self, pid: int) -> None:
        with contextlib.suppress(OSError):  # because it has ended, which is reported later
            self.say(Forked(self.number_of(pid)))

    def take_known(self) -> socket.socket:
        """The socket on which a copy reports; it was passed last."""
        return socket.socket(fileno=self.passed.pop())

    def adopt_with(self, request: Adopt) -> None:
        self.limit, self.domain, self.who = request.data_bytes, request.domain, "the statement"
        self.pauses = request.pauses

    def adopt(self, known: socket.socket) -> None:
        """Take the sender on the socket as this process, if it is below the zygote; tell the host."""
        pid = said_by(known)
        if pid and is_below(pid, os.getpid()):
            self.pid = pid
            self.say_forked(pid)
        else:
            self.say(Died(-1, "the process was not copied"))
        known.close()

    def forget(self) -> None:
        """Close the descriptors that were to be passed on."""
        for descriptor in self.passed:
            os.close(descriptor)
        self.passed = []

    def fork(self, request: Start) -> None:
        """Start the process, unless it was started before, and tell the host."""
        if self.pid is not None or not self.passed:
            return
        parent = os.getpid()
        if request.domain is not None:
            prepare(request.domain)
            if not request.is_keeper:
                opening.prepare()
        try:
            with contextlib.ExitStack() as given:
                outlines = -1 if request.is_keeper else given.enter_context(self.ask_outlines()).fileno()
                pid = fork(lambda: self._become(parent, outlines))
        except OSError as error:
            self.say(Died(-1, f"fork failed: {error}"))
            self.forget()
            return
        self.pid, self.limit, self.domain = pid, request.data_bytes, request.domain
        self.who = "the program" if request.is_keeper else "the statement"
        self.forget()
        self.say_forked(pid)

    def _become(self, parent: int, outlines: int) -> NoReturn:
        """Run the forked process; does not return."""
        if outlines >= 0:
            connection, stdout, stderr, handover = self.passed
            child.become_worker(parent, connection, stdout, stderr, handover, outlines)
        connection, stdout, stderr, *stdin = self.passed
        program.become_keeper(parent, connection, stdout, stderr, *stdin)


def said_by(connection: socket.socket) -> int:
    """The process that sent the next record, according to the kernel; 0 if unknown."""
    with contextlib.suppress(OSError):
        data, pid = receive_named(connection, socket.MSG_DONTWAIT)
        if data:
            return pid
    return 0


def fork(become: Callable[[], NoReturn]) -> int:
    """Fork a child of the zygote, which calls `become`; return its process id. Raises OSError."""
    # A signal between fork and the child's own handlers would run the zygote's handlers in the child.
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in HANDLED:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            become()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    return pid


# --- copies of workers ------------------------------------------------------------------------------------------------


class ExpectedCopies:
    """The expected copies by the descriptors of their sockets, which are in `poll`."""

    def __init__(self, poll: Poller) -> None:
        self._poll = poll
        self._copies: dict[int, tuple[socket.socket, ForkedProcess]] = {}

    def __bool__(self) -> bool:
        return bool(self._copies)

    def has(self, descriptor: int) -> bool:
        return descriptor in self._copies

    def add(self, process: ForkedProcess) -> None:
        known = process.take_known()
        self._copies[known.fileno()] = known, process
        self._poll.register(known.fileno(), READABLE)

    def take_in(self) -> None:
        """Adopt the copies that have reported. Does not wait."""
        for descriptor in readable(self._copies):
            known, process = self._take(descriptor)
            process.adopt(known)

    def give_up(self, process: ForkedProcess) -> bool:
        """Stop expecting a copy; return whether it was expected."""
        descriptors = [descriptor for descriptor, (_, copy) in self._copies.items() if copy is process]
        for descriptor in descriptors:
            known, _ = self._take(descriptor)
            known.close()
        return bool(descriptors)

    def _take(self, descriptor: int) -> tuple[socket.socket, ForkedProcess]:
        self._poll.unregister(descriptor)
        return self._copies.pop(descriptor)


def readable(descriptors: Collection[int]) -> list[int]:
    """The descriptors that are readable now."""
    if not descriptors:
        return []
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(0)]
