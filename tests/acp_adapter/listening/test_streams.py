"""Streams of messages: positions, second tries, and what is kept."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_adapter.listening import streams
from acp_adapter.listening.streams import Budget, MessageStream, PositionLostError

pytestmark = pytest.mark.anyio


async def taken(stream: MessageStream, count: int, after: int | None = None) -> list[tuple[int, bytes]]:
    """The next messages of a new reader, which leaves then."""
    found: list[tuple[int, bytes]] = []
    reader = stream.read(after)
    with anyio.fail_after(5):
        async for item in reader:
            found.append(item)
            if len(found) == count:
                break
    await reader.aclose()
    return found


def filled(*messages: bytes) -> MessageStream:
    stream = MessageStream(Budget(1 << 30))
    for message in messages:
        stream.put(message)
    return stream


async def test_a_new_reader_continues_after_what_was_taken() -> None:
    stream = filled(b"a", b"b", b"c")
    assert await taken(stream, 2) == [(1, b"a"), (2, b"b")]
    assert await taken(stream, 1) == [(3, b"c")]


async def test_a_reader_with_a_position_gets_what_follows_it() -> None:
    stream = filled(b"a", b"b", b"c")
    await taken(stream, 3)
    assert await taken(stream, 2, after=1) == [(2, b"b"), (3, b"c")]
    assert await taken(stream, 3, after=0) == [(1, b"a"), (2, b"b"), (3, b"c")]


@pytest.mark.parametrize("after", [4, 99])
async def test_a_position_of_the_future_is_lost(after: int) -> None:
    with pytest.raises(PositionLostError):
        filled(b"a", b"b", b"c").read(after)


async def test_old_messages_are_dropped_and_unread_ones_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RETAINED_MESSAGES", 3)
    stream = filled(*(b"%d" % number for number in range(10)))
    assert len(await taken(stream, 8)) == 8
    with pytest.raises(PositionLostError):
        stream.read(3)
    assert [position for position, _ in await taken(stream, 3, after=7)] == [8, 9, 10]


async def test_bytes_are_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RETAINED_BYTES", 10)
    stream = filled(*([b"12345"] * 6))
    await taken(stream, 6)
    with pytest.raises(PositionLostError):
        stream.read(2)
    assert len(await taken(stream, 2, after=4)) == 2


async def test_a_second_reader_ends_the_first() -> None:
    stream = filled()
    ended = anyio.Event()

    async def read() -> None:
        assert [item async for item in stream.read(None)] == []
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        assert stream.is_read
        second = stream.read(None)
        with anyio.fail_after(5):
            await ended.wait()
        stream.put(b"a")
        assert await anext(second) == (1, b"a")
        await second.aclose()
    assert not stream.is_read


async def test_room_waits_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "UNREAD_BYTES", 4)
    stream = filled(b"a")
    await taken(stream, 1)
    for _ in range(3):
        stream.put(b"bb")
    passed = anyio.Event()

    async def wait() -> None:
        await stream.room()
        passed.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not passed.is_set()
        await taken(stream, 1)
        await anyio.wait_all_tasks_blocked()
        assert passed.is_set()


async def test_a_closed_stream_ends_after_its_messages() -> None:
    stream = filled(b"a")
    stream.close()
    assert [item async for item in stream.read(None)] == [(1, b"a")]
    await stream.room()


@given(cuts=st.lists(st.integers(0, 20), max_size=8), size=st.integers(1, 20))
async def test_no_cut_loses_or_repeats_a_message(cuts: list[int], size: int) -> None:
    """A reader that continues after its last position, however often it was cut, gets each message once."""
    stream = filled(*(b"%d" % number for number in range(size)))
    stream.close()
    received: list[tuple[int, bytes]] = []
    for cut in cuts:
        reader = stream.read(len(received))
        for _ in range(cut):
            item = await anext(reader, None)
            if item is None:
                break
            received.append(item)
        await reader.aclose()
    received += [item async for item in stream.read(len(received))]
    assert received == [(number + 1, b"%d" % number) for number in range(size)]


async def test_streams_share_a_budget() -> None:
    budget = Budget(10)
    one, other = MessageStream(budget), MessageStream(budget)
    for stream in (one, other, one):
        stream.put(b"12345")
    assert budget.is_over
    assert await taken(one, 2) == [(1, b"12345"), (2, b"12345")]
    assert budget.used == 15  # for a second try
    one.forget_read()
    assert (budget.used, budget.is_over) == (10, False)
    with pytest.raises(PositionLostError):
        one.read(0)
    assert await taken(one, 1, after=1) == [(2, b"12345")]
    other.forget_read()  # nobody has read it
    assert await taken(other, 1) == [(1, b"12345")]
    one.close()
    other.close()
    assert budget.used == 0


async def test_a_reader_that_begins_again_loses_nothing_when_memory_is_short() -> None:
    stream = filled(b"a", b"b", b"c", b"d")
    await taken(stream, 4)
    reader = stream.read(1)
    stream.forget_read()
    assert [await anext(reader) for _ in range(2)] == [(2, b"b"), (3, b"c")]
    stream.forget_read()
    assert await anext(reader) == (4, b"d")
    await reader.aclose()
