"""Which handles are of statements that came out differently when they ran again: a fold over a path of events.

A handle is of the statement that made it, and of those that called a method on it. A statement counts until it runs
again in a replay that comes to its end, and comes out the same. The worker says so with the groups that hold them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import ClassVar

from ...core.ids import Seq
from ...log.events import Event
from ...log.events.execution import ExecutionFinished, ExecutionStarted
from ...log.events.nodes import MethodCalled, NodeMade
from ...log.events.replays import Diverged, ReplayBegun, ReplayEnded
from ...log.timeline.index import Timeline


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
        self._numbers = array("q")
        """Of a statement that made a handle or called a method on one, again and again; beside it where the log says
        so, which is less than the id of the handle takes."""
        self._places = array("q")
        self._diverged: set[int] = set()
        self._checked: set[int] = set()
        """Those that had come out differently, and may come out the same in the replay that is under way."""
        self._nodes: Mapping[str, tuple[int, ...]] | None = None
        """Found already, and the same since."""

    def apply(self, event: Event) -> None:
        match event:
            case ExecutionStarted(statement_id=statement_id) if event.counts:
                cell = self._timeline.cell(statement_id)
                self._running = 0 if cell is None else cell.index
            case ExecutionFinished() if event.counts:
                self._running = 0
            case NodeMade(statement=number):
                self._note(number, event)
            case MethodCalled() if self._running:
                self._note(self._running, event)
            case _:
                self._follow(event)

    def _note(self, number: int, event: Event) -> None:
        self._numbers.append(number)
        self._places.append(event.seq)
        if number in self._diverged:
            self._nodes = None

    def _follow(self, event: Event) -> None:
        self._nodes = None
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
        """The numbers of those statements, by the ids of their handles. O(1) until something differs or no longer."""
        if self._nodes is None:
            found = dict[str, set[int]]()
            for number, place in zip(self._numbers, self._places, strict=True) if self._diverged else ():
                if number in self._diverged:
                    event = self._timeline.at(Seq(place))
                    assert isinstance(event, NodeMade | MethodCalled)
                    found.setdefault(event.obj_id, set()).add(number)
            self._nodes = {obj_id: tuple(sorted(numbers)) for obj_id, numbers in found.items()}
        return self._nodes
