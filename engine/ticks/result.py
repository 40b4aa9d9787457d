"""What a node must offer to be ticked, and what it answers.

Plain values and one Protocol, so that phases and nodes need not know each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, Protocol

from ..events.nodes import FileChangeKind, TickKind
from ..ids import ObjId

Frequency = Literal["Sync"]
"""How often a running node is ticked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """How the file behind a node changed: absolute path, kind, xxh3 before and after (empty: no content)."""

    path: str
    change: FileChangeKind
    before_digest: str
    after_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """`summary` is one line; `delta` is it and, where there is one, a short diff. Both empty: nothing changed."""

    summary: str = ""
    delta: str = ""
    source: SourceChange | None = None


UNCHANGED: Final = TickResult()


class Ticking(Protocol):
    """A node, as the phases see it."""

    obj_type: ClassVar[str]

    @property
    def obj_id(self) -> ObjId: ...

    def due(self, turn_id: int, freq: Frequency) -> bool:
        """Whether the node runs at `freq` and its `min_turn_interval` of Rounds has passed since its last tick."""
        ...

    def Tick(self, now: float, turn_id: int, tick_kind: TickKind) -> TickResult: ...
