"""The reading side of a View: what it holds, where it may be cut, and what a model gets.

Owns the entries and their indices; every answer is a value, and changing it does not change the View. Must not know how
events come in. Given to the projection and to condensation policy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ...core.errors import NoManipulationIndexError
from ...core.ids import LlmResponseId, ToolCallId
from ...log.events import Event
from ...log.events.conversation import ToolCall, ToolResult
from . import auxiliary
from .enforcement import Enforced, enforce
from .indices import Indices
from .properties import PROPERTIES, Property
from .quiet import Quiet
from .rule import BoundaryRule


class Window:
    """An ordered sequence of entries with its manipulation indices. Grown only by `View`.

    Args:
        rule: how properties close gaps.
        properties: the kinds of property that have to hold.
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
        """Holds nothing, and remembers nothing of a log."""
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
        """How often entries were taken out or changed; while it stays the same, they are only added at the end."""
        return self._generation

    @property
    def events(self) -> tuple[Event, ...]:
        """What was appended, with condensations and new renders applied; unfinished, perhaps, or malformed by a log."""
        return tuple(self._entries)

    def since(self, position: int) -> tuple[Event, ...]:
        """`events` from that position on. O(what it returns)."""
        return tuple(self._entries[position:])

    def enforced(self, *, open_run: bool = False) -> Enforced:
        """What remains of `events` when every property has to hold, and how many corrections each asked for.

        Where nothing has to be left out it costs what was appended since the last call, and a copy; else O(n).

        Args:
            open_run: calls that the present run still waits for count as answered.
        """
        if self._quiet.holds(self._entries, self._generation, open_run):
            return Enforced(tuple(self._entries), ())
        return enforce(self._entries, self._properties, open_run)

    def ready(self, *, open_run: bool = False) -> tuple[Event, ...]:
        """What a model gets: `events`, enforced."""
        return self.enforced(open_run=open_run).events

    @property
    def indices(self) -> tuple[int, ...]:
        """The manipulation indices of `events`, ascending: where to insert, and between which two to cut."""
        return self._indices.snapshot()

    @property
    def manipulation_indices(self) -> tuple[int, ...]:
        """`indices`, under its published name."""
        return self.indices

    def find_next(self, threshold: int) -> int:
        """The smallest manipulation index that is at least `threshold`, in O(log n).

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
        """Whether a condensation was asked for and none came since."""
        return self._request

    @property
    def batches(self) -> Mapping[LlmResponseId, tuple[int, ...]]:
        """Positions of the actions of each model response."""
        return auxiliary.batches(self._entries)

    @property
    def batch_ranges(self) -> tuple[tuple[int, int, bool], ...]:
        """(first position, last position, has thinking) of each batch."""
        return auxiliary.batch_ranges(self._entries)

    @property
    def tool_loop_ranges(self) -> tuple[tuple[int, int], ...]:
        """(first, last) position of each tool loop, inclusively."""
        return auxiliary.tool_loop_ranges(self._entries, self._rule)

    @property
    def action_tool_call_ids(self) -> frozenset[ToolCallId]:
        return frozenset(entry.tool_call_id for entry in self._entries if isinstance(entry, ToolCall))

    @property
    def observation_tool_call_ids(self) -> frozenset[ToolCallId]:
        return frozenset(entry.tool_call_id for entry in self._entries if isinstance(entry, ToolResult))
