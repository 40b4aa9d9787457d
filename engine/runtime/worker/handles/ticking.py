"""When nodes may change, and the ticks that change them: as steps of their own, or within the statement that asks.

Owns whose thread may change nodes: that of the statement that runs, or that of a tick. The rule has this reason: what
a node shows is on the log as a consequence of a statement or of a tick, and a re-run brings it about by running these
again. What a thread does comes at a moment that no re-run can repeat; so it may look, and it is refused a change.

Owns also at which times a statement's ticks took place: those that are periodic go by that, so in a re-run they are the
recorded ones. Must not know phases, nor what a node is. Made and called by the Board.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ....core.ids import ExecutionId
from ....files.looks import Looks
from ....files.rendered import NodeChangeError
from ....files.ticks import TickContext, phases_of
from ....log.events import Event
from ....log.events.nodes import StatementTicked


class Ticks:
    """The ticks of one board. `now` is in seconds since the epoch; at `paths` a tick is about to look."""

    def __init__(self, looks: Looks, now: Callable[[], float], paths: Callable[[], Iterable[str]]) -> None:
        self._looks = looks
        self._now = now
        self._paths = paths
        self._thread: int | None = None
        self._execution_id = ExecutionId("")
        self._round_id = 0
        self._times: deque[float] = deque()
        self.tells = True
        """Whether anybody is told of what the present step changes."""

    def admit(self, what: str) -> None:
        """Raises NodeChangeError unless the calling thread may change nodes now."""
        if self._thread != threading.get_ident():
            raise NodeChangeError(what)

    def begin(self, execution_id: ExecutionId, round_id: int, times: Iterable[float]) -> None:
        """A statement begins, in the calling thread; in a re-run its ticks took place at these `times`."""
        self._thread = threading.get_ident()
        self._execution_id, self._round_id = execution_id, round_id
        self._times = deque(times)
        self.tells = True

    def end(self) -> None:
        """The statement has ended."""
        self._thread = None

    def step(self, context: TickContext, *, tells: bool) -> tuple[Event, ...]:
        """A tick between statements, in the calling thread. Where nobody `tells`, nodes change alike."""
        self.tells = tells
        self._thread = threading.get_ident()
        try:
            return tuple(self._run(context))
        finally:
            self._thread = None

    def asked(self, context_at: Callable[[int, float], TickContext]) -> Iterator[Event]:
        """A tick within the statement that asks for it; events as they happen. Raises NodeChangeError elsewhere.

        `context_at` gives the context of a tick in a Round at a moment.
        """
        self.admit("tick")
        now = self._times.popleft() if self._times else self._now()
        context = replace(context_at(self._round_id, now), asked=True)
        yield StatementTicked(
            execution_id=self._execution_id,
            round_id=self._round_id,
            now=now,
            nodes=sum(node.running for node in (*context.nodes, *context.groups)),
        )
        yield from self._run(context)

    def _run(self, context: TickContext) -> Iterator[Event]:
        self._looks.begin_tick(self._paths)
        try:
            yield from phases_of(context)
        finally:
            self._looks.end_tick()
