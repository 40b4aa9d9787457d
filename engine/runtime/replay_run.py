"""A stretch of a history from request to answer: the conversation of `statement_run`, one statement after another.

The worker goes from statement to statement by itself and says when each begins. From then on the conversation is about
that one: its time limit begins, and it is the one that ended the worker if that dies. So nothing is bounded or blamed
otherwise than where each statement is asked for. Of ticks nothing is said: what ends a worker there is what the
statement before them has left, and one that hangs takes that statement's time.

An interrupt is for the statement during which the host asked for it, and the worker begins no other after it. But it
may have begun one already that the host has not been told of, and then the interrupt hits that. The host sees it by
the order of what it is told: a beginning after it has asked for the interrupt. Then nobody can say how either of the
two would have ended, `is_unclear` says so, and the worker is ended; the history has to be gone through anew, step by
step. Must not know what is to become of a statement that came out differently. Used by `attempt`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

from ..core.errors import EnvironmentUnavailableError
from ..core.ids import ExecutionId
from ..log.past import PastExecution
from ..log.statements import EffectAnswer, EffectRequest, RunOutcome, RunRequest
from .ahead import Prepared, replay_messages
from .bounded_request import GRACE_SECONDS, LOADING_SECONDS
from .capture import Capture
from .connection import Connection, Received
from .environment import Limits
from .statement_run import StatementRun
from .worker.protocol import Began, BroughtBack, Ran, Replay, Replayed

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
