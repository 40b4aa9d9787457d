"""The View: the attention window, folded over the stamped events of one log.

Entries come in by `append` alone, nothing but a Condensation removes any, and nothing but a ResultRerendered changes
the text of one. The indices grow with the entries, so there is no cache that could be stale, and no text decides about
them; what a property has to know about the log it records as events pass. Must not
know of sessions or models. Owned by `ViewFold`; others get the reading side, `Window`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.errors import InvalidEventError
from ...log.events import UNSTAMPED, Event
from ...log.events.conversation import Condensation, CondensationRequest, ResultRerendered, ToolResult
from .condensation import condensed, cuts_are_safe, offset_is_safe, with_summary_at_index
from .enforcement import Correction, enforce
from .entries import ENTERING, rerendered, summary_id
from .indices import Indices
from .properties import PROPERTIES, Property
from .rule import BoundaryRule
from .window import Window


class View(Window):
    """The window that grows.

    Args:
        rule: how properties close gaps.
        properties: the kinds of property that have to hold.
        enforcing: enforce right after every Condensation, for good, so that a bad one cannot harm what comes later.
            Without it a bad one is applied as it is, and only `ready` is enforced.
    """

    __slots__ = ("_enforcing", "_entering", "_last", "_passing")

    def __init__(
        self,
        rule: BoundaryRule = BoundaryRule.GAPS,
        properties: Sequence[type[Property]] = PROPERTIES,
        *,
        enforcing: bool = False,
    ) -> None:
        self._enforcing = enforcing
        super().__init__(rule, properties)

    def reset(self) -> None:
        """Holds nothing and remembers no event any more, because those of another path follow. A generation ends."""
        self._generation += 1
        self._begin()

    def _begin(self) -> None:
        super()._begin()
        self._last = UNSTAMPED
        tables = [each.recorders() for each in self._properties]
        kinds = {kind for table in tables for kind in table} | ENTERING.keys()
        recorders = {kind: tuple(table[kind] for table in tables if kind in table) for kind in kinds}
        self._entering = {kind: (is_hidden, recorders[kind]) for kind, is_hidden in ENTERING.items()}
        self._passing = {kind: recorders[kind] for kind in kinds - ENTERING.keys()}

    @classmethod
    def from_events(cls, events: Iterable[Event], rule: BoundaryRule = BoundaryRule.GAPS) -> View:
        """The View of a whole log."""
        view = cls(rule)
        for event in events:
            view.append(event)
        return view

    def append(self, event: Event) -> tuple[Correction, ...]:
        """Takes the next event of the log; what a model must not read is skipped.

        O(1) amortised; a Condensation and a ResultRerendered O(n).

        Returns:
            What an enforcing View had to leave out or move because of a bad Condensation.

        Raises:
            InvalidEventError: the event is not stamped, or not later on its log than the one before.
        """
        if event.seq <= self._last:
            raise InvalidEventError(event.kind, f"position {event.seq} does not follow {self._last} in the View")
        self._last = event.seq
        entering = self._entering.get(type(event))
        if entering is None:
            return self._pass(event)
        is_hidden, recorders = entering
        if is_hidden is not None and is_hidden(event):
            return ()
        for recorder in recorders:
            recorder(event)
        self._entries.append(event)
        self._indices.append(event)
        return ()

    def _pass(self, event: Event) -> tuple[Correction, ...]:
        """Handles an event that becomes no entry: properties may record it, and condensations change the entries."""
        for recorder in self._passing.get(type(event), ()):
            recorder(event)
        if isinstance(event, CondensationRequest):
            self._request = True
        elif isinstance(event, ResultRerendered):
            self._rerender(event)
        elif isinstance(event, Condensation):
            return self._condense(event)
        return ()

    def _rerender(self, event: ResultRerendered) -> None:
        """Puts the new text in the place of the result; of one that is not there, nothing."""
        for position, entry in enumerate(self._entries):
            if isinstance(entry, ToolResult) and entry.tool_call_id == event.tool_call_id:
                self._generation += 1
                self._entries[position] = rerendered(entry, event)
                return

    def _condense(self, condensation: Condensation) -> tuple[Correction, ...]:
        self._request = False
        self._generation += 1
        remaining = condensed(self._entries, condensation)
        if not self._enforcing:
            self._hold(remaining)
            return ()
        indices = self._indices.snapshot()
        was_at_index = offset_is_safe(self._entries, indices, condensation)
        is_settled = was_at_index and cuts_are_safe(self._entries, indices, condensation)
        enforced = enforce(remaining, self._properties, open_run=True)
        if is_settled:
            self._hold(enforced.events)
            return enforced.corrections
        named = summary_id(condensation.event_id)
        moved = with_summary_at_index(enforced.events, named, self._properties, was_at_index)
        self._hold(moved.events)
        return enforced.corrections + moved.corrections

    def _hold(self, entries: Iterable[Event]) -> None:
        self._entries = list(entries)
        self._indices = Indices.over(self._entries, self._properties)
