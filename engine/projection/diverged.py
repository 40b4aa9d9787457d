"""Which handles are of statements that came out differently when they ran again: a fold over a path of events.

A handle is of the statement that made it, and of those that called a method on it. A statement counts until it runs
again in a replay that comes to its end, and comes out the same. The worker says so with the groups that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..events import Event
from ..events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ..events.nodes import MethodCalled, NodeMade
from ..events.replays import Diverged, ReplayBegun, ReplayEnded
from ..ids import StatementId


class DivergedNodes:
    """`apply` and `reset` are for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (
            StatementRecorded,
            ExecutionStarted,
            ExecutionFinished,
            NodeMade,
            MethodCalled,
            ReplayBegun,
            Diverged,
            ReplayEnded,
        )
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Another path follows, from its first event on."""
        self._numbers: dict[StatementId, int] = {}
        self._running = 0
        """The number of the statement that runs; 0 for none."""
        self._nodes: dict[int, dict[str, None]] = {}
        """By the numbers of statements."""
        self._diverged: set[int] = set()
        self._checked: set[int] = set()
        """Those that had come out differently, and may come out the same in the replay that is under way."""

    def apply(self, event: Event) -> None:
        match event:
            case StatementRecorded(statement_id=statement_id, index=index):
                self._numbers[statement_id] = index
            case ExecutionStarted(statement_id=statement_id) if event.counts:
                self._running = self._numbers.get(statement_id, 0)
            case ExecutionFinished() if event.counts:
                self._running = 0
            case NodeMade(obj_id=obj_id, statement=number):
                self._nodes.setdefault(number, {})[obj_id] = None
            case MethodCalled(obj_id=obj_id) if self._running:
                self._nodes.setdefault(self._running, {})[obj_id] = None
            case _:
                self._follow(event)

    def _follow(self, event: Event) -> None:
        match event:
            case ReplayBegun(first=first, last=last, mode=mode) if mode != "dry":
                self._checked = {number for number in self._diverged if first <= number <= last}
                self._diverged -= self._checked
            case Diverged(statement=number):
                self._diverged.add(number)
            case ReplayEnded(outcome=outcome):
                if outcome != "completed":
                    self._diverged |= self._checked
                self._checked = set()
            case _:
                pass

    @property
    def nodes(self) -> Mapping[str, tuple[int, ...]]:
        """The numbers of those statements, by the ids of their handles."""
        found: dict[str, tuple[int, ...]] = {}
        for number in sorted(self._diverged):
            for obj_id in self._nodes.get(number, ()):
                found[obj_id] = (*found.get(obj_id, ()), number)
        return found
