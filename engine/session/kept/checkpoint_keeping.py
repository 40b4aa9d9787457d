"""Decides after each statement whether a checkpoint follows, and records what becomes of checkpoints.

A statement's reply never waits for one: it is asked for when the record is on the log, and what came of it is recorded
with the next one, or when the session is idle. Must not know what a checkpoint is. Owned by `live_environment`.
"""

from __future__ import annotations

from typing import Final

import anyio

from ...core.ids import ExecutionId
from ...log.checkpoints import is_due
from ...log.event_log import EventLog
from ...log.events.execution import CheckpointDropped, CheckpointTaken
from ...log.past import CheckpointNews
from ...runtime.environment import Environment

_COST: Final = 0.005
"""Seconds that one takes, as long as nobody knows."""


class CheckpointKeeping:
    """The checkpoints of one session. Nothing is done unless it `keeps` any."""

    def __init__(self, log: EventLog, *, keeps: bool) -> None:
        self.keeps = keeps
        self._log = log
        self._cost = _COST
        self._latest = 0.0
        self._hindrance = ""
        """Why the one asked for last could not be taken."""
        self._asked: set[ExecutionId] = set()
        """Those of which nothing was heard yet."""

    async def after(self, environment: Environment, execution_id: ExecutionId, *, acted: bool) -> None:
        """A statement has ended and is recorded; nothing else was asked of the environment since."""
        if not self.keeps:
            return
        if self._asked:
            self.hear(environment)
        if not is_due(anyio.current_time() - self._latest, self._cost, acted=acted):
            return
        if environment.alive and await environment.snapshot(execution_id):
            self._latest = anyio.current_time()
            self._asked.add(execution_id)

    @property
    def waits(self) -> bool:
        """Whether there is something to hear."""
        return bool(self._asked)

    def hear(self, environment: Environment) -> None:
        """Records what became of those that there were. What makes room for newer ones is not worth a word."""
        if self.keeps:
            for news in environment.checkpoints():
                self._take(news)

    def _take(self, news: CheckpointNews) -> None:
        was_asked = news.execution_id in self._asked
        self._asked.discard(news.execution_id)
        if not news.dropped:
            self._cost, self._hindrance = news.seconds, ""
            self._log.append(
                CheckpointTaken(execution_id=news.execution_id, time_ms=news.seconds * 1000, shared=news.shared)
            )
        elif not news.surplus and (not was_asked or news.dropped != self._hindrance):
            self._log.append(CheckpointDropped(execution_id=news.execution_id, reason=news.dropped))
        if was_asked and news.dropped:
            self._hindrance = news.dropped
