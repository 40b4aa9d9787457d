"""The View by definition: slow, obvious, from scratch, and sharing nothing with `engine.context.view`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from msgspec.structs import replace

from engine.log.events import Event
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    ResultRerendered,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)

TEXTS = (UserMessage, AgentText, AgentReasoning)
CONVERSATION = (*TEXTS, RunStop, Condensation, CondensationRequest)


class ReferenceSummary:
    """What a condensation leaves in the place of what it forgot."""

    def __init__(self, event_id: str) -> None:
        self.event_id = event_id


Entry = Event | ReferenceSummary
Log = Sequence[Event]


def is_tool(entry: Entry) -> bool:
    return type(entry) in (ToolCall, ToolResult) and entry.parent_id is None


def is_head(entry: Entry) -> bool:
    return type(entry) is ToolCall and bool(entry.thinking)


def appended(log: Log, well_formed: bool = False) -> list[Entry]:
    """What the View holds: with `well_formed`, the properties are made to hold right after every condensation."""
    entries: list[Entry] = []
    for number, event in enumerate(log):
        if isinstance(event, Condensation):
            before = entries
            entries, summary = condensed(before, event)
            if well_formed:
                was_at_index = summary is None or summary_is_safe(before, event, summary, entries)
                entries = enforced(entries, log[: number + 1], open_run=True)
                if summary is not None and not (was_at_index and cuts_are_safe(before, event)):
                    entries = moved(entries, summary, was_at_index)
        elif isinstance(event, ResultRerendered):
            entries = rerendered(entries, event)
        elif type(event) in TEXTS or is_tool(event):
            entries.append(event)
    return entries


def rerendered(entries: Sequence[Entry], event: ResultRerendered) -> list[Entry]:
    """The first result of the call has the new text and the id of what made it."""
    results = [entry for entry in entries if isinstance(entry, ToolResult) and entry.tool_call_id == event.tool_call_id]
    new = [replace(entry, text=event.text, event_id=event.event_id) for entry in results[:1]]
    return [new[0] if new and entry is results[0] else entry for entry in entries]


def condensed(entries: Sequence[Entry], event: Condensation) -> tuple[list[Entry], ReferenceSummary | None]:
    """What remains, and the summary in it if there is one."""
    remaining = [entry for entry in entries if entry.event_id not in event.forgotten]
    if event.summary is None or event.summary_offset is None:
        return remaining, None
    summary = ReferenceSummary(f"{event.event_id}-summary")
    offset = min(max(event.summary_offset, 0), len(remaining))
    return [*remaining[:offset], summary, *remaining[offset:]], summary


def summary_is_safe(
    before: Sequence[Entry], event: Condensation, summary: ReferenceSummary, after: Sequence[Entry]
) -> bool:
    """Whether inserting at some index and then forgetting comes to the same."""
    for gap in indices(before):
        inserted = [*before[:gap], summary, *before[gap:]]
        if [entry for entry in inserted if entry is summary or entry.event_id not in event.forgotten] == after:
            return True
    return False


def cuts_are_safe(before: Sequence[Entry], event: Condensation) -> bool:
    """Whether both gaps are indices wherever one neighbour is forgotten and the other, or none, stays."""
    gone = [False, *(entry.event_id in event.forgotten for entry in before), False]
    return all(gap in indices(before) for gap in range(len(before) + 1) if gone[gap] != gone[gap + 1])


def moved(entries: Sequence[Entry], summary: ReferenceSummary, was_at_index: bool) -> list[Entry]:
    """The summary at the last index before it, where it is at none; one that was at one is judged where it stands."""
    rest = [entry for entry in entries if entry is not summary]
    gap = list(entries).index(summary)
    if was_at_index:
        if gap in indices(entries):
            return list(entries)
        gap -= 1
    while gap not in indices(rest):
        gap -= 1
    return [*rest[:gap], summary, *rest[gap:]]


def request_is_unhandled(log: Log) -> bool:
    kinds = [type(event) for event in log if type(event) in (Condensation, CondensationRequest)]
    return bool(kinds) and kinds[-1] is CondensationRequest


# --- indices ---------------------------------------------------------------------------------------------------------


def spans(entries: Sequence[Entry]) -> Iterator[tuple[int, float]]:
    """Every (first, last) between which nothing may be put: pairs of a batch, a call to its result, a loop."""
    for first, entry in enumerate(entries):
        if type(entry) is ToolCall:
            last: float = math.inf
            for later in range(len(entries) - 1, first, -1):
                other = entries[later]
                if type(other) is ToolResult and other.tool_call_id == entry.tool_call_id:
                    last = later
                if type(other) is ToolCall and other.llm_response_id == entry.llm_response_id is not None:
                    yield first, later
            yield first, last
        if is_head(entry):
            last = first
            while last + 1 < len(entries) and is_tool(entries[last + 1]) and not is_head(entries[last + 1]):
                last += 1
            yield first, last


def indices(entries: Sequence[Entry]) -> tuple[int, ...]:
    """The gaps that lie strictly inside no span."""
    found = set(spans(entries))
    return tuple(gap for gap in range(len(entries) + 1) if not any(first < gap <= last for first, last in found))


def published_indices(entries: Sequence[Entry]) -> tuple[int, ...]:
    """The gaps that are no position of a batch or of a loop, as `view.txt` counts."""
    closed: set[int] = set()
    for first, entry in enumerate(entries):
        if type(entry) is not ToolCall:
            continue
        batch = [
            position
            for position, other in enumerate(entries)
            if position == first
            or (type(other) is ToolCall and other.llm_response_id == entry.llm_response_id is not None)
        ]
        last = max(batch)
        if any(is_head(entries[position]) for position in batch):
            while last + 1 < len(entries) and is_tool(entries[last + 1]):
                last += 1
        closed.update(range(min(batch), last + 1))
    return tuple(gap for gap in range(len(entries) + 1) if gap not in closed)


def loops(entries: Sequence[Entry]) -> tuple[tuple[int, int], ...]:
    """(head, last) of each loop: all tool events behind a head, none of them a head."""
    return tuple(
        (first, max(last for last in range(first, len(entries)) if _is_run(entries[first : last + 1])))
        for first, entry in enumerate(entries)
        if is_head(entry)
    )


def _is_run(entries: Sequence[Entry]) -> bool:
    return all(is_tool(entry) for entry in entries) and not any(is_head(entry) for entry in entries[1:])


def published_loops(entries: Sequence[Entry]) -> tuple[tuple[int, int], ...]:
    """(first, last) of each batch that thinks with the tool events behind it; what overlaps is one."""
    found: set[tuple[int, int]] = set()
    for entry in entries:
        if is_head(entry):
            same = [
                position
                for position, other in enumerate(entries)
                if other is entry
                or (type(other) is ToolCall and other.llm_response_id == entry.llm_response_id is not None)
            ]
            last = same[-1]
            while last + 1 < len(entries) and is_tool(entries[last + 1]):
                last += 1
            found.add((same[0], last))
    while True:
        overlapping = next((pair for pair in combinations(sorted(found), 2) if pair[1][0] <= pair[0][1]), None)
        if overlapping is None:
            return tuple(sorted(found))
        found -= set(overlapping)
        found.add((overlapping[0][0], max(overlapping[0][1], overlapping[1][1])))


# --- enforcement -----------------------------------------------------------------------------------------------------


def loop_of(log: Log, number: int) -> int | None:
    """The number of the head of the loop that event `number` of the log is in."""
    for earlier in range(number, -1, -1):
        if is_tool(log[earlier]) and is_head(log[earlier]):
            return earlier
        if type(log[earlier]) in CONVERSATION:
            return None
    return None


def units(log: Log, entries: Sequence[Entry]) -> list[frozenset[str]]:
    """The ids of every batch and every tool loop of the log, as its events are called among the entries."""
    names = {entry.seq: entry.event_id for entry in entries if isinstance(entry, Event)}
    found: dict[object, set[str]] = {}
    for number, event in enumerate(log):
        if not is_tool(event):
            continue
        if type(event) is ToolCall and event.llm_response_id is not None:
            found.setdefault(event.llm_response_id, set()).add(names.get(event.seq, event.event_id))
        head = loop_of(log, number)
        if head is not None:
            found.setdefault(head, set()).add(names.get(event.seq, event.event_id))
    return [frozenset(ids) for ids in found.values()]


def awaited(log: Log) -> set[str]:
    """The calls of the run that has not stopped, that have no result yet."""
    stops = [number for number, event in enumerate(log) if isinstance(event, RunStop)]
    run = log[stops[-1] + 1 :] if stops else log
    return {
        event.tool_call_id
        for number, event in enumerate(run)
        if isinstance(event, ToolCall)
        and not any(isinstance(e, ToolResult) and e.tool_call_id == event.tool_call_id for e in run[number:])
    }


def without_duplicates(entries: Sequence[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    for entry in entries:
        if isinstance(entry, ToolResult) and any(
            isinstance(other, ToolResult) and other.tool_call_id == entry.tool_call_id for other in kept
        ):
            continue
        kept.append(entry)
    return kept


def offenders(entries: Sequence[Entry], whole: Sequence[frozenset[str]], answered: set[str]) -> set[str]:
    """The ids that batch, matching or loop do not let stay in these entries."""
    present = {entry.event_id for entry in entries}
    bad = {each for unit in whole if not unit <= present for each in unit & present}
    calls = {entry.tool_call_id for entry in entries if isinstance(entry, ToolCall)}
    results = {entry.tool_call_id for entry in entries if isinstance(entry, ToolResult)} | answered
    for entry in entries:
        if (isinstance(entry, ToolCall) and entry.tool_call_id not in results) or (
            isinstance(entry, ToolResult) and entry.tool_call_id not in calls
        ):
            bad.add(entry.event_id)
    return bad


def enforced(entries: Sequence[Entry], log: Log, open_run: bool = False) -> list[Entry]:
    """Duplicates dropped, then everything that cannot stay, until nothing more has to go."""
    whole, answered = units(log, entries), awaited(log) if open_run else set()
    kept = without_duplicates(entries)
    while bad := offenders(kept, whole, answered):
        kept = [entry for entry in kept if entry.event_id not in bad]
    return kept


def published_enforced(log: Log) -> list[Entry]:
    """The same by the published rule: of batches and pairs alone, because it removes nothing of a loop."""
    entries = appended(log)
    names = {entry.seq: entry.event_id for entry in entries if isinstance(entry, Event)}
    batches: dict[str, set[str]] = {}
    for event in log:
        if isinstance(event, ToolCall) and is_tool(event) and event.llm_response_id is not None:
            batches.setdefault(event.llm_response_id, set()).add(names.get(event.seq, event.event_id))
    kept = without_duplicates(entries)
    while bad := offenders(kept, [frozenset(ids) for ids in batches.values()], set()):
        kept = [entry for entry in kept if entry.event_id not in bad]
    return kept


def greatest(entries: Sequence[Entry], log: Log, open_run: bool = False) -> list[Entry]:
    """The same by trying every subset: the union of all in which nothing offends. For a dozen entries at most."""
    whole, answered = units(log, entries), awaited(log) if open_run else set()
    unique = without_duplicates(entries)
    union: set[str] = set()
    for size in range(len(unique) + 1):
        for subset in combinations(unique, size):
            if not offenders(subset, whole, answered):
                union |= {entry.event_id for entry in subset}
    return [entry for entry in unique if entry.event_id in union]


# --- cuts and insertions ---------------------------------------------------------------------------------------------


def holds(entries: Sequence[Entry], before: Sequence[Entry]) -> bool:
    """Whether `entries`, made from the well-formed `before` by cuts and insertions, is well-formed too.

    Every batch, pair and loop of `before` is there whole or not at all, and what was put in lies inside none.
    """
    old = {id(entry) for entry in before}
    place = {id(entry): position for position, entry in enumerate(entries)}
    for first, last in spans(before):
        if last == math.inf:
            return False
        members = [id(entry) for entry in before[first : int(last) + 1] if is_tool(entry)]
        ends = [id(before[first]) in place, id(before[int(last)]) in place]
        if ends[0] != ends[1]:
            return False
        if all(ends):
            low, high = place[members[0]], place[members[-1]]
            if any(id(entry) not in old for entry in entries[low : high + 1]):
                return False
    return not offenders(entries, _loop_members(before), set())


def _loop_members(entries: Sequence[Entry]) -> list[frozenset[str]]:
    return [
        frozenset(entry.event_id for entry in entries[first : int(last) + 1])
        for first, last in spans(entries)
        if is_head(entries[first]) and last != math.inf and all(is_tool(e) for e in entries[first : int(last) + 1])
    ]


def ids(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(entry.event_id for entry in entries)
