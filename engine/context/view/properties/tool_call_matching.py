"""ToolCallMatching: every action has an observation, and every observation an action.

Closes every gap at which some call is open: after its action, up to and including the gap before its observation; a
call that is never answered closes everything after it (`POSITIONS` closes nothing). Leaves out actions without an
observation and observations without an action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar

from ....core.ids import ToolCallId
from ....log.events import Event
from ....log.events.conversation import RunStop, ToolCall, ToolResult
from ..entries import TEXTS
from ..rule import BoundaryRule
from .base import Closed, Closer, Enforcement, Positions, Recorder, Watch, Watcher


class ToolCallMatching:
    """Remembers which calls of the log the present run still waits for."""

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
    """The calls without an observation so far: while there are any, each new gap is closed at once."""

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
    """The calls of which only one side has come so far; `awaited` are those that the present run waits for."""

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
    """The call that each position asks or answers, and how many of either are left for each call."""

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
