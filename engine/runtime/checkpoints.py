"""The checkpoints of one session: paused copies of its worker, and their states.

A checkpoint is the state after a sequence of executions and ticks, its *trail*. It serves every plan that begins with
the same trail, on any branch: an omitted or changed statement is a different execution, or none, and so gives another
trail.

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
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..core.domain import Layer
from ..core.execution import ExecutionStatus
from ..core.ids import ExecutionId
from ..log.comparison import bound_names
from ..log.past import (
    CheckpointNews,
    PastExecution,
    PastLooks,
    PastRebuild,
    PastRevision,
    PastStep,
    PastTick,
    RestorePlan,
)
from ..log.statements import RunOutcome
from .checkpoint_memory import Member, expose
from .control_channel import ControlChannel, MessageReader, Parent, record_pair, socket_pair
from .realm import Holding
from .system import passing
from .system.descriptors import name_senders
from .worker.framing import FrameBuffer, ProtocolError
from .worker.protocol import Adopt, NotTaken, Paused

NO_STEPS: Final = 0
"""The trail of an empty namespace."""
NO_BASE: Final = 0
"""The number of no checkpoint: an empty namespace."""
MOST: Final = 16
"""The most checkpoints of a session."""
NEWEST: Final = 4
"""How many of the newest are kept, whatever they are worth."""
_RECORD: Final = 1 << 16
_MAKING_SECONDS: Final = 5.0
"""Time for a worker to make a checkpoint. After it, the checkpoint counts as failed."""
_SETTLE_SECONDS: Final = 1.0
_SURPLUS: Final = "newer checkpoints are kept instead"


class Checkpoints:
    """The existing and the requested checkpoints of a session, oldest first.

    Each knows the checkpoint that it comes after, its `base`, and the `seconds` that statements ran between the two:
    what a restore would cost more without it. If one is dropped, those that come after it cost its seconds more.
    """

    def __init__(self, worker: Callable[[], int | None]) -> None:
        self._worker = worker
        self._kept: list[Checkpoint] = []
        self._taken = 0
        self._base = NO_BASE
        """The checkpoint that the current namespace comes after."""
        self._seconds = 0.0
        """How long statements have run since."""
        self._news: list[CheckpointNews] = []

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def worker(self) -> int | None:
        """The process id of the session's worker."""
        return self._worker()

    def ran(self, seconds: float) -> None:
        """Count the time of a statement in the current namespace."""
        self._seconds += seconds

    def continued_from(self, checkpoint: Checkpoint | None) -> None:
        """Note which checkpoint the current namespace comes from; None for an empty namespace."""
        self._base, self._seconds = NO_BASE if checkpoint is None else checkpoint.number, 0.0

    def add(self, execution_id: ExecutionId, trail: int, paused: PausedWorker, sandbox: WorkerSandbox) -> None:
        """Add a requested checkpoint of the state after that execution. If they are too many, drop one."""
        self._taken += 1
        added = Checkpoint(self._taken, execution_id, trail, paused, sandbox, self._seconds, self._base)
        self._kept.append(added)
        self.continued_from(added)
        if (number := surplus({each.number: each.seconds for each in self._kept})) is not None:
            self.drop(next(each for each in self._kept if each.number == number), _SURPLUS, surplus=True)

    def refuse(self, execution_id: ExecutionId, reason: str) -> None:
        """Report that no checkpoint of that state is taken."""
        self._news.append(CheckpointNews(execution_id=execution_id, dropped=reason))

    async def settle(self) -> None:
        """Wait a moment for the requested ones, because a worker that ends now makes none."""
        with anyio.move_on_after(_SETTLE_SECONDS):
            for each in tuple(self._kept):
                await each.paused.settle()

    def members(self) -> Sequence[Member]:
        """Those that exist, for `CheckpointMemory`."""
        self._look()
        return [Member(pid, _worth(each.seconds, self._age(each))) for each in self._kept if (pid := each.paused.pid)]

    def _age(self, checkpoint: Checkpoint) -> int:
        return self._taken - checkpoint.number + 1

    def drop_member(self, pid: int, reason: str) -> None:
        """Drop the checkpoint with that process id, if it is still there."""
        for each in [each for each in self._kept if each.paused.pid == pid]:
            self.drop(each, reason)

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
        for each in self._kept:
            if each.base == checkpoint.number:
                each.base, each.seconds = checkpoint.base, each.seconds + checkpoint.seconds
        if self._base == checkpoint.number:
            self._base, self._seconds = checkpoint.base, self._seconds + checkpoint.seconds
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
                expose(each.paused.pid)
                self._news.append(
                    CheckpointNews(execution_id=each.execution_id, seconds=said.seconds, shared=said.shared)
                )
            if not is_there:
                self.drop(each, said.reason if isinstance(said, NotTaken) else "its process ended")


class WorkerSandbox(Struct, eq=False):
    """What the host knows of a worker's sandbox from its start: the layers, and what is held in its file tree.

    A worker that is restored from a checkpoint has the sandbox of the one that made it, and is not asked about it,
    because statements ran in it.
    """

    layers: tuple[Layer, ...]
    holding: Holding


