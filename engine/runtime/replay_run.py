"""Runs a stretch of a history in a worker, and prefetches its steps as messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Literal

from msgspec import Raw, Struct

from ..core.errors import EnvironmentUnavailableError
from ..core.ids import ExecutionId
from ..log.past import PastExecution, PastLooks, PastRebuild, PastStep, PastTick
from ..log.statements import EffectAnswer, EffectRequest, RunOutcome, RunRequest
from .connection import Capture, Connection, Received
from .environment import Limits
from .rebuild_inputs import PastContents
from .statement_run import GRACE_SECONDS, LOADING_SECONDS, Recording, StatementRun, run_message
from .worker.framing import pack_step
from .worker.protocol import Began, BroughtBack, Content, Known, Ran, Repeat, Replay, Replayed, Tick

# The steps of a history as messages, made ahead of the worker that goes through them, in stretches.
#
# A stretch ends before a step that the host takes by itself: one that does not run again, or whose record does not
# say what it came to. It is bounded by its number of steps and by its bytes, so that neither side holds more than so
# much of a long history. Steps that a stretch did not come to begin the next one as they are. Must not know what
# becomes of a stretch. Used by `attempt`.

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


# replay run:
# A stretch of a history from request to answer: the conversation of `statement_run`, one statement after another.
#
# The worker goes from statement to statement by itself and says when each begins. From then on the conversation is
# about that one: its time limit begins, and it is the one that ended the worker if that dies. So nothing is bounded
# or blamed otherwise than where each statement is asked for. Of ticks nothing is said: what ends a worker there is
# what the statement before them has left, and one that hangs takes that statement's time.
#
# An interrupt is for the statement during which the host asked for it, and the worker begins no other after it. But
# it may have begun one already that the host has not been told of, and then the interrupt hits that. The host sees it
# by the order of what it is told: a beginning after it has asked for the interrupt. Then nobody can say how either of
# the two would have ended, `is_unclear` says so, and the worker is ended; the history has to be gone through anew,
# step by step. Must not know what is to become of a statement that came out differently. Used by `attempt`.

TICK_SECONDS: Final = 30.0
"""A tick that takes longer has lost its worker."""
_NOTHING: Final = RunRequest(execution_id=ExecutionId(""), label="", source="", time_limit=TICK_SECONDS)
"""What runs until the first statement has begun: ticks."""

Brought = Callable[[Prepared, RunOutcome, dict[str, str]], None]
"""Is told of each statement that was kept from an act and brought back: what came of it, and the names that could not
be set, each with the reason."""


class ReplayRun(StatementRun):
    """The conversation with the worker about one stretch; `meanwhile` is done while the worker is at it.

    When it is over, the first `over` steps of the stretch are. Where `came` is set, that is what came of the last of
    them, and the host has to look at it.
    """

    def __init__(
        self,
        worker: Connection,
        stretch: Sequence[Prepared],
        limits: Limits,
        brought: Brought,
        meanwhile: Callable[[], Awaitable[None]],
        begins: Callable[[PastExecution], None],
    ) -> None:
        super().__init__(worker, _NOTHING, limits, no_effects, discard_output)
        self._stretch = stretch
        self._brought = brought
        self._prepare = meanwhile
        self._begins = begins
        self._begun = -1
        self.is_loading = False
        self.is_unclear = False
        self.came: RunOutcome | None = None
        self.over = 0

    @property
    def begun(self) -> Sequence[Prepared]:
        """The steps that were begun, or are over: a tick needs no beginning."""
        return self._stretch[: max(self._begun + 1, self.over)]

    async def conduct(self) -> RunOutcome:
        """Goes through the stretch, see `StatementRun.conduct`. The outcome is of the step that was begun last."""
        self._worker.announce_reading(True)
        try:
            outcome = await super().conduct()
        finally:
            self._worker.announce_reading(False)
        if not self.over and not self._worker.dead:
            # A stretch that is too large to be sent has only one step of such a size, its first.
            self._begun = max(0, self._begun)
            self.came, self.over = outcome, self._begun + 1
        return outcome

    def _message(self) -> Replay:
        contents, replay = replay_messages(self._stretch)
        for content in contents:
            self._worker.send(content)
        return replay

    async def _meanwhile(self) -> None:
        await self._prepare()

    @property
    def _grace_seconds(self) -> float:
        return GRACE_SECONDS if self.is_loading else super()._grace_seconds

    def _ended(self, ran: Ran) -> RunOutcome | None:
        if self._statement is not None:
            return super()._ended(ran)
        self._worker.violate("the result of a statement that has not begun")
        return None

    def _take_other(self, message: Received) -> None:
        match message:
            case Began(step=number, loading=loading) if self._may_begin(number, loading):
                self._begin(number, loading)
            case BroughtBack(ran=ran, failures=failures) if (present := self._statement) is not None:
                self.is_loading, self._left = False, TICK_SECONDS
                redactor = self._worker.reader.redactor
                outcome = self._outcome_of(ran, Capture(redactor), Capture(redactor))
                if outcome is not None:
                    self._brought(present, outcome, failures)
            case Replayed(steps=steps) if self._begun < steps <= len(self._stretch):
                self.over = steps
                self._outcome = RunOutcome(status="ok")
            case _:
                self._worker.violate(f"{type(message).__name__} while a history runs again")

    @property
    def _statement(self) -> Prepared | None:
        return self._stretch[self._begun] if self._begun >= 0 else None

    def _may_begin(self, number: int, loading: bool) -> bool:
        if loading:
            return number == self._begun and self._statement is not None
        return self._begun < number < len(self._stretch) and isinstance(self._stretch[number].step, PastExecution)

    def _begin(self, number: int, loading: bool) -> None:
        self._begun, self.is_loading = number, loading
        if self._stop is not None:
            self.is_unclear = True
            self._worker.violate("a statement began after one was interrupted")
            return
        step = self._stretch[number].step
        assert isinstance(step, PastExecution)
        self._begins(step)
        self._request = step.request
        limit = self._limits.statement_seconds if step.request.time_limit is None else step.request.time_limit
        self._left = LOADING_SECONDS if loading else limit


async def no_effects(request: EffectRequest) -> EffectAnswer:
    """A replay asks the host for nothing."""
    raise EnvironmentUnavailableError(f"{request.operation} is not available in a replay")


def discard_output(stream: Literal["stdout", "stderr"], text: str) -> None:
    """Nobody sees what is printed in a replay."""
    del stream, text
