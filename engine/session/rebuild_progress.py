"""Says which statement of how many runs again, while a rebuild of the names takes long.

Must not know why there is a rebuild, nor how it is shown. Used by `live_environment`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from ..core.ids import ExecutionId, Minter
from ..log.past import PastExecution
from ..runtime.environment import Environment
from .publishing.signals import StatementRerun

FIRST_SECONDS: Final = 1.0
"""Nobody has to be told of what is over by then."""
_MOST_SECONDS: Final = 5.0
"""Between two signals at most; the time between them grows, because each may be a line on a screen."""


class RebuildProgress:
    """One rebuild.

    Args:
        signal: publishes.
        minter: names the rebuild.
        environment: is asked which execution runs again.
        executions: those that count, in their order; of others, which are told of elsewhere, nothing is said.
        first_seconds: until it is said for the first time.
    """

    def __init__(
        self,
        signal: Callable[[StatementRerun], None],
        minter: Minter,
        environment: Environment,
        executions: Sequence[PastExecution],
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        self._environment = environment
        self._pause = first_seconds
        self._statements = {past.request.execution_id: past.request.index for past in executions}
        self._places = {execution: place for place, execution in enumerate(self._statements, 1)}
        self._signal = signal
        self._minter = minter
        self._told: StatementRerun | None = None

    @asynccontextmanager
    async def told(self) -> AsyncGenerator[None]:
        """Says how far it is until this is left."""
        task = asyncio.create_task(self._tell_from_time_to_time())
        is_done = False
        try:
            yield
            is_done = True
        finally:
            task.cancel()
            self._end(is_done=is_done)

    async def _tell_from_time_to_time(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _MOST_SECONDS)
            self._look()

    def _look(self) -> None:
        execution = self._environment.rerunning
        if execution is None:
            return
        if execution in self._places:
            self._tell(execution)
        else:  # those that count are over
            self._end(is_done=True)

    def _tell(self, execution: ExecutionId) -> None:
        place = self._places[execution]
        number, total = self._statements[execution], len(self._places)
        if self._told is None:
            self._told = StatementRerun(self._minter.tool_call(), number, place, total, "begun")
        elif self._told.place != place:
            self._told = replace(self._told, statement=number, place=place, state="running")
        else:
            return
        self._signal(self._told)

    def _end(self, *, is_done: bool) -> None:
        if self._told is not None:
            last, self._told = self._told, None
            self._signal(replace(last, state="over" if is_done else "given_up"))
