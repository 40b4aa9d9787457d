"""The checkpoints of one session: paused copies of its worker, and the state that each one has.

`Checkpoints` decides which are kept, and which one a restore starts from. `PausedWorker` is the host's end of one copy
(`worker.forking.checkpoint`). It owns two sockets: the control channel, on which the zygote reports its end, and the
one on which the copy waits, which ends it by closing. The host never waits for a copy; it reads messages when it looks.
Must not know how a worker is restored. Owned by `worker_environment`; requested by `connection`.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Sequence
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct

from ..core.ids import ExecutionId
from ..log.checkpoints import given, surplus
from ..log.past import CheckpointNews, PastStep
from .control_channel import ControlChannel, MessageReader, Parent, record_pair, socket_pair
from .worker.framing import FrameBuffer, ProtocolError
from .worker.processes.memory import bound_of, held_by
from .worker.protocol import Adopt, NotTaken, Paused

_RECORD: Final = 1 << 16
_MAKING_SECONDS: Final = 5.0
"""Time for a worker to make a checkpoint. After it, the checkpoint counts as failed."""
_SETTLE_SECONDS: Final = 1.0
_SURPLUS: Final = "newer ones are kept"
_TOO_LARGE: Final = "all of them held too much memory"


class Checkpoints:
    """The existing and the requested checkpoints of a session, oldest first."""

    def __init__(self) -> None:
        self._kept: list[Checkpoint] = []
        self._taken = 0
        self._news: list[CheckpointNews] = []

    def add(self, execution_id: ExecutionId, trail: int, paused: PausedWorker) -> None:
        """Add a requested checkpoint of the state after that execution; drop surplus ones."""
        self._taken += 1
        self._kept.append(Checkpoint(self._taken, execution_id, trail, paused))
        numbers = surplus([each.number for each in self._kept])
        for each in [each for each in self._kept if each.number in numbers]:
            self.drop(each, _SURPLUS, surplus=True)

    async def settle(self) -> None:
        """Wait a moment for the requested ones, because a worker that ends now makes none."""
        with anyio.move_on_after(_SETTLE_SECONDS):
            for each in tuple(self._kept):
                await each.paused.settle()

    async def fit(self, budget: int) -> None:
        """Drop the oldest while all of them use more than `budget` bytes of memory. The newest stays."""
        held = {each: pid for each in self._kept if (pid := each.paused.pid) is not None}
        if sum(_bound(each, pid) for each, pid in held.items()) <= budget:
            return
        sizes = await anyio.to_thread.run_sync(held_by, tuple(held.values()))
        total = sum(sizes)
        for checkpoint, size in list(zip(held, sizes, strict=True))[:-1]:
            if total <= budget:
                break
            total -= size
            if checkpoint in self._kept:
                self.drop(checkpoint, _TOO_LARGE)

    def serving(self, steps: Sequence[PastStep], trails: Sequence[int]) -> tuple[Checkpoint, int] | None:
        """The checkpoint that covers most of the steps, and their number; None if none fits.

        Of several, the newest. `trails` are the trails of the steps.
        """
        self._look()
        places = {trail: number for number, trail in enumerate(trails[: given(steps) + 1])}
        found = [each for each in self._kept if each.trail in places]
        if not found:
            return None
        best = max(found, key=lambda each: (places[each.trail], each.number))
        return best, places[best.trail]

    def drop(self, checkpoint: Checkpoint, reason: str, *, surplus: bool = False) -> None:
        """End it, and report why."""
        self._kept.remove(checkpoint)
        checkpoint.paused.close()
        self._news.append(CheckpointNews(execution_id=checkpoint.execution_id, dropped=reason, surplus=surplus))

    def news(self) -> Sequence[CheckpointNews]:
        """The new and dropped checkpoints since the last call."""
        self._look()
        news, self._news = self._news, []
        return news

    @property
    def pids(self) -> Sequence[int]:
        """Their known process ids."""
        self._look()
        return [pid for each in self._kept if (pid := each.paused.pid) is not None]

    def close(self) -> None:
        """End them all; may be repeated."""
        while self._kept:
            self._kept.pop().paused.close()

    def _look(self) -> None:
        for each in tuple(self._kept):
            is_there, said = each.paused.look(), each.paused.said
            # The zygote may report the copy later than the copy itself does.
            if isinstance(said, Paused) and each.paused.pid is not None and not each.is_told:
                each.is_told = True
                self._news.append(
                    CheckpointNews(execution_id=each.execution_id, seconds=said.seconds, shared=said.shared)
                )
            if not is_there:
                self.drop(each, said.reason if isinstance(said, NotTaken) else "its process ended")


class Checkpoint(Struct, eq=False):
    """A checkpoint of the state after `execution_id`.

    `number` counts the session's checkpoints. With `is_told` the session knows that it exists. `bound` is its maximum
    memory in bytes, which stays the same while it waits; None before.
    """

    number: int
    execution_id: ExecutionId
    trail: int
    paused: PausedWorker
    is_told: bool = False
    bound: int | None = None


def _bound(checkpoint: Checkpoint, pid: int) -> int:
    bound = bound_of(pid) if checkpoint.bound is None else checkpoint.bound
    if checkpoint.is_told:
        checkpoint.bound = bound
    return bound


class PausedWorker:
    """One checkpoint, from its request until `close`."""

    def __init__(self, zygote: Parent, control: socket.socket, life: socket.socket, reader: MessageReader) -> None:
        self._reader = reader
        self._poll = select.poll()  # not an epoll, whose descriptor each of many checkpoints would need
        self._control = ControlChannel(zygote, control, self._poll, "the checkpoint")
        self._life = life
        life.setblocking(False)
        self._poll.register(life.fileno(), select.POLLIN)
        self._asked_at = time.monotonic()
        self._is_lost = False
        self.said: Paused | NotTaken | None = None
        """Its message, as of the last look."""

    @classmethod
    def ask_for(cls, zygote: Parent, handover: socket.socket, data_bytes: int, reader: MessageReader) -> PausedWorker:
        """Announce a copy of the worker to the zygote, and send the worker's hand-over socket the copy's descriptors.

        Raises:
            OSError: the zygote or the worker cannot be reached.
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
        """Read its message without waiting; whether it exists or may still appear."""
        for descriptor, events in () if self._is_lost else self._poll.poll(0):
            if descriptor == self._control.fileno():
                self._control.serve(events)
            else:
                self._receive()
        is_late = self.said is None and time.monotonic() - self._asked_at > _MAKING_SECONDS
        self._is_lost = self._is_lost or is_late or self._control.death is not None
        return not self._is_lost and not isinstance(self.said, NotTaken)

    async def settle(self) -> None:
        """Wait until it exists or has failed."""
        while self.look() and self.said is None:
            await anyio.wait_readable(self._life)

    def hand_over(self, descriptors: list[int]) -> None:
        """Let it fork a worker that gets these descriptors. Raises OSError."""
        socket.send_fds(self._life, [b"R"], descriptors)

    def close(self) -> None:
        """End it; may be repeated."""
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
    """The zygote's end and a copy's end; on the first, the kernel names the sending process."""
    zygotes, copys = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.callback(zygotes.close)
    theirs.callback(copys.close)
    zygotes.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return zygotes, copys
