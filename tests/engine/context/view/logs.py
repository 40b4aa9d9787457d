"""Random logs, and the comparison of every reading of the View with the reference.

Two mixtures: orderly logs of units as a model makes them, with a fault now and then, and logs of unrelated events over
few ids. Every kind that the View has to cope with comes up: batches, interleaved and late results, thinking loops,
duplicates, orphans, parented calls, runtime events between, run stops, requests, and condensations of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from random import Random
from typing import Any

from engine.context.view import BoundaryRule, View, ViewFold
from engine.context.view.well_formed import indices_of
from engine.core.ids import EventId, LlmResponseId, MessageId, Seq, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    ResultRerendered,
    RunStop,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.log.events.nodes import FileChanged
from engine.log.events.session import UsageReported
from tests.support import view_reference as reference

LONGEST = 60
_THINKING = (ThinkingBlock(text="hm", signature="s"),)
_STATUSES = ("ok", "ok", "error", "rejected", "cancelled")


class _Writer:
    """Stamps events as a log would, and knows enough of the past to refer to it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.events: list[Event] = []
        self.fresh = 0

    def add(self, kind: type[Event], **fields: Any) -> None:
        seq = len(self.events)
        self.events.append(kind(seq=Seq(seq), event_id=EventId(f"e{seq}"), **fields))

    def name(self) -> str:
        self.fresh += 1
        return f"n{self.fresh}"

    def call(self, call: str, batch: str | None, thinking: bool = False, parent: str | None = None) -> None:
        self.add(
            ToolCall,
            tool_call_id=ToolCallId(call),
            tool="python",
            llm_response_id=None if batch is None else LlmResponseId(batch),
            thinking=_THINKING if thinking else (),
            parent_id=None if parent is None else ToolCallId(parent),
        )

    def result(self, call: str, parent: str | None = None) -> None:
        status = self.random.choice(_STATUSES)
        parent_id = None if parent is None else ToolCallId(parent)
        self.add(ToolResult, tool_call_id=ToolCallId(call), status=status, text="", parent_id=parent_id)

    def text(self) -> None:
        roll = self.random.random()
        if roll < 0.6:
            self.add(UserMessage, message_id=MessageId("m"), text="")
        else:
            self.add(AgentText if roll < 0.8 else AgentReasoning, message_id=MessageId("m"), text="")

    def aside(self) -> None:
        """Something that never enters."""
        roll = self.random.random()
        if roll < 0.35:
            self.add(FileChanged, path="/a", change="modified")
        elif roll < 0.6:
            self.add(UsageReported, used=1, size=2)
        elif roll < 0.75:
            self.add(RunStop, reason="completed", cause="end_turn")
        elif roll < 0.82:
            self.add(CondensationRequest)
        elif roll < 0.9:
            self.rerender()
        else:
            parent, child = self.name(), self.name()
            self.call(child, None, parent=parent)
            self.result(child, parent=parent)

    def rerender(self) -> None:
        """A new text for the result of a call, or of none."""
        calls = [event.tool_call_id for event in self.events[-12:] if isinstance(event, ToolCall)]
        call = self.random.choice([*calls, ToolCallId("t1")])
        self.add(ResultRerendered, tool_call_id=call, statement=1, text="again")

    def condensation(self) -> None:
        """Forgets a run of events, or any of them, some twice, some unknown, some summaries."""
        random, number = self.random, len(self.events)
        if random.random() < 0.5:
            low = random.randrange(number + 1)
            chosen = list(range(low, min(number, low + random.randrange(12))))
        else:
            chosen = [random.randrange(number + 3) for _ in range(random.randrange(6))]
        forgotten = [EventId(f"e{each}" + ("-summary" if random.random() < 0.1 else "")) for each in chosen]
        forgotten += [
            EventId(f"{event.event_id}-summary")
            for event in self.events
            if isinstance(event, Condensation) and random.random() < 0.2
        ]
        summary = "s" if random.random() < 0.6 else None
        offset = random.randrange(-1, number + 3) if random.random() < 0.9 else None
        self.add(Condensation, forgotten=tuple(forgotten), summary=summary, summary_offset=offset)

    def unit(self) -> None:
        """A model's response with one to four calls, answered in any order, perhaps interleaved with other things."""
        random = self.random
        batch = self.name() if random.random() < 0.9 else None
        calls = [self.name() for _ in range(random.choice((1, 1, 2, 3, 4)))]
        thinking = random.random() < 0.4
        steps: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        answers: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        for number, call in enumerate(calls):
            steps.append((self.call, (call, batch, thinking and (number == 0 or random.random() < 0.2))))
            answers.append((self.result, (call,)))
            if random.random() < 0.3:
                steps.append(answers.pop())
        random.shuffle(answers)
        steps += answers
        if random.random() < 0.15:
            steps.pop(random.randrange(len(steps)))
        if random.random() < 0.15:
            steps.append(random.choice(steps))
        for act, arguments in steps:
            act(*arguments)
            if random.random() < 0.15:
                random.choice((self.aside, self.aside, self.text))()


