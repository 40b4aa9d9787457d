"""Events as updates: one event as it happens, or a whole log for a load.

Live, a call is announced, starts and ends, and usage, title, mode and options change many times. A load draws only the
final state: one update for a finished call instead of three, and the last value of anything that replaces itself. So
`Replay` holds a call back until it has ended. Later updates wait behind it, because an editor draws in order. Values
that replace themselves come last.

The oldest call stops waiting when a thousand updates wait behind it, so a call that never ends (in an imported log)
does not keep a whole session in memory. Its later changes are then sent as updates. The newest update waits for one
more event, because a change of a file is translated together with the next event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from acp_adapter.shown import NOTHING_SHOWN, Facts, Shown
from acp_adapter.updates import calls, conversation, files, session, statements
from acp_adapter.updates.blocks import Step
from acp_adapter.updates.shapes import (
    ConfigOptionUpdate,
    CurrentModeUpdate,
    PlanUpdate,
    SessionInfoUpdate,
    ToolCall,
    ToolCallUpdate,
    UsageUpdate,
)
from acp_adapter.wire import WireModel
from engine import CycleSummary, OptionValues, Spent
from engine.core.ids import BlobDigest, StatementId
from engine.core.pictures import Picture, PictureContent
from engine.log.events import (
    AnyEvent,
    BranchEvent,
    ConversationEvent,
    ExecutionEvent,
    NodeEvent,
    ReplayEvent,
    RewindingEvent,
)
from engine.log.events.conversation import RunStop
from engine.log.events.execution import StatementRecorded
from engine.log.events.session import ContextMeasured, ModelCallEnded, PlanEntry, UsageReported

M = TypeVar("M", bound=WireModel)

_REPLACED: Final = (CurrentModeUpdate, ConfigOptionUpdate, SessionInfoUpdate, PlanUpdate, UsageUpdate)
"""Updates that replace earlier ones field by field, in the order in which they are sent at the end."""
_FINAL: Final = frozenset({"completed", "failed", "cancelled"})
_MOST_WAITING: Final = 1_000
_USAGE: Final = (ModelCallEnded, ContextMeasured, UsageReported)


def event_updates(event: AnyEvent, shown: Shown, facts: Facts, *, is_live: bool) -> tuple[Shown, Sequence[WireModel]]:
    """Return the next state and the updates for an event. `is_live`: messages were already streamed."""
    shown, updates = _step(event, shown, facts, is_live)
    return shown, updates


def _step(event: AnyEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    shown, before = files.changed_file(shown, event, facts)
    shown, updates = _group_step(event, shown, facts, is_live)
    return shown, [*before, *updates]


def _group_step(event: AnyEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    if isinstance(event, ConversationEvent):
        return conversation.step(event, shown, facts, is_live)
    if isinstance(event, ExecutionEvent):
        return statements.step(event, shown, facts, is_live)
    if isinstance(event, NodeEvent):
        return files.step(event, shown)
    if isinstance(event, RewindingEvent):
        return files.rewind_step(event, shown, facts)
    if isinstance(event, BranchEvent):
        return conversation.branch_step(event, shown, facts, is_live)
    if isinstance(event, ReplayEvent):
        return statements.replay_step(event, shown)
    return session.step(event, shown, facts, is_live)


class Replay:
    """An iterator over the updates, for one pass. `shown` is the state after the updates taken so far."""

    def __init__(self, events: Sequence[AnyEvent], facts: Facts, shown: Shown = NOTHING_SHOWN) -> None:
        self.shown = shown
        self._events = events
        self._facts = _LatestFacts(events, facts)
        self._usage = next((event for event in reversed(events) if isinstance(event, _USAGE)), None)
        self._waiting: deque[WireModel] = deque()
        self._places: dict[str, ToolCall] = {}
        """The current state of the waiting calls, by id."""
        self._open: set[str] = set()
        self._latest: dict[type[WireModel], WireModel] = {}

    def __iter__(self) -> Iterator[WireModel]:
        for event in self._events:
            if isinstance(event, _USAGE) and event is not self._usage:
                continue  # because the last one has every field, and there may be one for each message
            self.shown, updates = _step(event, self.shown, self._facts, is_live=False)
            for update in updates:
                self._take(update)
            yield from self._ready(keep=1)
        self._open.clear()
        yield from self._ready(keep=0)
        yield from (self._latest[kind] for kind in _REPLACED if kind in self._latest)

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

    def _ready(self, keep: int) -> Iterator[WireModel]:
        """Release the updates that need not wait, except for the last `keep`."""
        while len(self._waiting) > keep:
            first = self._waiting[0]
            if isinstance(first, ToolCall):
                if first.tool_call_id in self._open and len(self._waiting) <= _MOST_WAITING:
                    return
                first = self._places.pop(first.tool_call_id, first)
                self._open.discard(first.tool_call_id)
            self._waiting.popleft()
            yield from calls.replayed_call(first) if isinstance(first, ToolCall) else [first]


class _LatestFacts:
    """Facts that only look up the latest request cycle, because summarizing each one costs more than sending it."""

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

    @property
    def plan(self) -> Sequence[PlanEntry]:
        return self._facts.plan

    @property
    def spent(self) -> Spent:
        return self._facts.spent

    def statement(self, statement_id: StatementId) -> StatementRecorded | None:
        return self._facts.statement(statement_id)

    def picture(self, picture: Picture) -> PictureContent | None:
        return self._facts.picture(picture)

    def answer_blocks(self, answer: BlobDigest) -> Sequence[Mapping[str, object]]:
        return self._facts.answer_blocks(answer)

    def cycle_ended_by(self, seq: int) -> CycleSummary | None:
        return self._cycle if seq == self._stop else None


def _patched(model: M, patch: WireModel) -> M:
    """Return the model with the fields of the patch; `_meta` is merged by key."""
    fields = {name: getattr(patch, name) for name in patch.model_fields_set - patch.tags}
    if model.meta and patch.meta:
        fields["meta"] = {**model.meta, **patch.meta}
    return model.model_copy(update=fields)
