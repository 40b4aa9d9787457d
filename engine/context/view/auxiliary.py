"""Facts about a sequence of entries that the published document names: batches, loops and the ids of calls.

Computed when asked, in one pass, and kept nowhere, so they cannot be out of date. Called by `window`, whose attributes
have the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ...core.ids import LlmResponseId
from ...log.events import Event
from ...log.events.conversation import ToolCall
from .entries import TOOL_EVENTS
from .rule import BoundaryRule


def batches(entries: Sequence[Event]) -> Mapping[LlmResponseId, tuple[int, ...]]:
    """The positions of each batch's actions. A call without a response id is a batch under its own event id."""
    found: dict[LlmResponseId, list[int]] = {}
    for position, entry in enumerate(entries):
        if isinstance(entry, ToolCall):
            key = LlmResponseId(entry.event_id) if entry.llm_response_id is None else entry.llm_response_id
            found.setdefault(key, []).append(position)
    return MappingProxyType({key: tuple(positions) for key, positions in found.items()})


def batch_ranges(entries: Sequence[Event]) -> tuple[tuple[int, int, bool], ...]:
    """(first position, last position, whether any of its actions has thinking) of each batch, in order."""
    return tuple(
        (positions[0], positions[-1], any(_thinks(entries[position]) for position in positions))
        for positions in batches(entries).values()
    )


def tool_loop_ranges(entries: Sequence[Event], rule: BoundaryRule) -> tuple[tuple[int, int], ...]:
    """(first, last) position of each tool loop, inclusively, in order."""
    return _published_loops(entries) if rule is BoundaryRule.POSITIONS else _loops(entries)


def _loops(entries: Sequence[Event]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    inside = False
    for position, entry in enumerate(entries):
        if _thinks(entry):
            found.append((position, position))
            inside = True
        elif not isinstance(entry, TOOL_EVENTS):
            inside = False
        elif inside:
            found[-1] = (found[-1][0], position)
    return tuple(found)


def _published_loops(entries: Sequence[Event]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for first, last, thinks in batch_ranges(entries):
        if not thinks or (found and found[-1][1] >= last):
            continue
        end = last
        while end + 1 < len(entries) and isinstance(entries[end + 1], TOOL_EVENTS):
            end += 1
        start = first
        while found and found[-1][1] >= start:
            start = min(start, found.pop()[0])
        found.append((start, end))
    return tuple(found)


def _thinks(entry: Event) -> bool:
    return isinstance(entry, ToolCall) and bool(entry.thinking)
