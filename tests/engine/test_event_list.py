"""Events in memory: old ones are packed, take little, and are what they were, whoever asks in whatever order."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from random import Random

import pytest

from engine.event_list import BLOCK, NEWEST, EventList
from engine.events import Event
from engine.events.conversation import AgentText, ToolCall, UserMessage
from engine.events.execution import ExecutionFinished, StatementRecorded
from engine.ids import EventId, ExecutionId, MessageId, Seq, StatementId, ToolCallId

MANY = 3 * BLOCK + NEWEST


def event_at(seq: int, text: str = "a = 1") -> Event:
    """The four events of a statement, again and again."""
    stamp = {"seq": Seq(seq), "event_id": EventId(f"e{seq}"), "at": 1_795_371_282.25 + seq}
    statement, execution = StatementId(f"st_{seq // 4:024x}"), ExecutionId(f"ex_{seq // 4:024x}")
    call = ToolCallId(f"call_{seq // 4:024x}")
    match seq % 4:
        case 0:
            return UserMessage(**stamp, message_id=MessageId(f"msg_{seq:024x}"), text=text)
        case 1:
            return StatementRecorded(**stamp, statement_id=statement, index=seq, source=text, tool_call_id=call)
        case 2:
            return ExecutionFinished(
                **stamp, execution_id=execution, statement_id=statement, status="ok", started_at=1.5, ended_at=2.25
            )
        case _:
            return ToolCall(**stamp, tool_call_id=call, tool="python", arguments={"source": text, "n": [1, None, 0.5]})


def listed(events: Sequence[Event]) -> EventList:
    found = EventList()
    for event in events:
        found.append(event)
    return found


def test_old_events_are_what_they_were_in_whatever_order_they_are_asked_for() -> None:
    events = [event_at(seq) for seq in range(MANY)]
    found, random = listed(events), Random(1)
    places = random.sample(range(MANY), MANY)
    assert [found.at(place) for place in places] == [events[place] for place in places]
    assert list(found.between(0, MANY)) == list(reversed(list(reversed(found.so_far())))) == events
    assert found.so_far() == tuple(events)
    for _ in range(100):
        part = slice(*(random.choice((None, random.randint(-MANY, MANY))) for _ in range(2)))
        assert found.so_far()[part] == tuple(events[part])


def test_a_snapshot_is_not_changed_by_what_is_appended_nor_by_packing() -> None:
    events = [event_at(seq) for seq in range(2 * MANY)]
    found = listed(events[:100])
    before = found.so_far()
    for event in events[100:]:
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


def test_an_event_that_json_does_not_give_back_stays_as_it_is() -> None:
    events = [event_at(seq) for seq in range(MANY)]
    strange = {
        5: AgentText(seq=Seq(5), message_id=MessageId("m"), text="lone \ud800 surrogate"),
        BLOCK + 5: ToolCall(
            seq=Seq(BLOCK + 5), tool_call_id=ToolCallId("c"), tool="python", arguments={"pair": (1, 2)}
        ),
    }
    for place, event in strange.items():
        events[place] = event
    found = listed(events)
    assert list(found.between(0, MANY)) == events
    assert all(found.at(place) is event for place, event in strange.items())


def test_a_large_block_is_not_packed_because_whoever_appends_would_wait() -> None:
    large = "x" * 600_000
    events = [event_at(seq, large if seq == 4 else "a") for seq in range(MANY)]
    found = listed(events)
    assert found.at(4) is events[4]
    assert found.at(BLOCK) is not events[BLOCK]


def test_the_newest_events_are_there_as_they_were_taken() -> None:
    events = [event_at(seq) for seq in range(MANY)]
    found = listed(events)
    assert all(found.at(place) is events[place] for place in range(MANY - NEWEST, MANY))


def test_a_loaded_log_is_packed_as_it_is_used_some_events_for_each_that_comes() -> None:
    found = EventList()
    found.extend(event_at(seq) for seq in range(10 * BLOCK))
    first = found.at(0)
    assert found.at(0) is first
    for seq in range(10 * BLOCK, 12 * BLOCK):
        found.append(event_at(seq))
    assert all(found.at(place) is not found.at(place + BLOCK) for place in range(0, 8 * BLOCK, BLOCK))
    assert found.at(0) == first
    assert found.at(0) is not first


@pytest.mark.slow
def test_a_long_log_takes_little_memory() -> None:
    found = listed([event_at(seq) for seq in range(4 * NEWEST)])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for seq in range(4 * NEWEST, 4 * NEWEST + 20_000):
            found.append(event_at(seq))
        for _ in found.between(0, len(found)):
            pass
        found.at(0)
        each = (tracemalloc.get_traced_memory()[0] - before) / 20_000
    finally:
        tracemalloc.stop()
    assert each < 100
