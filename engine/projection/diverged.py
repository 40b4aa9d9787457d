"""Which handles are of statements that came out differently when they ran again: a fold over a path of events.

A handle is of the statement that made it, and of those that called a method on it. A statement counts until it runs
again in a replay that comes to its end, and comes out the same. The worker says so with the groups that hold them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import ClassVar

from ..events import Event
from ..events.execution import ExecutionFinished, ExecutionStarted
from ..events.nodes import MethodCalled, NodeMade
from ..events.replays import Diverged, ReplayBegun, ReplayEnded
from ..timeline.index import Timeline


class DivergedNodes:
    """`apply` and `reset` are for the log alone. `timeline` follows the same path, and is told of each event before."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (
            ExecutionStarted,
            ExecutionFinished,
            NodeMade,
            MethodCalled,
            ReplayBegun,
            Diverged,
            ReplayEnded,
        )
    )

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """Another path follows, from its first event on."""
        self._running = 0
        """The number of the statement that runs; 0 for none."""
        self._statements: dict[str, array[int]] = {}
        """By the ids of handles; one that ran again may be there more than once."""
        self._diverged: set[int] = set()
        self._checked: set[int] = set()
        """Those that had come out differently, and may come out the same in the replay that is under way."""

    def apply(self, event: Event) -> None:
        match event:
            case ExecutionStarted(statement_id=statement_id) if event.counts:
                cell = self._timeline.cell(statement_id)
                self._running = 0 if cell is None else cell.statement.index
            case ExecutionFinished() if event.counts:
                self._running = 0
            case NodeMade(obj_id=obj_id, statement=number):
                self._note(obj_id, number)
            case MethodCalled(obj_id=obj_id) if self._running:
                self._note(obj_id, self._running)
            case _:
                self._follow(event)

    def _note(self, obj_id: str, number: int) -> None:
        numbers = self._statements.setdefault(obj_id, array("q"))
        if not numbers or numbers[-1] != number:
            numbers.append(number)

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
        if not self._diverged:
            return {}
        found = ((obj_id, self._diverged.intersection(numbers)) for obj_id, numbers in self._statements.items())
        return {obj_id: tuple(sorted(numbers)) for obj_id, numbers in found if numbers}
