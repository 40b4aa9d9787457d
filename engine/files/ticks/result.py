"""What a node must offer to be ticked, and what it answers.

Plain values and one Protocol, so that phases and nodes need not know each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, Protocol

from ...core.ids import ObjId
from ...log.events.nodes import DropReason, FileChangeKind, TickKind
from ...log.ticks_values import UpdatePayload, Want

Frequency = Literal["Sync", "Async"] | tuple[Literal["Periodic"], float]
"""When a running node is ticked: once per Round; when something was prepared for it; every so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """How the file behind a node changed: absolute path, kind, xxh3 before and after (empty: no content)."""

    path: str
    change: FileChangeKind
    before_digest: str
    after_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """`summary` is one line; `delta` is it and, where there is one, a short diff. Both empty: nothing changed.

    `members` are those of a group that have changed: the ids of nodes, and what stands for globs. `files` is the part
    of `summary` about files of globs.
    """

    summary: str = ""
    delta: str = ""
    members: tuple[str, ...] = ()
    files: str = ""
    source: SourceChange | None = None


UNCHANGED: Final = TickResult()


class Ticking(Protocol):
    """A node, as the phases see it."""

    obj_type: ClassVar[str]

    @property
    def obj_id(self) -> ObjId: ...

    @property
    def called(self) -> str:
        """What the namespace calls it; its id where it has no name."""
        ...

    @property
    def running(self) -> bool: ...

    @property
    def freq(self) -> Frequency | None: ...

    @property
    def min_turn_interval(self) -> int:
        """Rounds between two Sync ticks, at least 1."""
        ...

    @property
    def last_tick_turn(self) -> int:
        """The Round of the last tick; -1 before the first."""
        ...

    @property
    def last_tick_time(self) -> float:
        """The time of the last tick in seconds since the epoch; 0.0 before the first."""
        ...

    def children(self) -> Sequence[Ticking]:
        """The nodes that it holds as a group."""
        ...

    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult: ...

    def foresee(self) -> str:
        """What a tick would bring now by what its source holds, in one line, empty for nothing; changes nothing."""
        ...

    def take_payload(self, payload: UpdatePayload, now: float, turn_id: int) -> TickResult | DropReason:
        """Applies what was prepared for this node; or the reason why it does not, with nothing changed."""
        ...

    def wants(self) -> Iterable[Want]:
        """What could be prepared for ticks to come."""
        ...
