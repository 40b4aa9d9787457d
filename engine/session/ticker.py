"""Opens the session's Rounds, and ticks its nodes: with what was prepared, and on the log before anything else follows.

Owns what is appended for a tick and in which order. Must not know turns. Used by the agent loop before each model call,
and by whoever asks for a tick.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from ..core.clock import Clock
from ..log.event_log import EventLog
from ..log.events.nodes import NodesTicked
from ..log.events.session import RoundCause, RoundOpened, WorkStopped
from ..log.facts import SessionFacts
from ..log.statements import TickOutcome, UpdatePayload
from ..log.timeline import Timeline
from ..runtime.environment import Environment
from .cancellation import Cancellation
from .kept import Revisions
from .live_environment import LiveEnvironment
from .preparing import Preparer


class Ticker:
    """One session's."""

    def __init__(
        self,
        *,
        log: EventLog,
        timeline: Timeline,
        facts: SessionFacts,
        environment: LiveEnvironment,
        revisions: Revisions,
        preparer: Preparer,
        clock: Clock,
    ) -> None:
        self._log = log
        self._timeline = timeline
        self._facts = facts
        self._environment = environment
        self._revisions = revisions
        self._preparer = preparer
        self._clock = clock

    def next_round(self, cause: RoundCause) -> RoundOpened:
        """The event with which the session's next Round begins, to be appended."""
        return self._facts.round_opening(cause)

    def open_round(self, cause: RoundCause) -> int:
        """Begins the session's next Round; its number."""
        opening = self.next_round(cause)
        self._log.append(opening)
        return opening.round_id

    def cue(self) -> None:
        """A statement has run, so files may have changed."""
        self._preparer.cue()

    async def tick(self, round_id: int, cancellation: Cancellation | None = None) -> None:
        """Lets running nodes catch up with their sources, if there is a namespace at all.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
            WorkCancelledError: a cancel came before.
        """
        if self._timeline.last_execution is None:
            return
        async with self._environment.step, self._preparer.lent() as payloads:
            outcome = await self._tick(round_id, payloads, cancellation)
        self._preparer.want(outcome.wants)

    async def _tick(
        self, round_id: int, payloads: Sequence[UpdatePayload], cancellation: Cancellation | None
    ) -> TickOutcome:
        async def act(environment: Environment) -> tuple[float, TickOutcome]:
            now = self._clock.now()
            return now, await environment.tick(round_id, now, payloads)

        now, outcome = await self._environment.use(act, cancellation)
        if outcome.stops:
            self._log.append(WorkStopped(sentences=outcome.stops))
        if outcome.nodes or outcome.events:
            # A rebuild goes by the log, so nodes that were ticked must be on it, whoever does not wait any more.
            with anyio.CancelScope(shield=True):
                await self._revisions.take(outcome.contents)
            self._log.append(NodesTicked(round_id=round_id, now=now, nodes=outcome.nodes))
            for event in self._revisions.with_contents(outcome.events):
                self._log.append(event)
        return outcome
