"""The base of all events. Events are named in the past tense, frozen, and stamped once, by the log."""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct

from ...core.ids import MAIN_BRANCH, BranchId, EventId, Seq

UNSTAMPED: Final = Seq(-1)
"""The `seq` of an event that is not on a log yet."""
UNNAMED: Final = EventId("")


class Event(Struct, frozen=True, kw_only=True):
    """The stamp of an event; `EventLog.append` fills it in. `at` is in seconds since the Unix epoch.

    `kind` names the event on disk and never changes. `v` is the version of its fields and increases when their meaning
    changes. `from_worker`: workers may report it. Contents that only `droppable` events name may be dropped from the
    store; see `dropped_before`.
    """

    kind: ClassVar[str]
    v: ClassVar[int] = 1
    from_worker: ClassVar[bool] = False
    droppable: ClassVar[bool] = False

    seq: Seq = UNSTAMPED
    event_id: EventId = UNNAMED
    at: float = 0.0
    branch_id: BranchId = MAIN_BRANCH

    @property
    def waits(self) -> bool:
        """Whether its commit may wait for the events that are about to follow, because nothing depends on it alone."""
        return False

    @property
    def dropped_before(self) -> Seq | None:
        """Its commit drops the session's droppable contents that no event from this position on names."""
        return None
