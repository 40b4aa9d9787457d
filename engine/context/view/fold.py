"""The session's View: a fold over a path of its log that stays well-formed, and the log's check for condensations.

Connect both ends: `EventLog(clock, journal, check=fold.refusal)` and `log.follow_path(fold)`. No event that
`EventLog.append` accepts then breaks a property. A log from elsewhere is loaded as it is, and what had to be left out
of it or moved is reported as one value, `warning`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...log.events import Event
from ...log.events.conversation import Condensation, ResultRerendered
from . import condensation
from .enforcement import Correction
from .properties import PROPERTIES, Property
from .rule import BoundaryRule
from .view import View
from .window import Window


class EnforcementWarning(Struct, frozen=True):
    """What keeps the View well-formed, by property. Each correction is one ViewEnforced event."""

    corrections: tuple[Correction, ...]

    def __str__(self) -> str:
        total = sum(correction.count for correction in self.corrections)
        parts = ", ".join(f"{correction.property_name} {correction.count}" for correction in self.corrections)
        return f"{total} events were left out of the View, or moved, to keep it well-formed: {parts}"


class ViewFold:
    """Feeds a View from a log. Enforces right after every Condensation."""

    def __init__(
        self, rule: BoundaryRule = BoundaryRule.GAPS, properties: Sequence[type[Property]] = PROPERTIES
    ) -> None:
        self._view = View(rule, properties, enforcing=True)
        self._corrected: dict[str, int] = {}

    def apply(self, event: Event) -> None:
        """Called by the log for every event it took."""
        for correction in self._view.append(event):
            self._corrected[correction.property_name] = (
                self._corrected.get(correction.property_name, 0) + correction.count
            )

    def reset(self) -> None:
        """Called by the log when another path is active, whose events follow; the View stays the same object."""
        self._view.reset()
        self._corrected = {}

    def refusal(self, event: Event) -> str | None:
        """Why the log must not take this event, or None: a Condensation that does harm, a new render of no result."""
        match event:
            case Condensation():
                return condensation.refusal(self._view.events, self._view.indices, event)
            case ResultRerendered(tool_call_id=call) if call not in self._view.observation_tool_call_ids:
                return f"the View has no result of {call}"
            case _:
                return None

    @property
    def view(self) -> Window:
        return self._view

    @property
    def warning(self) -> EnforcementWarning | None:
        """What has been left out: for good at condensations, and from `ready` as the View is now.

        Ask after `EventLog.load`. A log that was only appended to, with no call left open by a stopped run, gives None.
        """
        counts = dict(self._corrected)
        for correction in self._view.enforced(open_run=True).corrections:
            counts[correction.property_name] = counts.get(correction.property_name, 0) + correction.count
        return EnforcementWarning(tuple(Correction(name, count) for name, count in counts.items())) if counts else None
