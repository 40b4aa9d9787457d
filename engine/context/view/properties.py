"""The properties of a View: which gaps are safe, and what is removed.

A property never knows another one. The View asks each for four things: recorders (its memory of the log), closers (its
share of the indices, maintained while appending), an enforcement (its share of the removals) and a watch (whether there
is anything to remove, without a pass over the entries). Recorders, closers and watches are tables by kind, so an event
costs nothing where it does not matter. To add a property, write a class here and add it to `PROPERTIES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from ...core.ids import LlmResponseId, Seq, ToolCallId
from ...log.events import Event
from ...log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from .entries import TEXTS, TOOL_EVENTS, BoundaryRule

Key = TypeVar("Key", bound=Hashable)
LOOKED_FOR: Final = 8
"""The first keys are searched, each with a pass over the sequence; then all of them are indexed."""

Recorder = Callable[[Any], None]
"""Takes every event of one kind on the log, in order; not the calls of statements and their results."""

Closed = tuple[int, int]
"""The first and the last of neighbouring closed gaps."""

Closer = Callable[[int, Any], Closed | None]
"""Takes every entry of one kind with its position, in order; returns the gaps that it closes for good, if any.

Gap `i` is before entry `i`; the entry adds the gap after it, which may be closed at once. The last one closed is the
gap before that entry or the gap after it. A gap may be closed by several entries; none is ever opened again.
"""


class Enforcement(Protocol):
    """A property's part in finding the greatest set of entries.

    Both methods name positions to remove; naming one twice, or a removed one, is harmless. Over a whole enforcement the
    positions named must be linear in the entries.
    """

    def offending(self) -> Iterable[int]:
        """Return the violations in the sequence."""
        ...

    def after(self, position: int) -> Iterable[int]:
        """Return what must follow the removal of `position`.

        Called once for each, whichever property named it.
        """
        ...


Watcher = Callable[[Any], None]
"""Takes every entry of one kind, in order; sooner or later than the closers of the same entry."""


class Watch(Protocol):
    """A property's knowledge of a growing sequence: whether it has a violation."""

    def watchers(self) -> Mapping[type[Event], Watcher]:
        """The functions by kind of entry; empty if no violation is possible."""
        ...

    def is_quiet(self, open_run: bool) -> bool:
        """Return, in O(1), whether the enforcement over the entries so far would find no violation.

        May return False although it would not; never True although it would.
        """
        ...


class Property(Protocol):
    """A rule, with its memory of one log."""

    name: ClassVar[str]

    def __init__(self, rule: BoundaryRule) -> None: ...

    def recorders(self) -> Mapping[type[Event], Recorder]:
        """The recorders by kind of event; empty if it needs no memory."""
        ...

    def closers(self) -> Mapping[type[Event], Closer]:
        """Make closers for a new sequence, by kind of entry and with shared state.

        Empty if it closes no gap.
        """
        ...

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        """Make the enforcement over `entries`.

        With `open_run`, calls that the run waits for count as answered.
        """
        ...

    def watch(self) -> Watch:
        """Make a watch over a new sequence.

        Every entry is recorded before it is watched.
        """
        ...


class Positions(Generic[Key]):
    """The positions of keys.

    The first few keys are searched, which is faster than finding all of them.

    Positions are chains in one list of integers, because a list for each key slows down the garbage collector.
    """

    __slots__ = ("_before", "_keys", "_last", "_popped")

    def __init__(self, keys: Sequence[Key | None]) -> None:
        self._keys = keys
        self._popped: set[Key] = set()
        self._last: dict[Key, int] | None = None
        self._before: list[int] = []

    def pop(self, key: Key) -> Iterator[int]:
        """Return the positions of `key` in any order.

        Returns None if they were returned before.
        """
        if key in self._popped:
            return
        self._popped.add(key)
        if self._last is None:
            if len(self._popped) <= LOOKED_FOR:
                yield from self._look_for(key)
                return
            self._last = self._find_all()
        position = self._last.get(key, -1)
        while position >= 0:
            yield position
            position = self._before[position]

    def _look_for(self, key: Key) -> Iterator[int]:
        position = -1
        with suppress(ValueError):
            while True:
                position = self._keys.index(key, position + 1)
                yield position

    def _find_all(self) -> dict[Key, int]:
        last: dict[Key, int] = {}
        self._before = [-1] * len(self._keys)
        for position, key in enumerate(self._keys):
            if key is not None:
                self._before[position] = last.get(key, -1)
                last[key] = position
        return last


