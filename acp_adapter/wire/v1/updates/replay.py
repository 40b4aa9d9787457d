"""A log as the updates that draw how it ended, once each: what an editor is sent when a session is loaded.

Live, a call is announced, begins and ends, and usage, title, mode and options change again and again. Who opens a
session later sees none of that: one update that says how a call ended draws the same as three, and of what replaces
itself only the last is left to see. So a call waits here until it has ended, and what follows waits behind it, because
an editor draws in the order in which it is told; what replaces itself comes at the end.

The oldest call stops waiting when a thousand updates wait behind it, so that a call that never ends, in a log from
elsewhere, does not hold a whole session in memory; its later changes are then sent as such. The last update waits for
one more event, because a change of a file is told in two. Must not know what an event means: the modules beside this
one say that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from acp_adapter.facts import Facts
from acp_adapter.wire.codec import Json
from acp_adapter.wire.model import WireModel, to_wire
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall, ToolCallUpdate
from acp_adapter.wire.v1.shapes.updates import ConfigOptionUpdate, CurrentModeUpdate, SessionInfoUpdate, UsageUpdate
from acp_adapter.wire.v1.updates import commands
from acp_adapter.wire.v1.updates.steps import step
from engine import CycleSummary, OptionValues, StatementId
from engine.log.events import AnyEvent
from engine.log.events.conversation import RunStop
from engine.log.events.execution import StatementRecorded
from engine.log.events.session import ContextMeasured, ModelCallEnded, UsageReported

M = TypeVar("M", bound=WireModel)

_REPLACED: Final = (CurrentModeUpdate, ConfigOptionUpdate, SessionInfoUpdate, UsageUpdate)
"""What replaces itself field by field, in the order in which it is sent at the end."""
_FINAL: Final = frozenset({"completed", "failed"})
_MOST_WAITING: Final = 1_000
_USAGE: Final = (ModelCallEnded, ContextMeasured, UsageReported)


class Replay:
    """Iterates over the updates once; `shown` is what has been shown after those that were taken."""

    def __init__(self, events: Sequence[AnyEvent], facts: Facts, shown: Shown) -> None:
        self.shown = shown
        self._events = events
        self._facts = _LatestFacts(events, facts)
        self._usage = next((event for event in reversed(events) if isinstance(event, _USAGE)), None)
        self._waiting: deque[WireModel] = deque()
        self._places: dict[str, ToolCall] = {}
        """The calls among what waits, by id, as they are by now."""
        self._open: set[str] = set()
        self._latest: dict[type[WireModel], WireModel] = {}

    def __iter__(self) -> Iterator[Json]:
        for event in self._events:
            if isinstance(event, _USAGE) and event is not self._usage:
                continue  # because the last one has every field, and there may be as many as messages
            self.shown, updates = step(event, self.shown, self._facts, is_live=False)
            for update in updates:
                self._take(update)
            yield from self._ready(keep=1)
        self._open.clear()
        yield from self._ready(keep=0)
        yield from (to_wire(self._latest[kind]) for kind in _REPLACED if kind in self._latest)

    def _take(self, update: WireModel) -> None:
        if isinstance(update, _REPLACED):
            before = self._latest.get(type(update))
            self._latest[type(update)] = update if before is None else _patched(before, update)
        elif isinstance(update, ToolCallUpdate) and update.tool_call_id in self._places:
            self._note(_patched(self._places[update.tool_call_id], update))
        else:
            self._waiting.append(update)
            if isinstance(update, ToolCall):
                self._note(update)

    def _note(self, call: ToolCall) -> None:
        self._places[call.tool_call_id] = call
        if call.status in _FINAL:
            self._open.discard(call.tool_call_id)
        else:
            self._open.add(call.tool_call_id)

    def _ready(self, keep: int) -> Iterator[Json]:
        """What waits for nothing any more, but for so many at the end."""
        while len(self._waiting) > keep:
            first = self._waiting[0]
            if isinstance(first, ToolCall):
                if first.tool_call_id in self._open and len(self._waiting) <= _MOST_WAITING:
                    return
                first = self._places.pop(first.tool_call_id, first)
                self._open.discard(first.tool_call_id)
            self._waiting.popleft()
            yield from map(to_wire, commands.as_told(first) if isinstance(first, ToolCall) else [first])


class _LatestFacts:
    """The facts, of which only the latest request cycle is looked up: summing one up costs more than what is sent."""

    def __init__(self, events: Sequence[AnyEvent], facts: Facts) -> None:
        self._facts = facts
        stops = (event.seq for event in reversed(events) if isinstance(event, RunStop))
        found = ((seq, facts.cycle_ended_by(seq)) for seq in stops)
        self._stop, self._cycle = next((each for each in found if each[1] is not None), (None, None))

    @property
    def cwd(self) -> str:
        return self._facts.cwd

    def spelled(self, path: str) -> str:
        return self._facts.spelled(path)

    def options_at(self, seq: int) -> OptionValues:
        return self._facts.options_at(seq)

    def statement(self, statement_id: StatementId) -> StatementRecorded | None:
        return self._facts.statement(statement_id)

    def cycle_ended_by(self, seq: int) -> CycleSummary | None:
        return self._cycle if seq == self._stop else None


def _patched(model: M, patch: WireModel) -> M:
    """The model with every field that the patch has; of `_meta` every key."""
    fields = {name: getattr(patch, name) for name in patch.model_fields_set - patch.tags}
    if model.meta and patch.meta:
        fields["meta"] = {**model.meta, **patch.meta}
    return model.model_copy(update=fields)
