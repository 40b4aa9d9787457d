"""The host's end of one checkpoint: a copy of a worker that waits (`worker.checkpoint`).

Owns two sockets: the control channel over which the zygote ends it and reports its end, and the one on which it waits,
whose closing has it end by itself. Nobody waits for a checkpoint: what it has said is read when somebody looks. Must
not know what state it holds. Asked for by `worker_connection`, held by `checkpoints`.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import Final

import anyio

from .control_channel import ControlChannel, Parent, record_pair, socket_pair
from .worker.framing import FrameBuffer, ProtocolError
from .worker.protocol import Adopt, NotTaken, Paused
from .worker_messages import MessageReader

_RECORD: Final = 1 << 16
_SECONDS: Final = 5.0
"""A worker that was asked for longer ago has not made one."""


class PausedWorker:
    """One checkpoint, from the request to make it until `close`."""

    def __init__(self, zygote: Parent, control: socket.socket, life: socket.socket, reader: MessageReader) -> None:
        self._reader = reader
        self._poll = select.poll()  # no descriptor, because there may be many of these
        self._control = ControlChannel(zygote, control, self._poll, "the checkpoint")
        self._life = life
        life.setblocking(False)
        self._poll.register(life.fileno(), select.POLLIN)
        self._asked_at = time.monotonic()
        self._is_lost = False
        self.said: Paused | NotTaken | None = None
        """What it has said of itself, as of the last look."""

    @classmethod
    def ask_for(cls, zygote: Parent, handover: socket.socket, data_bytes: int, reader: MessageReader) -> PausedWorker:
        """Has the zygote expect a copy of the worker with that hand-over socket, which gets what it needs.

        Raises:
            OSError: somebody cannot take it.
        """
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            control = socket_pair(ours, theirs)
            life, known = record_pair(ours, theirs), adoption_pair(theirs)
            zygote.fork([control[1].fileno(), known[0].fileno()])
            checkpoint = cls(zygote, control[0], life[0], reader)
            ours.pop_all()
            ours.callback(checkpoint.close)
            checkpoint._control.begin(Adopt(data_bytes, pauses=True))
            handover.setblocking(False)
            socket.send_fds(handover, [b"C"], [life[1].fileno(), known[1].fileno()])
            ours.pop_all()
            return checkpoint

    @property
    def pid(self) -> int | None:
        """Its process id, once it is known."""
        return self._control.pid

    def look(self) -> bool:
        """Whether it is there or may still come; reads what it has said. Does not wait."""
        for descriptor, events in () if self._is_lost else self._poll.poll(0):
            if descriptor == self._control.fileno():
                self._control.serve(events)
            else:
                self._receive()
        is_late = self.said is None and time.monotonic() - self._asked_at > _SECONDS
        self._is_lost = self._is_lost or is_late or self._control.death is not None
        return not self._is_lost and not isinstance(self.said, NotTaken)

    async def settle(self) -> None:
        """Returns when it is known whether it is there."""
        while self.look() and self.said is None:
            await anyio.wait_readable(self._life)

    def hand_over(self, descriptors: list[int]) -> None:
        """Has a worker forked from it that gets these. Raises OSError."""
        socket.send_fds(self._life, [b"R"], descriptors)

    def close(self) -> None:
        """Ends it; may be repeated."""
        self._is_lost = True
        self._life.close()
        self._control.close()

    def _receive(self) -> None:
        try:
            data = self._life.recv(_RECORD)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        frames = FrameBuffer()
        frames.feed(data)
        try:
            body = frames.next()
            self.said = None if body is None else self._reader.checkpoint_message(body)
        except ProtocolError:
            self.said = None
        self._is_lost = self.said is None


def adoption_pair(theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """The zygote's end and that of a copy, on which the zygote is told by the kernel who speaks."""
    zygotes, copys = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.callback(zygotes.close)
    theirs.callback(copys.close)
    zygotes.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return zygotes, copys
