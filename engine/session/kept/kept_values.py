"""Records the values that a rebuild may not bring back: what the environment pickles after each statement.

Nobody waits for it. A statement is only noted when its record is on the log. Small values follow by themselves, and are
taken when the record is on its way to the disk (`take`). `catch_up` does the rest before anything else happens to the
namespace, which is when the reply is on its way and nothing waits, or else when the next tick, projection or statement
wants the environment. What the environment pickles beside the next statements is collected while the session is idle,
and before each statement as far as it is there.

The event on what was kept waits for the commit of what comes next, or of its own a moment later. A kill before that
loses copies, and what of the statement was acknowledged is durable without them.

A group that holds a secret is not stored but named. A worker that is lost takes with it what was not recorded by then:
those names have no copy, which whoever rebuilds finds out. Must not know what a pickle holds. Owned by
`live_environment`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from ...core.errors import EngineError, EnvironmentUnavailableError
from ...core.execution import KeptGroup
from ...core.ids import ExecutionId
from ...log.event_log import EventLog
from ...log.events.execution import ValuesKept
from ...log.past import Preserved, ValueGroup
from ...log.redaction import Redactor, withheld
from ...log.store_protocol import Store
from ...runtime.environment import Environment

CLOSE_SECONDS: Final = 2.0
"""How long the end of a session or of its worker waits for what is being pickled."""
_SOON: Final = 0.001
"""Seconds until what has followed a statement is recorded, unless the next statement is there by then."""
_FIRST_LOOK: Final = 0.01
_LONGEST_LOOK: Final = 0.5
"""Seconds between two looks at what is being pickled: the first, and where they end up."""
_AT_ONCE: Final = 1 << 20
"""Bytes that are looked through and kept without a thread of their own."""
_WITHIN: Final = 256
"""Bytes of a pickle that is kept within its event: a blob and the references to it take more room, and more time."""
_MANY: Final = 32
"""Groups that take a thread, however small they are: the store needs a moment for each."""


class _Noted(NamedTuple):
    execution_id: ExecutionId
    large: bool


class ValueKeeping:
    """The values of one session. `hold` keeps what they take within bounds, after some were kept."""

    def __init__(self, log: EventLog, store: Store, redactor: Redactor, hold: Callable[[], Awaitable[None]]) -> None:
        self._log = log
        self._store = store
        self._redactor = redactor
        self._hold = hold
        self._noted: _Noted | None = None
        self._heard: tuple[ExecutionId, Preserved] | None = None
        """What was noted last, and is to be recorded."""
        self._pending: deque[ExecutionId] = deque()
        self._wait = _FIRST_LOOK
        self._is_held = True
        self._turn = asyncio.Lock()

    def note(self, execution_id: ExecutionId, *, large: bool) -> None:
        """Has the values of an execution kept, of which everything else is on the log; `large` ones, too."""
        self._noted = _Noted(execution_id, large)

    def forget(self) -> None:
        """The namespace is gone, and with it what was not recorded."""
        self._noted = None
        self._pending.clear()

    def hear(self, environment: Environment) -> bool:
        """Whether all values of what was noted last are there by now, for `record` to keep them."""
        if self._turn.locked():
            return False
        if self._noted is not None:
            preserved = environment.kept()
            if preserved is None:
                return False
            noted, self._noted = self._noted, None
            self._heard = noted.execution_id, preserved
        return True

    def record(self) -> None:
        """Keeps what was heard."""
        if self._heard is not None:
            (execution_id, preserved), self._heard = self._heard, None
            self._record(execution_id, preserved, *self._kept(preserved.groups))

    async def catch_up(self, environment: Environment) -> None:
        """Keeps the values of what was noted last, if that is not done yet."""
        if self.hear(environment):
            self.record()
            return
        # Whoever is cancelled while an answer is on its way would end the worker. It takes a moment, and is bounded.
        with anyio.CancelScope(shield=True):
            async with self._turn:
                noted, self._noted = self._noted, None
                if noted is not None:
                    self._wait = _FIRST_LOOK
                    await self._take(
                        noted.execution_id, lambda: environment.preserve(noted.large), self._pending.append
                    )

    async def collect(self, environment: Environment) -> None:
        """Takes what was pickled beside the statements and is there now. Not while a statement runs."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if self._pending:
                    await self._take(self._pending.popleft(), environment.collect, self._pending.appendleft)

    @property
    def pending(self) -> bool:
        """Whether something is pickled beside the statements, for `collect`."""
        return bool(self._pending)

    @property
    def next_look(self) -> float | None:
        """After how many seconds of the session's being idle something is to be done; None for not at all."""
        if self._noted is not None:
            return _SOON
        if self._pending:
            return self._wait
        return None if self._is_held else _FIRST_LOOK

    async def look_after(self, environment: Environment) -> float | None:
        """What is to be done while the session is idle; after how many seconds again, None for not at all."""
        if self._noted is not None:
            await self.catch_up(environment)
        elif self._pending:
            await self.collect(environment)
            self._wait = min(2 * self._wait, _LONGEST_LOOK)
        elif not self._is_held:
            self._is_held = True
            await self._hold()
        return self.next_look

    async def finish(self, environment: Environment) -> None:
        """Waits for all that is being pickled, for CLOSE_SECONDS at most."""
        await self.catch_up(environment)
        wait = _FIRST_LOOK
        with anyio.move_on_after(CLOSE_SECONDS):
            while self._pending:
                await anyio.sleep(wait)
                wait = min(2 * wait, _LONGEST_LOOK)
                await self.collect(environment)

    async def _take(
        self,
        execution_id: ExecutionId,
        ask: Callable[[], Awaitable[Preserved]],
        put_back: Callable[[ExecutionId], None],
    ) -> None:
        try:
            preserved = await ask()
        except EnvironmentUnavailableError:
            self.forget()
            return
        if preserved.pending:
            put_back(execution_id)
        if len(preserved.groups) < _MANY and sum(len(group.data) for group in preserved.groups) <= _AT_ONCE:
            groups, failed = self._kept(preserved.groups)
        else:
            groups, failed = await anyio.to_thread.run_sync(self._kept, preserved.groups)
        self._record(execution_id, preserved, groups, failed)

    def _record(
        self, execution_id: ExecutionId, preserved: Preserved, groups: Sequence[KeptGroup], failed: dict[str, str]
    ) -> None:
        unkept = {**preserved.unkept, **failed}
        if groups or unkept:
            self._is_held = False
            self._log.append(ValuesKept(execution_id=execution_id, groups=tuple(groups), unkept=unkept))

    def _kept(self, groups: Sequence[ValueGroup]) -> tuple[list[KeptGroup], dict[str, str]]:
        """What the store took, and why not, by name, where it did not."""
        kept: list[KeptGroup] = []
        failed: dict[str, str] = {}
        for group in groups:
            try:
                kept.append(self._stored(group))
            except EngineError as error:
                failed |= dict.fromkeys(group.names, f"the store did not take it: {error}")
        return kept, failed

    def _stored(self, group: ValueGroup) -> KeptGroup:
        size, data = len(group.data), self._redactor.storable(group.data)
        if data is None:
            return KeptGroup(names=group.names, size=size, withheld=withheld(group.data))
        if size <= _WITHIN:
            return KeptGroup(names=group.names, size=size, data=data)
        return KeptGroup(names=group.names, content=self._store.blob_put(data), size=size)