class AllOrNothing(Generic[Key]):
    """An enforcement of units that are kept whole or removed as soon as a member is missing.

    Args:
        units: the unit of each position, or None.
        sizes: the number of members of each unit on the log.
    """

    def __init__(self, units: Sequence[Key | None], sizes: Mapping[Key, int]) -> None:
        self._units = units
        self._sizes = sizes
        self._members = Positions(units)

    def offending(self) -> Iterable[int]:
        for unit, count in Counter(self._units).items():
            if unit is not None and count < self._sizes[unit]:
                yield from self._members.pop(unit)

    def after(self, position: int) -> Iterable[int]:
        unit = self._units[position]
        return () if unit is None else self._members.pop(unit)


class QuietUntil:
    """The watch of a property that one entry can violate: quiet until the first that `offends`, by kind."""

    def __init__(self, offends: Mapping[type[Event], Callable[[Any], bool]]) -> None:
        self._offends = offends
        self._is_quiet = True

    def watchers(self) -> Mapping[type[Event], Watcher]:
        return dict.fromkeys(self._offends, self._watched)

    def is_quiet(self, open_run: bool) -> bool:
        del open_run
        return self._is_quiet

    def _watched(self, entry: Event) -> None:
        if self._offends[type(entry)](entry):
            self._is_quiet = False


class WholeUnits(Generic[Key]):
    """The watch of units that are kept whole: quiet unless a member on the log is not among the entries.

    An entry that is watched late may find its unit larger than what was watched of it. Then the unit is incomplete
    until its other entries come, which happens before the watch is read: so in the end it is incomplete only if a
    member is missing.

    Args:
        unit_of: the unit of an entry, or None.
        sizes: the number of members of each unit on the log; may grow.
        kinds: of entries that belong to units.
    """

    def __init__(
        self, unit_of: Callable[[Any], Key | None], sizes: Mapping[Key, int], kinds: Sequence[type[Event]]
    ) -> None:
        self._unit_of = unit_of
        self._sizes = sizes
        self._kinds = kinds
        self._found: dict[Key, int] = {}
        self._short: set[Key] = set()

    def watchers(self) -> Mapping[type[Event], Watcher]:
        return dict.fromkeys(self._kinds, self._watched)

    def is_quiet(self, open_run: bool) -> bool:
        del open_run
        return not self._short

    def _watched(self, entry: Event) -> None:
        unit = self._unit_of(entry)
        if unit is not None:
            found = self._found[unit] = self._found.get(unit, 0) + 1
            if found < self._sizes[unit]:
                self._short.add(unit)
            else:
                self._short.discard(unit)


# --- BatchAtomicity --------------------------------------------------------------------------------------------------


class BatchAtomicityProperty:
    """The actions of a model response stay together.

    Closes the gaps strictly between the first and the last action of one `llm_response_id` (`POSITIONS`: also the gap
    before the first). Removes all actions of a batch if any action on the log is missing. An action without a response
    id is a batch of its own. Remembers the number of actions of each batch.
    """

    name: ClassVar[str] = "BatchAtomicity"

    def __init__(self, rule: BoundaryRule) -> None:
        self._rule = rule
        self._sizes: dict[LlmResponseId, int] = {}

    def recorders(self) -> Mapping[type[Event], Recorder]:
        return {ToolCall: self._record}

    def _record(self, call: ToolCall) -> None:
        if call.llm_response_id is not None:
            self._sizes[call.llm_response_id] = self._sizes.get(call.llm_response_id, 0) + 1

    def closers(self) -> Mapping[type[Event], Closer]:
        return {ToolCall: _Batches(0 if self._rule is BoundaryRule.POSITIONS else 1).closes}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        del open_run
        batches = [entry.llm_response_id if isinstance(entry, ToolCall) else None for entry in entries]
        return AllOrNothing(batches, self._sizes)

    def watch(self) -> Watch:
        return WholeUnits[LlmResponseId](attrgetter("llm_response_id"), self._sizes, [ToolCall])


class _Batches:
    """Where each batch began.

    `offset` is the distance from its first action to the first gap that it closes.
    """

    __slots__ = ("_first", "_offset")

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._first: dict[LlmResponseId, int] = {}

    def closes(self, position: int, call: ToolCall) -> Closed | None:
        response = call.llm_response_id
        first = position if response is None else self._first.setdefault(response, position)
        low = first + self._offset
        return (low, position) if low <= position else None


# --- ObservationUniqueness -------------------------------------------------------------------------------------------


class ObservationUniquenessProperty:
    """A tool call is answered once, under both boundary rules.

    After a crash a call may have two answers, from the repair and from the tool; providers refuse such a conversation
    permanently. Closes no gap; removes every observation after the first for its `tool_call_id`.
    """

    name: ClassVar[str] = "ObservationUniqueness"

    def __init__(self, rule: BoundaryRule) -> None:
        del rule

    def recorders(self) -> Mapping[type[Event], Recorder]:
        return {}

    def closers(self) -> Mapping[type[Event], Closer]:
        return {}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        del open_run
        return _Duplicates(entries)

    def watch(self) -> Watch:
        answered: set[ToolCallId] = set()

        def is_again(result: ToolResult) -> bool:
            before = len(answered)
            answered.add(result.tool_call_id)
            return len(answered) == before

        return QuietUntil({ToolResult: is_again})


