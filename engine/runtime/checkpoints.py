"""The checkpoints of one session: what each is the state of, which are kept, and which one serves a plan.

Must not know how a worker is restored, nor how a checkpoint is made. Owned by `connected_environment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct

from ..core.ids import ExecutionId
from ..log.checkpoints import given, surplus
from ..log.past import CheckpointNews, PastStep
from .paused_worker import PausedWorker
from .worker.processes.memory import bound_of, held_by
from .worker.protocol import NotTaken, Paused

_SETTLE_SECONDS: Final = 1.0
_SURPLUS: Final = "newer ones are kept"
_TOO_LARGE: Final = "all of them held too much memory"


class Checkpoint(Struct, eq=False):
    """One of them. `number` counts those of the session; `is_told`: the session knows that it is there.

    `bound` is how many bytes it holds at most, which does not change while it waits; None until it does.
    """

    number: int
    execution_id: ExecutionId
    trail: int
    paused: PausedWorker
    is_told: bool = False
    bound: int | None = None


class Checkpoints:
    """Those that there are or may come, oldest first."""

    def __init__(self) -> None:
        self._kept: list[Checkpoint] = []
        self._taken = 0
        self._news: list[CheckpointNews] = []

    def add(self, execution_id: ExecutionId, trail: int, paused: PausedWorker) -> None:
        """One was asked for, of the state after that execution."""
        self._taken += 1
        self._kept.append(Checkpoint(self._taken, execution_id, trail, paused))
        numbers = surplus([each.number for each in self._kept])
        for each in [each for each in self._kept if each.number in numbers]:
            self.drop(each, _SURPLUS, surplus=True)

    async def settle(self) -> None:
        """Waits for those that were asked for, for a moment: a worker that is ended now makes none."""
        with anyio.move_on_after(_SETTLE_SECONDS):
            for each in tuple(self._kept):
                await each.paused.settle()

    async def fit(self, budget: int) -> None:
        """Drops the oldest as long as all of them hold more memory than `budget` bytes. The newest stays."""
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
        """The one that has most of the steps behind it, the newest of several, and how many; None for none.

        `trails` are those of the steps.
        """
        self._look()
        places = {trail: number for number, trail in enumerate(trails[: given(steps) + 1])}
        found = [each for each in self._kept if each.trail in places]
        if not found:
            return None
        best = max(found, key=lambda each: (places[each.trail], each.number))
        return best, places[best.trail]

    def drop(self, checkpoint: Checkpoint, reason: str, *, surplus: bool = False) -> None:
        """Ends it."""
        self._kept.remove(checkpoint)
        checkpoint.paused.close()
        self._news.append(CheckpointNews(execution_id=checkpoint.execution_id, dropped=reason, surplus=surplus))

    def news(self) -> Sequence[CheckpointNews]:
        """What became of them since this was asked last."""
        self._look()
        news, self._news = self._news, []
        return news

    @property
    def pids(self) -> Sequence[int]:
        """The processes that are known."""
        self._look()
        return [pid for each in self._kept if (pid := each.paused.pid) is not None]

    def close(self) -> None:
        """Ends them all; may be repeated."""
        while self._kept:
            self._kept.pop().paused.close()

    def _look(self) -> None:
        for each in tuple(self._kept):
            is_there, said = each.paused.look(), each.paused.said
            # The zygote may say later than the copy itself that it is there.
            if isinstance(said, Paused) and each.paused.pid is not None and not each.is_told:
                each.is_told = True
                self._news.append(
                    CheckpointNews(execution_id=each.execution_id, seconds=said.seconds, shared=said.shared)
                )
            if not is_there:
                self.drop(each, said.reason if isinstance(said, NotTaken) else "its process ended")


def _bound(checkpoint: Checkpoint, pid: int) -> int:
    bound = bound_of(pid) if checkpoint.bound is None else checkpoint.bound
    if checkpoint.is_told:
        checkpoint.bound = bound
    return bound
