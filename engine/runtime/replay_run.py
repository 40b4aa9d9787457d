"""Runs a stretch of a history in a worker, and prepares the next stretch meanwhile.

The worker runs a stretch statement by statement without the host, and reports when each one begins. From then on the
conversation of `statement_run` is about that statement: its time limit starts, and it is the failed one if the worker
dies. So limits and blame are the same as if each statement were sent alone. Ticks are not reported. If a worker dies in
a tick, the statement before it is the cause, and a hanging tick uses up that statement's time.

An interrupt is for the statement during which the host requested it, and the worker begins no other one after it. But
the worker may have begun one already without the host knowing, and then the interrupt hits that one. The host sees this
by the order of messages: a beginning arrives after the request for the interrupt. Then the result of neither statement
can be trusted: `is_unclear` is set, the worker is killed, and the history must be run again step by step.

A stretch ends before a step that the host performs alone: one that does not run again, or without a complete record.
Its steps and bytes are limited, so that neither side holds a long history in memory. Steps that a stretch did not
reach begin the next one. Must not know what happens after a difference. Used by `rebuild`.
"""

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
from .rebuild_contents import PastContents
from .statement_run import GRACE_SECONDS, LOADING_SECONDS, Recording, StatementRun, run_message
from .worker.framing import pack_step
from .worker.protocol import Began, BroughtBack, Content, Known, Ran, Repeat, Replay, Replayed, Tick

STRETCH_BYTES: Final = 1 << 20
"""Size of a stretch, unless its first step is larger."""
_FIRST_STEPS: Final = 8
_MOST_STEPS: Final = 64
_STEPS_AFTER_STOP: Final = 2
"""Steps of the stretch after a difference, doubled for each later one, because differences occur close together."""
TICK_SECONDS: Final = 30.0
"""Limit for a tick. After it, the worker is killed."""
_NOTHING: Final = RunRequest(execution_id=ExecutionId(""), label="", source="", time_limit=TICK_SECONDS)
"""The request until the first statement begins, that is for ticks."""


class ReplayRun(StatementRun):
    """One stretch in a worker; `meanwhile` is awaited while it runs.

    At the end, the first `over` steps are complete. `came` is the outcome of the last of them if the host must compare
    it.
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
        """The steps that began or are complete; ticks do not report their beginning."""
        return self._stretch[: max(self._begun + 1, self.over)]

    async def conduct(self) -> RunOutcome:
        """Run the stretch; see `StatementRun.conduct`. Returns the outcome of the step that began last."""
        self._worker.announce_reading(True)
        try:
            outcome = await super().conduct()
        finally:
            self._worker.announce_reading(False)
        if not self.over and not self._worker.dead:
            # If the stretch is too large for a message, its first step alone is.
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
        self._worker.violate("unexpected result of a statement that has not begun")
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
                self._worker.violate(f"unexpected {type(message).__name__} during a replay")

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
            self._worker.violate("a statement began after an earlier one was interrupted")
            return
        step = self._stretch[number].step
        assert isinstance(step, PastExecution)
        self._begins(step)
        self._request = step.request
        limit = self._limits.statement_seconds if step.request.time_limit is None else step.request.time_limit
        self._limit = self._left = LOADING_SECONDS if loading else limit


class ReplayPrefetch:
    """The steps that were not sent yet, partly prepared as messages.

    The host performs the positions in `alone`. The values of those in `unloaded` must not be loaded.
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
        """The position of the next step."""
        return self._ready[0].position if self._ready else self._next

    async def prepare(self) -> None:
        """Prepare the messages of the next stretch."""
        while len(self._ready) < self._most and self._size < STRETCH_BYTES and self._is_ours(self._next):
            step = self._steps[self._next]
            prepared = Prepared(self._next, step, await self._packed(self._next, step), self._past.take_unsent())
            self._next += 1
            self._ready.append(prepared)
            self._size += prepared.size

    def take(self) -> list[Prepared]:
        """Take the next stretch; empty if the host performs the next step, or at the end."""
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
        """Return steps that were sent and did not begin."""
        for prepared in reversed(left):
            self._size += prepared.size
            self._ready.appendleft(prepared)
        self._most = _STEPS_AFTER_STOP

    def skip(self) -> None:
        """Skip the next step, because the host performs it."""
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


class Prepared(Struct):
    """A step as a message. `contents` are sent ahead of it, once."""

    position: int
    step: PastStep
    packed: Raw
    contents: tuple[Content, ...] = ()

    @property
    def size(self) -> int:
        """In bytes."""
        return len(bytes(self.packed)) + sum(len(content.data) for content in self.contents)


Brought = Callable[[Prepared, RunOutcome, dict[str, str]], None]
"""Called for each statement that was guarded and restored: its outcome, and the names that could not be set."""


def replay_messages(stretch: Sequence[Prepared]) -> tuple[Sequence[Content], Replay]:
    """Convert a stretch: the contents to send ahead one by one, and the message.

    Several steps are within `STRETCH_BYTES`, so the message has their contents. A single step may have more contents
    than fit into a message.
    """
    contents = tuple(content for prepared in stretch for content in prepared.contents)
    for prepared in stretch:
        prepared.contents = ()
    packed = tuple(prepared.packed for prepared in stretch)
    return ((), Replay(packed, contents)) if len(stretch) > 1 else (contents, Replay(packed))


async def tick_message(step: PastTick, past: PastContents) -> Tick:
    """Convert a tick for a replay."""
    revisions, payloads = await past.looks(step.revisions), await past.payloads(step.payloads)
    return Tick(step.round_id, step.now, True, revisions, step.after_reading, payloads)


async def recording_of(step: PastExecution, past: PastContents) -> Recording:
    """Load the recorded inputs of a statement."""
    return Recording(
        answers=await past.answers(step.answers),
        revisions=None if step.revisions is None else await past.looks(step.revisions),
        after_reading=step.after_reading,
        ticks=step.ticks,
        payloads=await past.payloads(step.payloads),
    )


async def no_effects(request: EffectRequest) -> EffectAnswer:
    """Refuse every effect, because a replay has recorded answers."""
    raise EnvironmentUnavailableError(f"{request.operation} is not available in a replay")


def discard_output(stream: Literal["stdout", "stderr"], text: str) -> None:
    """Discard the output of a replay."""
    del stream, text
