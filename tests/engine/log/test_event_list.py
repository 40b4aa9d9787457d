"""Events of a log: old ones are read again, take no memory, and are what they were, whoever asks in whatever order."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from engine.core.errors import StoreError
from engine.core.ids import EventId, ExecutionId, MessageId, Seq, StatementId, ToolCallId
from engine.log.event_log import BLOCK, NEWEST, EventList
from engine.log.events import Event
from engine.log.events.codec import decode, encode
from engine.log.events.conversation import ToolCall, UserMessage
from engine.log.events.execution import ExecutionFinished, StatementRecorded

MANY = 3 * BLOCK + NEWEST


def event_at(seq: int, text: str = "a = 1") -> Event:
    """The four events of a statement, again and again."""
    statement, execution = StatementId(f"st_{seq // 4:024x}"), ExecutionId(f"ex_{seq // 4:024x}")
    call = ToolCallId(f"call_{seq // 4:024x}")
    event: Event
    match seq % 4:
        case 0:
            event = UserMessage(message_id=MessageId(f"msg_{seq:024x}"), text=text)
        case 1:
            event = StatementRecorded(statement_id=statement, index=seq, source=text, tool_call_id=call)
        case 2:
            event = ExecutionFinished(
                execution_id=execution, statement_id=statement, status="ok", started_at=1.5, ended_at=2.25
            )
        case _:
            event = ToolCall(tool_call_id=call, tool="python", arguments={"source": text, "n": [1, None, 0.5]})
    return replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}"), at=1_795_371_282.25 + seq)


class Kept:
    """Events on a disk: as JSON, and as many as were committed."""

    def __init__(self) -> None:
        self.kept = 0
        self.reads: list[tuple[int, int]] = []
        self.failure: StoreError | None = None
        self._lines: list[bytes] = []

    def write(self, event: Event, *, commits: bool = True) -> None:
        self._lines.append(encode(event))
        if commits:
            self.kept = len(self._lines)

    def between(self, start: int, end: int) -> Sequence[Event]:
        self.reads.append((start, end))
        if self.failure is not None:
            raise self.failure
        assert end <= self.kept
        return [decode(line) for line in self._lines[start:end]]


def filled(events: Sequence[Event], kept: Kept) -> EventList:
    found = EventList(kept)
    for event in events:
        kept.write(event)
        found.append(event)
    return found


def test_old_events_are_what_they_were_in_whatever_order_they_are_asked_for() -> None:
    events = [event_at(seq) for seq in range(MANY)]
    kept, random = Kept(), Random(1)
    found = filled(events, kept)
    places = random.sample(range(MANY), MANY)
    assert [found.at(place) for place in places] == [events[place] for place in places]
    assert list(found.between(0, MANY)) == list(reversed(list(reversed(found.so_far())))) == events
    assert found.so_far() == tuple(events)
    for _ in range(100):
        part = slice(*(random.choice((None, random.randint(-MANY, MANY))) for _ in range(2)))
        assert found.so_far()[part] == tuple(events[part])
    assert kept.reads


def test_a_snapshot_is_not_changed_by_what_is_appended_nor_by_what_goes() -> None:
    events = [event_at(seq) for seq in range(2 * MANY)]
    kept = Kept()
    found = filled(events[:100], kept)
    before = found.so_far()
    for event in events[100:]:
        kept.write(event)
        found.append(event)
    assert (len(before), len(found)) == (100, 2 * MANY)
    assert list(before) == events[:100]
    assert (before[-1], before[::-7]) == (events[99], tuple(events[99::-7]))
    with pytest.raises(IndexError):
        before[100]
    with pytest.raises(IndexError):
        found.at(len(found))
    with pytest.raises(IndexError):
        found.at(-1)


def test_whoever_goes_through_events_in_order_reads_each_block_once() -> None:
    kept = Kept()
    found = filled([event_at(seq) for seq in range(10 * MANY)], kept)
    old = range(10 * MANY - NEWEST - 2 * BLOCK)
    for places in (old, reversed(old)):
        kept.reads.clear()
        for place in places:
            found.at(place)
        assert len(kept.reads) <= len(old) / BLOCK + 1
    kept.reads.clear()
    for _ in found.between(0, len(found)):
        pass
    assert len(kept.reads) <= len(found) / BLOCK / 4


def test_the_newest_events_are_there_as_they_were_taken() -> None:
    events = [event_at(seq) for seq in range(MANY)]
    kept = Kept()
    found = filled(events, kept)
    assert all(found.at(place) is events[place] for place in range(MANY - NEWEST, MANY))
    assert not kept.reads


def test_what_is_not_durable_stays_in_memory_until_it_is() -> None:
    events = [event_at(seq) for seq in range(3 * MANY)]
    kept = Kept()
    found = EventList(kept)
    for event in events[:MANY]:
        kept.write(event, commits=event.seq < BLOCK)
        found.append(event)
    assert list(found.between(0, MANY)) == events[:MANY]
    assert {end for _, end in kept.reads} == {BLOCK}
    assert found.at(BLOCK) is events[BLOCK]
    for event in events[MANY:]:
        kept.write(event)
        found.append(event)
    assert found.at(BLOCK) is not events[BLOCK]
    assert list(found.between(0, 3 * MANY)) == events


def test_where_nothing_is_kept_all_events_stay() -> None:
    events = [event_at(seq) for seq in range(MANY)]
    found = EventList()
    for event in events:
        found.append(event)
    assert all(mine is its for mine, its in zip(found.between(0, MANY), events, strict=True))


def test_a_backing_that_fails_is_an_error_each_time_and_no_loss() -> None:
    events = [event_at(seq) for seq in range(MANY)]
    kept = Kept()
    found = filled(events, kept)
    kept.failure = StoreError("the disk failed")
    for _ in range(2):
        with pytest.raises(StoreError):
            found.at(0)
        with pytest.raises(StoreError):
            list(found.between(0, MANY))
    assert found.at(MANY - 1) == events[-1]
    kept.write(event_at(MANY))
    found.append(event_at(MANY))
    kept.failure = None
    assert list(found.between(0, MANY)) == events


def test_a_loaded_log_lets_events_go_as_it_is_used_some_for_each_that_comes() -> None:
    kept = Kept()
    events = [event_at(seq) for seq in range(20 * BLOCK)]
    for event in events:
        kept.write(event)
    found = EventList(kept)
    found.extend(events)
    assert list(found.between(0, len(found))) == events
    assert not kept.reads
    for seq in range(20 * BLOCK, 25 * BLOCK):
        kept.write(event_at(seq))
        found.append(event_at(seq))
    assert all(found.at(place) is not events[place] for place in range(0, 8 * BLOCK, BLOCK))
    assert found.at(0) == events[0]


@pytest.mark.slow
def test_a_long_log_takes_next_to_no_memory() -> None:
    kept = Kept()
    found = filled([event_at(seq) for seq in range(4 * NEWEST)], kept)
    others = [event_at(seq) for seq in range(4 * NEWEST, 4 * NEWEST + 20_000)]
    for event in others:
        kept.write(event)
    kept.reads = list[tuple[int, int]]()
    others.reverse()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        while others:
            found.append(replace(others.pop(), at=1.5))
        for place in range(0, len(found), 7):
            found.at(place)
        each = (tracemalloc.get_traced_memory()[0] - before) / 20_000
    finally:
        tracemalloc.stop()
    assert each < 20