def random_log(random: Random, longest: int = LONGEST) -> list[Event]:
    """A stamped log of at most `longest` events."""
    writer = _Writer(random)
    length = random.randrange(longest + 1)
    write = _orderly if random.random() < 0.6 else _chaotic
    while len(writer.events) < length:
        write(writer)
    return writer.events[:length]


def _orderly(writer: _Writer) -> None:
    roll = writer.random.random()
    if roll < 0.6:
        writer.unit()
    elif roll < 0.8:
        writer.text()
    elif roll < 0.9:
        writer.aside()
    else:
        writer.condensation()


def _chaotic(writer: _Writer) -> None:
    random = writer.random
    roll = random.random()
    if roll < 0.35:
        batch = f"b{random.randrange(4)}" if random.random() < 0.9 else None
        writer.call(f"t{random.randrange(6)}", batch, thinking=random.random() < 0.3)
    elif roll < 0.65:
        writer.result(f"t{random.randrange(6)}")
    elif roll < 0.8:
        writer.text()
    elif roll < 0.92:
        writer.aside()
    else:
        writer.condensation()


class Readings:
    """The Views of one log, fed event by event: gap rule, published rule, and the session's fold."""

    def __init__(self) -> None:
        self.view = View()
        self.published = View(BoundaryRule.POSITIONS)
        self.fold = ViewFold()

    def append(self, event: Event) -> None:
        self.view.append(event)
        self.published.append(event)
        self.fold.apply(event)

    def pairs(self, log: Sequence[Event]) -> Iterator[tuple[str, object, object]]:
        """(what, as it is, as the reference has it) for everything that can be compared."""
        entries = reference.appended(log)
        yield "events", reference.ids(self.view.events), reference.ids(entries)
        yield "texts", texts_of(self.view.events), texts_of(entries)
        yield "indices", self.view.indices, reference.indices(entries)
        yield "published indices", self.published.indices, reference.published_indices(entries)
        yield "loops", self.view.tool_loop_ranges, reference.loops(entries)
        yield "published loops", self.published.tool_loop_ranges, reference.published_loops(entries)
        yield "request", self.view.unhandled_condensation_request, reference.request_is_unhandled(log)
        for open_run in (False, True):
            kept = reference.enforced(entries, log, open_run)
            ready = self.view.ready(open_run=open_run)
            yield f"ready({open_run=})", reference.ids(ready), reference.ids(kept)
            yield f"ready indices({open_run=})", indices_of(ready), reference.indices(kept)
        settled = reference.appended(log, well_formed=True)
        yield "fold events", reference.ids(self.fold.view.events), reference.ids(settled)
        yield "fold indices", self.fold.view.indices, reference.indices(settled)


def texts_of(entries: Sequence[reference.Entry]) -> list[str]:
    """What the results among them say."""
    return [entry.text for entry in entries if isinstance(entry, ToolResult)]


def difference(log: Sequence[Event], moments: Sequence[int] = ()) -> str | None:
    """Feeds the log and compares after the given numbers of events and at the end; the first difference, in words."""
    readings = Readings()
    for number in range(len(log) + 1):
        if number in moments or number == len(log):
            for what, found, expected in readings.pairs(log[:number]):
                if found != expected:
                    return f"{what} after {number} events: {found} where {expected} was due"
        if number < len(log):
            readings.append(log[number])
    return None


def answers_follow(entries: Sequence[Event]) -> bool:
    """Whether each call has its result behind it.

    One before it is possible in logs from elsewhere alone, and cuts between the two are not ruled out by any property;
    enforcement deals with what they leave.
    """
    return all(last < inf for _, last in reference.spans(entries))
