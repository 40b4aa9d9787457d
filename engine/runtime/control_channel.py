"""The control channel of a forked process, the reader of worker messages, and how a worker ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..log.events import EVENTS, UNSTAMPED, Event
from ..log.events.codec import UndecodableEventError
from ..log.events.codec import decode as decode_event
from ..log.redaction import Redactor, redact_event, redact_struct
from .realm import Realm
from .worker.channel import EXIT_CHANNEL_LOST
from .worker.framing import FrameBuffer, ProtocolError, decode, decoder_of, frame, from_zygote
from .worker.protocol import (
    Adopt,
    Died,
    Execute,
    Fork,
    Forked,
    FromCheckpoint,
    FromWorker,
    Interrupt,
    Interrupted,
    Kill,
    Watch,
)
from .zygote import Zygote

# How a worker ended, in words that a user reads in the record of an execution. Used by the connections.


class Death(Struct, frozen=True):
    """The worker is gone, and why, in words. `again`: it was never there, and another parent may well have one."""

    reason: str
    again: bool = False


def describe_status(status: int, who: str) -> str:
    """What `waitpid` said, in words; `who` ended: the worker, or a program's keeper."""
    code = os.waitstatus_to_exitcode(status)
    if code == EXIT_CHANNEL_LOST:
        return "the statement closed the connection between the worker and its host"
    if code >= 0:
        return f"{who} exited with code {code}"
    try:
        return f"{who} was killed by {signal.Signals(-code).name} ({signal.strsignal(-code)})"
    except ValueError:
        return f"{who} was killed by signal {-code}"


# control channel:
# The host's end of the control channel of one process that the zygote forks, and how that process came to its end.
#
# Owns what is the same for a worker and for a program's keeper: the request to fork, signals, the watch over memory,
# the report of the death, and what is done where none comes. Sending never blocks. Must not know what the process
# does. Used by `worker_connection` and `forked_program`.

DEATH_SECONDS: Final = 5.0
"""How long the zygote may take to report a death before it is ended itself."""
_FORK_SECONDS: Final = 30.0
"""How long it may take to fork: on a busy machine it may still be loading for a while."""
_CHUNK: Final = 65536
_PIECE: Final = 1 << 20


Parent = Zygote | Realm
"""Who can be asked for processes."""


class Outbox:
    """What waits to be sent on one socket, which `epoll` has for reading, and for writing while something waits."""

    def __init__(self, connection: socket.socket, epoll: select.epoll | select.poll) -> None:
        self._connection = connection
        self._epoll = epoll
        self._queue = bytearray()
        self._awaits_room = False
        """Whether the epoll has the socket for writing too."""
        connection.setblocking(False)
        epoll.register(connection.fileno(), select.EPOLLIN)

    def post(self, data: bytes, *, more: bool = False) -> None:
        """Sends what the socket takes; the rest waits for `flush`. With `more` a little waits for the next call."""
        self._queue += data
        if not more or len(self._queue) >= _PIECE:
            self.flush()

    @property
    def waiting(self) -> bool:
        """Whether something has not been sent."""
        return bool(self._queue)

    def flush(self) -> None:
        """Sends what waits, as far as the socket takes it."""
        try:
            while self._queue:
                del self._queue[: self._connection.send(self._queue[:_PIECE])]
        except BlockingIOError:
            pass
        except OSError:
            self._queue.clear()  # the other end is gone, which reading will show
        if bool(self._queue) is not self._awaits_room:
            self._awaits_room = bool(self._queue)
            events = select.EPOLLIN | (select.EPOLLOUT if self._queue else 0)
            with contextlib.suppress(OSError):
                self._epoll.modify(self._connection.fileno(), events)

    def stop_reading(self) -> None:
        """Takes the socket out of the epoll: its other end is gone."""
        with contextlib.suppress(OSError):
            self._epoll.unregister(self._connection.fileno())