class _Duplicates:
    """A later observation does not become the first if that is removed, so a removal has no consequences."""

    def __init__(self, entries: Sequence[Event]) -> None:
        self._entries = entries

    def offending(self) -> Iterable[int]:
        answered = [entry.tool_call_id for entry in self._entries if isinstance(entry, ToolResult)]
        seen: set[ToolCallId] = set()
        if len(set(answered)) == len(answered):
            return
        for position, entry in enumerate(self._entries):
            if isinstance(entry, ToolResult):
                if entry.tool_call_id in seen:
                    yield position
                seen.add(entry.tool_call_id)

    def after(self, position: int) -> Iterable[int]:
        del position
        return ()


# --- ToolCallMatching ------------------------------------------------------------------------------------------------


class ToolCallMatchingProperty:
    """Every action has an observation, and every observation an action.

    Closes every gap at which a call is open: after its action, up to and including the gap before its observation; a
    call that is never answered closes everything after it (`POSITIONS` closes nothing). Removes actions without an
    observation and observations without an action. Remembers which calls of the log the current run still waits for.
    """

    name: ClassVar[str] = "ToolCallMatching"

    def __init__(self, rule: BoundaryRule) -> None:
        self._rule = rule
        self._awaited: set[ToolCallId] = set()

    def recorders(self) -> Mapping[type[Event], Recorder]:
        return {ToolCall: self._called, ToolResult: self._answered, RunStop: self._stopped}

    def _called(self, call: ToolCall) -> None:
        self._awaited.add(call.tool_call_id)

    def _answered(self, result: ToolResult) -> None:
        self._awaited.discard(result.tool_call_id)

    def _stopped(self, stop: RunStop) -> None:
        del stop
        self._awaited.clear()

    def closers(self) -> Mapping[type[Event], Closer]:
        if self._rule is BoundaryRule.POSITIONS:
            return {}
        calls = _OpenCalls()
        return {ToolCall: calls.asked, ToolResult: calls.answered, **dict.fromkeys(TEXTS, calls.waited)}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        return _Pairs(entries, frozenset(self._awaited) if open_run else frozenset())

    def watch(self) -> Watch:
        return _Unmatched(self._awaited)


