"""The steps of a history as messages, made ahead of the worker that goes through them, in stretches.

A stretch ends before a step that the host takes by itself: one that does not run again, or whose record does not say
what it came to. It is bounded by its number of steps and by its bytes, so that neither side holds more than so much of
a long history. Steps that a stretch did not come to begin the next one as they are. Must not know what becomes of a
stretch. Used by `attempt`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Raw, Struct

from ..log.past import PastExecution, PastLooks, PastRebuild, PastStep, PastTick
from .past_contents import PastContents
from .run_message import Recording, run_message
from .worker.framing import pack_step
from .worker.protocol import Content, Known, Repeat, Replay, Tick

STRETCH_BYTES: Final = 1 << 20
"""Of a stretch, unless its first step has more."""
_FIRST_STEPS: Final = 8
_MOST_STEPS: Final = 64
_AFTER_STOP: Final = 2
"""So many steps follow one that had to be looked at, and then twice as many each time: such steps come together."""


class Prepared(Struct):
    """A step as a message. `contents` go ahead of it, until the worker has them."""

    position: int
    step: PastStep
    packed: Raw
    contents: tuple[Content, ...] = ()

    @property
    def size(self) -> int:
        """In bytes."""
        return len(bytes(self.packed)) + sum(len(content.data) for content in self.contents)


class Ahead:
    """What of `steps` has not been sent yet.

    `alone` are the positions that the host takes by itself, `unloaded` those whose copies are not to be loaded.
    """

    def __init__(
        self, steps: Sequence[PastStep], past: PastContents, alone: Collection[int], unloaded: Collection[int]
    ) -> None:
        self._steps = steps
        self._past = past
        self._alone = alone
        self._unloaded = unloaded
        self._next = 0
        self._ready: deque[Prepared] = deque()
        self._size = 0
        self._most = _FIRST_STEPS

    @property
    def position(self) -> int:
        """The first step that was not taken."""
        return self._ready[0].position if self._ready else self._next

    async def prepare(self) -> None:
        """Makes the messages of the next stretch, as far as they are not made."""
        while len(self._ready) < self._most and self._size < STRETCH_BYTES and self._is_ours(self._next):
            step = self._steps[self._next]
            prepared = Prepared(self._next, step, await self._packed(self._next, step), self._past.take_unsent())
            self._next += 1
            self._ready.append(prepared)
            self._size += prepared.size

    def take(self) -> list[Prepared]:
        """The next stretch; empty where the next step is the host's, or there is none."""
        taken: list[Prepared] = []
        size = 0
        while self._ready and len(taken) < self._most:
            size += self._ready[0].size
            if taken and size > STRETCH_BYTES:
                break
            taken.append(self._ready.popleft())
            self._size -= taken[-1].size
        self._most = min(2 * self._most, _MOST_STEPS)
        return taken

    def put_back(self, left: Sequence[Prepared]) -> None:
        """These have been sent, and not begun."""
        for prepared in reversed(left):
            self._size += prepared.size
            self._ready.appendleft(prepared)
        self._most = _AFTER_STOP

    def skip(self) -> None:
        """The host has taken the next step."""
        assert not self._ready
        self._next += 1

    def _is_ours(self, position: int) -> bool:
        if position >= len(self._steps) or position in self._alone:
            return False
        match self._steps[position]:
            case PastExecution(again=again, record=record):
                return again and record is not None
            case PastRebuild():
                return False
            case _:
                return True

    async def _packed(self, position: int, step: PastStep) -> Raw:
        assert not isinstance(step, PastRebuild)
        match step:
            case PastLooks(revisions=revisions):
                return pack_step(Known(await self._past.looks(revisions)))
            case PastTick():
                return pack_step(await tick_message(step, self._past))
            case PastExecution(record=record):
                assert record is not None
                recording = await recording_of(step, self._past)
                run = run_message(step.request, recording, after_reading=step.after_reading)
                copies = None if position in self._unloaded else await self._past.copies(step)
                return pack_step(Repeat(run=run, record=record, copies=copies))


async def tick_message(step: PastTick, past: PastContents) -> Tick:
    """The tick as the worker takes it in a replay."""
    revisions, payloads = await past.looks(step.revisions), await past.payloads(step.payloads)
    return Tick(step.round_id, step.now, True, revisions, step.after_reading, payloads)


async def recording_of(step: PastExecution, past: PastContents) -> Recording:
    """What the statement is given."""
    return Recording(
        answers=await past.answers(step.answers),
        revisions=None if step.revisions is None else await past.looks(step.revisions),
        after_reading=step.after_reading,
        ticks=step.ticks,
    )


def replay_messages(stretch: Sequence[Prepared]) -> tuple[Sequence[Content], Replay]:
    """The stretch as the worker takes it, and the contents that go ahead of it, each by itself.

    Those of a stretch of several steps go within it, because together they are within `STRETCH_BYTES`. One step may
    bring more than a message holds.
    """
    contents = tuple(content for prepared in stretch for content in prepared.contents)
    for prepared in stretch:
        prepared.contents = ()
    packed = tuple(prepared.packed for prepared in stretch)
    return ((), Replay(packed, contents)) if len(stretch) > 1 else (contents, Replay(packed))
