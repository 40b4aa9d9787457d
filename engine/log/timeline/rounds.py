"""How many Rounds a session has had, as a fold over its whole log, whatever path of it is active.

Nodes compare the numbers of Rounds, so none may come twice: not on another branch, nor in a log of an earlier version,
which counted model calls and did not say when a Round began. What such a log numbers counts as used. Must not know what
a Round is opened for. Followed by the log; asked by whoever opens Rounds.
"""

from __future__ import annotations

from typing import ClassVar

from ..events import Event
from ..events.execution import ExecutionStarted
from ..events.nodes import NodesTicked, TickApplied
from ..events.session import RoundCause, RoundOpened, UsageReported


class Rounds:
    """`next` is the number of the Round that will be opened next. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (RoundOpened, UsageReported, NodesTicked, TickApplied, ExecutionStarted)
    )

    def __init__(self) -> None:
        self.next = 0
        self._calls = 0
        self._says_when = False

    def apply(self, event: Event) -> None:
        match event:
            case RoundOpened(round_id=round_id):
                self._says_when = True
                self._use(round_id)
            case UsageReported() if not self._says_when:
                self._calls += 1
                self._use(self._calls - 1)
            case NodesTicked(round_id=round_id) | TickApplied(turn_id=round_id):
                self._use(round_id)
            case ExecutionStarted(round_id=int(round_id)):
                self._use(round_id)
            case _:
                pass

    def opening(self, cause: RoundCause) -> RoundOpened:
        """The event with which the next Round begins, to be appended."""
        return RoundOpened(round_id=self.next, cause=cause)

    def _use(self, round_id: int) -> None:
        self.next = max(self.next, round_id + 1)