class _OpenCalls:
    """Calls without an observation so far: while there are any, each new gap is closed at once."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: set[ToolCallId] = set()

    def asked(self, position: int, call: ToolCall) -> Closed | None:
        self._open.add(call.tool_call_id)
        return (position + 1, position + 1)

    def answered(self, position: int, result: ToolResult) -> Closed | None:
        self._open.discard(result.tool_call_id)
        return (position + 1, position + 1) if self._open else None

    def waited(self, position: int, text: Event) -> Closed | None:
        del text
        return (position + 1, position + 1) if self._open else None


class _Unmatched:
    """Calls with only one side so far.

    `awaited` are those that the current run waits for.
    """

    def __init__(self, awaited: AbstractSet[ToolCallId]) -> None:
        self._awaited = awaited
        self._asked: set[ToolCallId] = set()
        self._answered: set[ToolCallId] = set()
        self._unanswered: set[ToolCallId] = set()
        self._unasked: set[ToolCallId] = set()

    def watchers(self) -> Mapping[type[Event], Watcher]:
        return {ToolCall: self._called, ToolResult: self._resulted}

    def is_quiet(self, open_run: bool) -> bool:
        return not self._unasked and (self._unanswered <= self._awaited if open_run else not self._unanswered)

    def _called(self, call: ToolCall) -> None:
        self._asked.add(call.tool_call_id)
        self._unasked.discard(call.tool_call_id)
        if call.tool_call_id not in self._answered:
            self._unanswered.add(call.tool_call_id)

    def _resulted(self, result: ToolResult) -> None:
        self._answered.add(result.tool_call_id)
        self._unanswered.discard(result.tool_call_id)
        if result.tool_call_id not in self._asked:
            self._unasked.add(result.tool_call_id)


class _Pairs:
    """The call of each position, and the number of both sides left for each call."""

    def __init__(self, entries: Sequence[Event], awaited: frozenset[ToolCallId]) -> None:
        self._actions = [entry.tool_call_id if isinstance(entry, ToolCall) else None for entry in entries]
        self._observations = [entry.tool_call_id if isinstance(entry, ToolResult) else None for entry in entries]
        self._asked = Counter(self._actions)
        self._answered = Counter(self._observations)
        self._awaited = awaited
        self._asking = Positions(self._actions)
        self._answering = Positions(self._observations)

    def offending(self) -> Iterable[int]:
        for call in self._asked:
            if call is not None and call not in self._answered and call not in self._awaited:
                yield from self._asking.pop(call)
        for call in self._answered:
            if call is not None and call not in self._asked:
                yield from self._answering.pop(call)

    def after(self, position: int) -> Iterable[int]:
        asked, answered = self._actions[position], self._observations[position]
        if asked is not None:
            self._asked[asked] -= 1
            if self._asked[asked] == 0:
                return self._answering.pop(asked)
        elif answered is not None:
            self._answered[answered] -= 1
            if self._answered[answered] == 0 and answered not in self._awaited:
                return self._asking.pop(answered)
        return ()


# --- ToolLoopAtomicity -----------------------------------------------------------------------------------------------


_BREAKS: Final = (UserMessage, AgentText, AgentReasoning, RunStop, Condensation, CondensationRequest)


class ToolLoopAtomicityProperty:
    """A tool loop stays whole, from its thinking head to its end.

    A loop starts at an action with thinking, runs through consecutive actions and observations, and ends at the next
    action with thinking (which starts its own) or at the first event of another kind. Closes the gap before each event
    of a loop except its head (`POSITIONS`: see `BoundaryRule`), because providers reject signed thinking that lost its
    calls. Removes the rest of a loop if any event of it is missing (`POSITIONS`: nothing).

    Loops are found in two sequences. In the View, where they decide about gaps, any other entry ends a loop. On the
    log, where they decide what is missing, any other event of the conversation does, including a Condensation or a
    RunStop; runtime events and the calls that statements make happen *inside* a call and do not. Remembers the loop of
    each event, and the number of events of each loop.
    """

    name: ClassVar[str] = "ToolLoopAtomicity"

    def __init__(self, rule: BoundaryRule) -> None:
        self._rule = rule
        self._loops: dict[Seq, int] = {}
        self._sizes: dict[int, int] = {}
        self._inside = False

    def recorders(self) -> Mapping[type[Event], Recorder]:
        if self._rule is BoundaryRule.POSITIONS:
            return {}
        return {ToolCall: self._called, ToolResult: self._answered, **dict.fromkeys(_BREAKS, self._broken)}

    def _called(self, call: ToolCall) -> None:
        if call.thinking:
            self._inside = True
            self._loops[call.seq] = loop = len(self._sizes)
            self._sizes[loop] = 1
        elif self._inside:
            self._continue(call.seq)

    def _answered(self, result: ToolResult) -> None:
        if self._inside:
            self._continue(result.seq)

    def _continue(self, seq: Seq) -> None:
        self._loops[seq] = loop = len(self._sizes) - 1
        self._sizes[loop] += 1

    def _broken(self, event: Event) -> None:
        del event
        self._inside = False

    def closers(self) -> Mapping[type[Event], Closer]:
        loops = _PublishedLoops() if self._rule is BoundaryRule.POSITIONS else _Loops()
        return {ToolCall: loops.asked, ToolResult: loops.answered, **dict.fromkeys(TEXTS, loops.broken)}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        del open_run
        loop_of = self._loops.get
        return AllOrNothing([loop_of(entry.seq) for entry in entries], self._sizes)

    def watch(self) -> Watch:
        return WholeUnits(self._loop_of, self._sizes, TOOL_EVENTS)

    def _loop_of(self, entry: Event) -> int | None:
        return self._loops.get(entry.seq)


class _Loops:
    """Whether the sequence ends inside a loop."""

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        self._inside = False

    def asked(self, position: int, call: ToolCall) -> Closed | None:
        if call.thinking:
            self._inside = True
            return None
        return (position, position) if self._inside else None

    def answered(self, position: int, result: ToolResult) -> Closed | None:
        del result
        return (position, position) if self._inside else None

    def broken(self, position: int, text: Event) -> Closed | None:
        del position, text
        self._inside = False
        return None


class _PublishedLoops(_Loops):
    """The same by positions: the head's own gap is closed, and every action of a batch that thinks is in a loop."""

    __slots__ = ("_thinking",)

    def __init__(self) -> None:
        super().__init__()
        self._thinking: set[LlmResponseId] = set()

    def asked(self, position: int, call: ToolCall) -> Closed | None:
        response = call.llm_response_id
        if call.thinking and response is not None:
            self._thinking.add(response)
        self._inside = self._inside or bool(call.thinking) or response in self._thinking
        return (position, position) if self._inside else None


# The order only decides which property is named as the reason of a removal.

PROPERTIES: tuple[type[Property], ...] = (
    ObservationUniquenessProperty,
    BatchAtomicityProperty,
    ToolCallMatchingProperty,
    ToolLoopAtomicityProperty,
)
