"""The event log: appending, loading, read models, and events in memory and on disk."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from engine.core.errors import InvalidEventError, StoreError
from engine.core.ids import EventId, MessageId, Seq, ToolCallId
from engine.log.event_log import BLOCK, NEWEST, EventList, EventLog
from engine.log.events import Event
from engine.log.events.codec import decode, encode
from engine.log.events.conversation import RunStop, ToolCall, ToolResult, UserMessage
from tests.support.fixed import FixedClock

P, Q = ToolCallId("p"), ToolCallId("q")


def message(text: str = "hello") -> UserMessage:
    return UserMessage(message_id=MessageId("m"), text=text)


def call(name: str, parent: ToolCallId | None = None) -> ToolCall:
    return ToolCall(tool_call_id=ToolCallId(name), tool="python", parent_id=parent)


def result(name: str, parent: ToolCallId | None = None) -> ToolResult:
    return ToolResult(tool_call_id=ToolCallId(name), status="ok", text="", parent_id=parent)


def new_log(journal: list[Event] | None = None) -> EventLog:
    kept: list[Event] = [] if journal is None else journal
    return EventLog(FixedClock(7.0), kept.append)


def test_append_stamps_position_id_time_and_branch() -> None:
    journal: list[Event] = []
    log = new_log(journal)
    assert [log.append(message("a")), log.append(message("b"))] == [0, 1]
    stamped = log.events[1]
    assert (stamped.seq, stamped.event_id, stamped.at, stamped.branch_id) == (1, "e1", 7.0, "main")
    assert journal == list(log.events)
    assert list(log.since(1)) == [stamped]


@pytest.mark.parametrize(
    ("before", "event", "reason"),
    [
        ([], result("a"), "there is no tool call a"),
        ([call("a"), result("a")], result("a"), "tool call a has its result already"),
        ([call("a")], call("a"), "tool call a is on the log already"),
        ([call("a"), result("a")], call("a"), "tool call a is on the log already"),
        ([call("a")], result("a", P), "tool call a was made by the model, but its result names p"),
        ([call("a", P)], result("a"), "tool call a was made by p, but its result names the model"),
        ([call("a", P)], result("a", Q), "tool call a was made by p, but its result names q"),
    ],
)
def test_what_can_never_be_right_is_refused_and_leaves_nothing(before: list[Event], event: Event, reason: str) -> None:
    journal: list[Event] = []
    log = new_log(journal)
    for earlier in before:
        log.append(earlier)
    with pytest.raises(InvalidEventError, match=reason):
        log.append(event)
    assert len(log) == len(journal) == len(before)


def test_stamped_event_cannot_be_appended() -> None:
    log = new_log()
    log.append(message())
    with pytest.raises(InvalidEventError, match="on a log already"):
        log.append(log.events[0])


def test_a_further_check_can_refuse() -> None:
    log = EventLog(FixedClock(), lambda _: None, check=lambda event: "not today" if event.kind == "run_stop" else None)
    log.append(message())
    with pytest.raises(InvalidEventError, match="not today"):
        log.append(RunStop(reason="completed", cause="end_turn"))


def test_refusing_journal_leaves_log_and_folds_unchanged() -> None:
    folded: list[Event] = []

    def refuse(_: Event) -> None:
        raise OSError("full")

    log = EventLog(FixedClock(), refuse, folds=[folded.append])
    with pytest.raises(OSError, match="full"):
        log.append(message())
    assert (len(log), folded) == (0, [])


def test_folds_receive_appended_and_loaded_events_in_order() -> None:
    source = new_log()
    for event in (message("a"), call("c"), result("c")):
        source.append(event)
    folded: list[Event] = []
    log = EventLog(FixedClock(), lambda _: None, folds=[folded.append])
    log.load(source.events)
    log.append(message("b"))
    assert folded == list(log.events)
    assert [event.seq for event in folded] == [0, 1, 2, 3]


def test_a_loaded_log_still_refuses_a_second_result() -> None:
    source = new_log()
    for event in (call("c"), result("c")):
        source.append(event)
    log = new_log()
    log.load(source.events)
    with pytest.raises(InvalidEventError, match="has its result already"):
        log.append(result("c"))


def test_only_an_empty_log_loads_and_without_gaps() -> None:
    source = new_log()
    source.append(message("a"))
    source.append(message("b"))
    with pytest.raises(InvalidEventError, match="the event has position 1, but the next position is 0"):
        new_log().load(source.events[1:])
    with pytest.raises(InvalidEventError, match="only an empty log"):
        source.load(source.events)


def test_open_calls_are_those_without_a_result() -> None:
    log = new_log()
    for event in (call("a"), call("b"), result("a")):
        log.append(event)
    assert [open_call.tool_call_id for open_call in log.open_calls] == ["b"]


MANY = 3 * BLOCK + NEWEST


def event_at(seq: int) -> Event:
    event = ToolCall(tool_call_id=ToolCallId(f"call_{seq}"), tool="python", arguments={"n": [1, None, 0.5]})
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


def test_old_events_are_equal_in_any_order_of_reading() -> None:
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


def test_snapshot_does_not_change() -> None:
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


def test_held_events_are_read_once_and_not_held_for_ever() -> None:
    events = [event_at(seq) for seq in range(10 * MANY)]
    kept = Kept()
    found = filled(events, kept)
    with found.held():
        with found.held():
            assert list(found.between(0, len(found))) == events
        once = len(kept.reads)
        assert list(found.so_far()) == events
        assert [found.at(place) for place in reversed(range(10 * MANY))] == events[::-1]
        assert list(found.between(BLOCK + 3, 3 * BLOCK - 1)) == events[BLOCK + 3 : 3 * BLOCK - 1]
        assert len(kept.reads) == once <= len(found) / BLOCK / 4
    assert list(found.between(0, len(found))) == events
    assert len(kept.reads) == 2 * once


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


def test_failing_backing_raises_and_loses_nothing() -> None:
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


def test_loaded_log_drops_events_as_it_grows() -> None:
    kept = Kept()
    events = [event_at(seq) for seq in range(20 * BLOCK)]
    for event in events:
        kept.write(event)
    found = EventList(kept)

    def grow(blocks: int) -> None:
        for seq in range(len(found), blocks * BLOCK):
            kept.write(event_at(seq))
            found.append(event_at(seq))

    found.extend(events)
    assert list(found.between(0, len(found))) == events
    assert not kept.reads
    grow(21)
    assert [found.at(place) is events[place] for place in range(0, 20 * BLOCK, BLOCK)].count(False) <= 2
    grow(25)
    assert all(found.at(place) is not events[place] for place in range(0, 8 * BLOCK, BLOCK))
    assert found.at(0) == events[0]