class ControlChannel:
    """One process, from the request to fork it until `close`. `who` is what its death calls it: the worker ..."""

    def __init__(self, zygote: Parent, connection: socket.socket, epoll: select.epoll | select.poll, who: str) -> None:
        self._zygote = zygote
        self._brand = zygote.brand
        self._connection = connection
        self._who = who
        self._outbox = Outbox(connection, epoll)
        self._frames = FrameBuffer()
        self._requested_at = time.monotonic()
        self.unacknowledged = 0
        """Interrupts that were asked for and not yet sent."""
        self.forked = False
        """Whether the process is known to have begun."""
        self.pid: int | None = None
        self.death: Death | None = None
        """How it ended, once that is known."""

    @property
    def is_of_this_zygote(self) -> bool:
        """Whether the zygote that was asked is the present one."""
        return self._brand == self._zygote.brand

    def fileno(self) -> int:
        return self._connection.fileno()

    def begin(self, request: Fork | Execute | Adopt) -> None:
        """Asks for the process. Raises FrameTooLargeError with nothing sent."""
        self._outbox.post(frame(request))

    def interrupt(self) -> None:
        """Has the process sent SIGINT once."""
        self.unacknowledged += 1
        self._outbox.post(frame(Interrupt()))

    def watch_memory(self, on: bool) -> None:
        """What the process holds with all its own is bounded while this is on."""
        self._outbox.post(frame(Watch(on)))

    def end(self) -> None:
        """Has the process ended with all its descendants."""
        self._outbox.post(frame(Kill()))

    def serve(self, events: int) -> None:
        """Sends and receives, after the epoll has shown these events."""
        if events & select.EPOLLOUT:
            self._outbox.flush()
        if events & ~select.EPOLLOUT:
            self._receive()

    def give_up(self) -> Death:
        """No report of a death came in time: does what is left to do, and says what became of the process."""
        # Of one that was not forked yet nobody has to know the end: the zygote, which may be loading what all workers
        # need and be needed by others, finds its control channel closed when it comes to it.
        if not self.forked and time.monotonic() - self._requested_at < _FORK_SECONDS:
            return Death(f"{self._who} was not needed any more when its parent could start it")
        # A parent that is only busy has other workers, which must not end for that.
        if self.pid is not None and not self._zygote.stopped and self._zygote.kill_worker(self.pid, self._brand):
            return Death(f"{self._who} was killed, and its parent was too busy to say how it ended")
        self._zygote.kill()
        return Death(f"the parent of {self._who} did not answer and was ended")

    def close(self) -> None:
        """Gives the socket back, which has the zygote end a process that still runs."""
        self._connection.close()

    def _receive(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose_parent()
            return
        self._frames.feed(data)
        while (body := self._frames.next()) is not None:
            match from_zygote(body):
                case Forked(pid=pid):
                    self.pid, self.forked = pid, True
                case Interrupted():
                    self.unacknowledged -= 1
                case Died(wait_status=status, reason=reason):
                    self.death = Death(reason or describe_status(status, self._who))

    def _lose_parent(self) -> None:
        self._outbox.stop_reading()
        if self.death is None:
            self._zygote.sweep(self._brand)
            self.death = Death(f"the parent of {self._who} died, and {self._who} with it", again=not self.forked)


def socket_pair(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, each closed by the stack of its side."""
    left, right = socket.socketpair()
    ours.callback(left.close)
    theirs.callback(right.close)
    return left, right


def record_pair(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """The same for records, with which descriptors travel."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.callback(left.close)
    theirs.callback(right.close)
    return left, right


def pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    """Our reading end and their writing end, each closed by the stack of its side."""
    reader, writer = os.pipe()
    ours.callback(os.close, reader)
    theirs.callback(os.close, writer)
    return reader, writer


# worker messages:
# What a worker says, as the host may use it: decoded, checked, and without secrets.
#
# A worker runs untrusted code and may have read any secret, so nothing that it sends is used before it was read here.
# Only bytes arrive: frames, and what statements print. In the host `MessageReader` alone makes messages of the first,
# and `Capture` alone makes text of the second. Both need a redactor and return redacted text, so no code behind them
# can forget to redact. What must stay exact says so by the type of its field (`protocol`): arguments for tools,
# names, digests, and contents, which are bytes, and which a store takes from a `Redactor` alone. Used by the
# connections.

WORKER_EVENTS: Final = tuple(kind for kind in EVENTS if kind.from_worker)
"""The only kinds of event that a worker may report."""
_FROM_WORKER: Final = decoder_of(FromWorker)
_FROM_CHECKPOINT: Final = decoder_of(FromCheckpoint)


class MessageReader:
    """Reads what the workers of one session send. Every method raises ProtocolError for what a worker must not send."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def message(self, body: bytes) -> FromWorker:
        """A message of a worker, from the body of a frame."""
        return self._decoded(_FROM_WORKER, body)

    def checkpoint_message(self, body: bytes) -> FromCheckpoint:
        """The same for a checkpoint."""
        return self._decoded(_FROM_CHECKPOINT, body)

    def events(self, packed: tuple[bytes, ...]) -> tuple[Event, ...]:
        """The events that `framing.pack_events` packed."""
        return tuple(map(self._event, packed))

    def _decoded(self, decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Any:
        try:
            return redact_struct(self.redactor, decode(decoder, body))
        except ProtocolError as error:  # it may quote what was sent
            raise ProtocolError(self.redactor.redact(str(error))) from None

    def _event(self, data: bytes) -> Event:
        try:
            event = decode_event(data)
        except (UndecodableEventError, ValueError, RecursionError) as error:
            raise ProtocolError(f"undecodable event: {self.redactor.redact(str(error))}") from None
        if not isinstance(event, WORKER_EVENTS) or event.seq != UNSTAMPED:
            raise ProtocolError(f"a worker must not report {event.kind} with seq {event.seq}")
        return redact_event(self.redactor, event)
