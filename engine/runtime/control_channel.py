"""The host's end of one forked process: its control channel, its end, and the safe decoding of worker messages.

`ControlChannel` serves workers, checkpoints and programs alike: the request to fork, signals, the memory watch, the
report of the death, and the fallbacks if no report comes. Sending never blocks.

`MessageReader` is the only code in the host that decodes messages of a worker, and `connection.Capture` the only code
that makes text of its output. A worker runs untrusted code and may have read any secret. Both need a redactor and
return redacted text, so no later code can forget to redact. Fields that must stay exact say so by their type
(`protocol`): tool arguments, names, digests, and contents. Contents are bytes, which a store accepts from a `Redactor`
alone.
"""

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
from .system import passing
from .system.waiting import READABLE, WRITABLE, Poller
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
    Start,
    Watch,
)
from .zygote import Zygote

DEATH_SECONDS: Final = 5.0
"""Time for the zygote to report a death. After it, the zygote is killed."""
_FORK_SECONDS: Final = 30.0
"""Time for the zygote to fork; on a busy machine it may still be loading."""
_CHUNK: Final = 65536
_PIECE: Final = 1 << 20
Parent = Zygote | Realm
"""The parents that fork processes on request."""
WORKER_EVENTS: Final = tuple(kind for kind in EVENTS if kind.from_worker)
"""The event kinds that a worker may report."""
_FROM_WORKER: Final = decoder_of(FromWorker)
_FROM_CHECKPOINT: Final = decoder_of(FromCheckpoint)


class ControlChannel:
    """One process, from the request to fork it until `close`. `who` names it in the reason of its death."""

    def __init__(self, zygote: Parent, connection: socket.socket, poller: Poller | select.poll, who: str) -> None:
        self._zygote = zygote
        self._brand = zygote.brand
        self._connection = connection
        self._who = who
        self._outbox = Outbox(connection, poller)
        self._frames = FrameBuffer()
        self._requested_at = time.monotonic()
        self.unacknowledged = 0
        """Requested interrupts that were not sent yet."""
        self.forked = False
        """Whether the process is known to have started."""
        self.pid: int | None = None
        self.death: Death | None = None
        """How it ended, once that is known."""

    @property
    def is_of_this_zygote(self) -> bool:
        """Whether the zygote is still the one that received the request."""
        return self._brand == self._zygote.brand

    def fileno(self) -> int:
        return self._connection.fileno()

    def begin(self, request: Start | Adopt) -> None:
        """Request the process."""
        self._outbox.post(frame(request))

    def interrupt(self) -> None:
        """Send SIGINT to the process once."""
        self.unacknowledged += 1
        self._outbox.post(frame(Interrupt()))

    def watch_memory(self, on: bool) -> None:
        """Limit the memory of the process with its descendants while this is on."""
        self._outbox.post(frame(Watch(on)))

    def end(self) -> None:
        """End the process with all its descendants."""
        self._outbox.post(frame(Kill()))

    def serve(self, events: int) -> None:
        """Send and receive after these events of the poller."""
        if events & WRITABLE:
            self._outbox.flush()
        if events & ~WRITABLE:
            self._receive()

    def give_up(self) -> Death:
        """End a process whose death was not reported in time, and describe its end."""
        # A process that was not forked yet needs no report. The zygote may still be loading, and others need it. It
        # finds the closed control channel when it handles the request.
        if not self.forked and time.monotonic() - self._requested_at < _FORK_SECONDS:
            return Death(f"{self._who} was no longer needed when its parent could start it")
        # A busy parent has other workers, which must not end for that.
        if self.pid is not None and not self._zygote.stopped and self._zygote.kill_worker(self.pid, self._brand):
            return Death(f"{self._who} was killed, and its parent was too busy to say how it ended")
        self._zygote.kill()
        return Death(f"the parent of {self._who} did not respond and was killed")

    def close(self) -> None:
        """Close the socket. The zygote then ends a process that still runs."""
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
            self.death = Death(f"{self._who} died together with its parent", again=not self.forked)


def start_of(request: Fork | Execute) -> Start:
    """What the zygote may know of the request."""
    return Start(is_keeper=isinstance(request, Execute), data_bytes=request.data_bytes, domain=request.domain)