class Checkpoint(Struct, eq=False):
    """A checkpoint of the state after `execution_id`.

    `number` counts the session's checkpoints. It comes after the one with the number `base`, and statements ran
    `seconds` in between. With `is_told` the session knows that it exists.
    """

    number: int
    execution_id: ExecutionId
    trail: int
    paused: PausedWorker
    sandbox: WorkerSandbox
    seconds: float
    base: int
    is_told: bool = False


class PausedWorker:
    """One checkpoint, from its request until `close`."""

    def __init__(self, zygote: Parent, control: socket.socket, life: socket.socket, reader: MessageReader) -> None:
        self._reader = reader
        self._poll = select.poll()  # not a poller, whose descriptor each of many checkpoints would need
        self._control = ControlChannel(zygote, control, self._poll, "the checkpoint")
        self._life = life
        self._frames = FrameBuffer()
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
            passing.send(handover, b"C", [life[1].fileno(), known[1].fileno()])
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
        passing.send(self._life, b"R", descriptors)

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
        self._frames.feed(data)
        try:
            body = self._frames.next()
            if body is None and data:
                return
            self.said = None if body is None else self._reader.checkpoint_message(body)
        except ProtocolError:
            self.said = None
        self._is_lost = self.said is None


def adoption_pair(theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """The zygote's end and a copy's end; on the first, the kernel names the sending process."""
    zygotes, copys = passing.pair()
    theirs.callback(zygotes.close)
    theirs.callback(copys.close)
    name_senders(zygotes)
    return zygotes, copys


# --- trails, and which checkpoints to keep ----------------------------------------------------------------------------


def after_outcome(trail: int, execution_id: ExecutionId, outcome: RunOutcome) -> int:
    """Return the trail after an execution."""
    return _after_execution(trail, execution_id, outcome.status, bound_names(outcome.diff), outcome.diff.deleted)


def _after_execution(
    trail: int, execution_id: ExecutionId, status: ExecutionStatus, bound: Collection[str], unbound: Collection[str]
) -> int:
    # A stopped execution that left nothing counts as not begun, because the log cannot always tell the two apart.
    has_passed = status in ("ok", "error") or bound or unbound
    return hash((trail, execution_id)) if has_passed else trail


def after_tick(trail: int, round_id: int, now: float) -> int:
    """Return the trail after a tick that found running nodes."""
    return hash((trail, round_id, now))


def after_rebuild(trail: int, anew: Sequence[str], absent: Sequence[str]) -> int:
    """Return the trail after a rebuild. One that had copies of all names does not change it."""
    return hash((trail, tuple(anew), tuple(absent))) if anew or absent else trail


def trails(steps: Sequence[PastStep]) -> Sequence[int]:
    """Return the trail before the first step and after each step. O(steps)."""
    return list(accumulate(steps, _after, initial=NO_STEPS))


def _after(trail: int, step: PastStep) -> int:
    match step:
        case PastExecution(request=request, status=status, bound=bound, unbound=unbound):
            return _after_execution(trail, request.execution_id, status, bound, unbound)
        case PastTick(round_id=round_id, now=now):
            return after_tick(trail, round_id, now)
        case PastRebuild(anew=anew, absent=absent):
            return after_rebuild(trail, anew, absent)
        case PastLooks():
            return trail


def given(steps: Sequence[PastStep]) -> int:
    """Return how many steps may come from a checkpoint: those before the first whose outcome will be compared."""
    asked = (
        position
        for position, step in enumerate(steps)
        if isinstance(step, PastExecution) and step.again and step.record is None
    )
    return next(asked, len(steps))


def rest_of(plan: RestorePlan, over: int) -> RestorePlan:
    """Return the plan that is left after the first `over` steps, which come from a checkpoint.

    A look that finds nothing new is not recorded with its step, so the rest begins with what was seen last.
    """
    rest = plan.steps[over:]
    newest = {look.path: look for step in plan.steps[:over] for look in _seen(step)} if rest else {}
    told = (PastLooks(revisions=tuple(newest.values())),) if newest else ()
    whole_from = None if plan.whole_from is None else plan.whole_from - over + len(told)
    return replace(plan, steps=(*told, *rest), behind=plan.steps[:over], whole_from=whole_from)


def _seen(step: PastStep) -> Sequence[PastRevision]:
    return () if isinstance(step, PastRebuild) else step.revisions or ()


def surplus(kept: Mapping[int, float]) -> int | None:
    """Return the number of the checkpoint to drop; None if there are not too many.

    `kept` has the seconds that each saves, by number, ascending. Dropped is what is worth least: the fewest seconds
    for its age. Its seconds pass to the next one, so what stays is denser among the newest and after slow statements.
    """
    if len(kept) <= MOST:
        return None
    newest = max(kept)
    return min(tuple(kept)[:-NEWEST], key=lambda number: _worth(kept[number], newest - number + 1))


def _worth(seconds: float, age: int) -> float:
    """How much a checkpoint is worth: someone goes back further less often."""
    return seconds / age
