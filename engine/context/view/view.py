"""The View: the attention window, a fold over the stamped events of a log, and its reading side, `Window`.

Entries come in by `View.append` only. Only a Condensation, and `View.enforce_properties`, remove entries; only a
ResultRerendered changes a text.
Indices grow with the entries, so no cache can be stale, and they do not depend on texts. What a property needs to know
about the log it records as events pass. `ViewFold` connects a View to a session's log. Must not know sessions or
models.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ...core.errors import InvalidEventError, NoManipulationIndexError
from ...core.ids import LlmResponseId, ToolCallId
from ...log.events import UNSTAMPED, Event
from ...log.events.conversation import Condensation, CondensationRequest, ResultRerendered, ToolCall, ToolResult
from . import condensation, well_formed
from .condensation import condensed, cuts_are_safe, offset_is_safe, with_summary_at_index
from .entries import ENTERING, BoundaryRule, rerendered, summary_id
from .properties import PROPERTIES, Property
from .well_formed import Correction, Enforced, Indices, Quiet, enforce


class Window:
    """An ordered sequence of entries with its manipulation indices, for readers. Answers are values.

    Args:
        rule: how properties close gaps.
        properties: the kinds of property that have to be satisfied.
    """

    __slots__ = ("_entries", "_generation", "_indices", "_kinds", "_properties", "_quiet", "_request", "_rule")

    def __init__(
        self, rule: BoundaryRule = BoundaryRule.GAPS, properties: Sequence[type[Property]] = PROPERTIES
    ) -> None:
        self._rule = rule
        self._kinds = tuple(properties)
        self._generation = 0
        self._begin()

    def _begin(self) -> None:
        """Start empty, without memory of a log."""
        self._properties = tuple(kind(self._rule) for kind in self._kinds)
        self._entries: list[Event] = []
        self._indices = Indices(self._properties)
        self._quiet = Quiet(self._properties)
        self._request = False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def rule(self) -> BoundaryRule:
        return self._rule

    @property
    def generation(self) -> int:
        """Number of removals and changes of entries.

        While it stays the same, entries are only added at the end.
        """
        return self._generation

    @property
    def events(self) -> tuple[Event, ...]:
        """The appended entries, with condensations and new renders applied.

        Perhaps unfinished or malformed.
        """
        return tuple(self._entries)

    def since(self, position: int) -> tuple[Event, ...]:
        """Return `events` from a position on. O(length of the result)."""
        return tuple(self._entries[position:])

    def enforced(self, *, open_run: bool = False) -> Enforced:
        """Return the greatest part of `events` that satisfies every property, with the corrections of each.

        Without a violation it costs the entries since the last call, and a copy; otherwise O(n).

        Args:
            open_run: calls that the current run still waits for count as answered.
        """
        if self._quiet.holds(self._entries, self._generation, open_run):
            return Enforced(tuple(self._entries), ())
        return enforce(self._entries, self._properties, open_run)

    def ready(self, *, open_run: bool = False) -> tuple[Event, ...]:
        """The entries for a model: `events`, enforced."""
        return self.enforced(open_run=open_run).events

    @property
    def indices(self) -> tuple[int, ...]:
        """The manipulation indices of `events`, ascending: where to insert, and between which two to cut."""
        return self._indices.snapshot()

    @property
    def manipulation_indices(self) -> tuple[int, ...]:
        """`indices`, by its published name."""
        return self.indices

    def find_next(self, threshold: int) -> int:
        """Return the smallest manipulation index that is at least `threshold`, in O(log n).

        Raises:
            NoManipulationIndexError: there is none.
        """
        gaps = self._indices.gaps
        found = bisect_left(gaps, threshold)
        if found == len(gaps):
            raise NoManipulationIndexError(threshold, len(self._entries))
        return gaps[found]

    @property
    def unhandled_condensation_request(self) -> bool:
        """Whether a condensation was requested, and none has followed."""
        return self._request

    @property
    def batches(self) -> Mapping[LlmResponseId, tuple[int, ...]]:
        """Positions of the actions of each model response."""
        return well_formed.batches(self._entries)

    @property
    def batch_ranges(self) -> tuple[tuple[int, int, bool], ...]:
        """(first position, last position, has thinking) of each batch."""
        return well_formed.batch_ranges(self._entries)

    @property
    def tool_loop_ranges(self) -> tuple[tuple[int, int], ...]:
        """(first, last) position of each tool loop, inclusive."""
        return well_formed.tool_loop_ranges(self._entries, self._rule)

    @property
    def action_tool_call_ids(self) -> frozenset[ToolCallId]:
        return frozenset(entry.tool_call_id for entry in self._entries if isinstance(entry, ToolCall))

    @property
    def observation_tool_call_ids(self) -> frozenset[ToolCallId]:
        return frozenset(entry.tool_call_id for entry in self._entries if isinstance(entry, ToolResult))


# --- the window that grows -------------------------------------------------------------------------------------------


class View(Window):
    """The window that grows.

    Args:
        rule: how properties close gaps.
        properties: the kinds of property that have to be satisfied.
        enforcing: enforce right after every Condensation, permanently, so that a bad one cannot harm later entries.
            Otherwise a bad one is applied unchanged, and only `ready` is enforced.
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
        """Start empty, because the events of another path follow.

        A generation ends.
        """
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
        """Make the View of a whole log."""
        view = cls(rule)
        for event in events:
            view.append(event)
        return view

    def append(self, event: Event) -> tuple[Correction, ...]:
        """Add the next event of the log.

        Kinds that a model must not read are skipped.

        O(1) amortised; a Condensation and a ResultRerendered O(n).

        Returns:
            What an enforcing View removed or moved because of a bad Condensation.

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

    def add_event(self, event: Event) -> tuple[Correction, ...]:
        """`append`, by its published name."""
        return self.append(event)

    def enforce_properties(self, all_events: Sequence[Event] = ()) -> tuple[Correction, ...]:
        """Remove from this View, permanently, what `enforced` leaves out, and return the corrections.

        `all_events` is part of the published call and not used: the properties remember the log.
        """
        del all_events
        enforced = self.enforced()
        if enforced.corrections:
            self._generation += 1
            self._hold(enforced.events)
        return enforced.corrections

    def _pass(self, event: Event) -> tuple[Correction, ...]:
        """Handle an event that is not an entry: properties may record it, and condensations change the entries."""
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
        """Replace the text of a result, if it is there."""
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


# --- the fold --------------------------------------------------------------------------------------------------------


class EnforcementWarning(Struct, frozen=True):
    """Corrections that keep the View well-formed, by property.

    Each is one ViewEnforced event.
    """

    corrections: tuple[Correction, ...]

    def __str__(self) -> str:
        total = sum(correction.count for correction in self.corrections)
        parts = ", ".join(f"{correction.property_name} {correction.count}" for correction in self.corrections)
        return f"{total} events were left out of the View, or moved, to keep it well-formed: {parts}"


class ViewFold:
    """The session's View, always well-formed, and the log's check for condensations.

    Connect both: `EventLog(clock, journal, check=fold.refusal)` and `log.follow_path(fold)`. Then no event that
    `EventLog.append` accepts violates a property. A log from elsewhere is loaded unchanged, and the corrections are
    reported as one value, `warning`.
    """

    def __init__(
        self, rule: BoundaryRule = BoundaryRule.GAPS, properties: Sequence[type[Property]] = PROPERTIES
    ) -> None:
        self._view = View(rule, properties, enforcing=True)
        self._corrected: dict[str, int] = {}

    def apply(self, event: Event) -> None:
        """Take an event of the log."""
        for correction in self._view.append(event):
            self._corrected[correction.property_name] = (
                self._corrected.get(correction.property_name, 0) + correction.count
            )

    def reset(self) -> None:
        """Start again for another path; the View stays the same object."""
        self._view.reset()
        self._corrected = {}

    def refusal(self, event: Event) -> str | None:
        """Return why the log must refuse an event, or None: a harmful Condensation, a new render of no result."""
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
        """The corrections: permanent ones at condensations, and those of `ready` now.

        Read it after `EventLog.load`. It is None for a log that was only appended to, without calls left open by a
        stopped run.
        """
        counts = dict(self._corrected)
        for correction in self._view.enforced(open_run=True).corrections:
            counts[correction.property_name] = counts.get(correction.property_name, 0) + correction.count
        return EnforcementWarning(tuple(Correction(name, count) for name, count in counts.items())) if counts else None