class Outbox:
    """Unsent bytes of one socket. `poller` watches it for reading, and for writing while bytes wait."""

    def __init__(self, connection: socket.socket, poller: Poller | select.poll) -> None:
        self._connection = connection
        self._poller = poller
        self._queue = bytearray()
        self._awaits_room = False
        """Whether the poller watches the socket for writing."""
        connection.setblocking(False)
        poller.register(connection.fileno(), READABLE)

    def post(self, data: bytes, *, more: bool = False) -> None:
        """Send what the socket takes; the rest waits for `flush`. With `more`, small data waits for the next call."""
        self._queue += data
        if not more or len(self._queue) >= _PIECE:
            self.flush()

    @property
    def waiting(self) -> bool:
        """Whether bytes wait."""
        return bool(self._queue)

    def flush(self) -> None:
        """Send the waiting bytes, as far as the socket takes them."""
        try:
            while self._queue:
                del self._queue[: self._connection.send(self._queue[:_PIECE])]
        except BlockingIOError:
            pass
        except OSError:
            self._queue.clear()  # the other end is gone; the next read notices that
        if bool(self._queue) is not self._awaits_room:
            self._awaits_room = bool(self._queue)
            events = READABLE | (WRITABLE if self._queue else 0)
            with contextlib.suppress(OSError):
                self._poller.modify(self._connection.fileno(), events)

    def stop_reading(self) -> None:
        """Remove the socket from the poller, because its other end is gone."""
        with contextlib.suppress(OSError):
            self._poller.unregister(self._connection.fileno())


class MessageReader:
    """Decodes and redacts messages of one session's workers. Each method raises ProtocolError for invalid data."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def message(self, body: bytes) -> FromWorker:
        """Decode the body of a worker's frame."""
        return self._decoded(_FROM_WORKER, body)

    def checkpoint_message(self, body: bytes) -> FromCheckpoint:
        """Decode the body of a checkpoint's frame."""
        return self._decoded(_FROM_CHECKPOINT, body)

    def events(self, packed: tuple[bytes, ...]) -> tuple[Event, ...]:
        """Decode the events that `framing.pack_events` packed."""
        return tuple(map(self._event, packed))

    def _decoded(self, decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Any:
        try:
            return redact_struct(self.redactor, decode(decoder, body))
        except ProtocolError as error:  # it may quote the message
            raise ProtocolError(self.redactor.redact(str(error))) from None

    def _event(self, data: bytes) -> Event:
        try:
            event = decode_event(data)
        except (UndecodableEventError, ValueError, RecursionError) as error:
            raise ProtocolError(f"undecodable event: {self.redactor.redact(str(error))}") from None
        if not isinstance(event, WORKER_EVENTS) or event.seq != UNSTAMPED:
            raise ProtocolError(f"a worker must not report {event.kind} with seq {event.seq}")
        return redact_event(self.redactor, event)


class Death(Struct, frozen=True):
    """Why a process is gone, for the user. `again`: it never started, so another parent may start one."""

    reason: str
    again: bool = False


def describe_status(status: int, who: str) -> str:
    """Describe the status of `waitpid`; `who` is the worker or a program's keeper."""
    code = os.waitstatus_to_exitcode(status)
    if code == EXIT_CHANNEL_LOST:
        return "the statement closed the connection between the worker and its host"
    if code >= 0:
        return f"{who} exited with code {code}"
    try:
        return f"{who} was killed by {signal.Signals(-code).name} ({signal.strsignal(-code)})"
    except ValueError:
        return f"{who} was killed by signal {-code}"


def socket_pair(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, each closed by the stack of its side."""
    left, right = socket.socketpair()
    ours.callback(left.close)
    theirs.callback(right.close)
    return left, right


def record_pair(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Two sockets for records, which can carry descriptors."""
    left, right = passing.pair()
    ours.callback(left.close)
    theirs.callback(right.close)
    return left, right


def pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    """Our reading end and their writing end, each closed by the stack of its side."""
    reader, writer = os.pipe()
    ours.callback(os.close, reader)
    theirs.callback(os.close, writer)
    return reader, writer
