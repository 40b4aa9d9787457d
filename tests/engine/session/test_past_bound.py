"""The bound on what a session's past takes: which copies go, what is said on the log, and what never goes."""

from __future__ import annotations

import os
from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.execution import KeptGroup
from engine.core.ids import BlobDigest, ExecutionId, Seq
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.execution import EffectAnswered, ValuesDropped, ValuesKept
from engine.log.store_protocol import Droppable, Store
from engine.session.journal import Journal
from engine.session.saved_state import Drop, HistoryLimit, due_drop
from tests.support.archives import is_there
from tests.support.fixed import FixedClock
from tests.support.stores import A, row

pytestmark = pytest.mark.anyio
SECONDS = 10.0


def droppable(*items: tuple[int, int]) -> list[Droppable]:
    return [Droppable(seq=Seq(seq), size=size) for seq, size in items]


@pytest.mark.parametrize(
    ("items", "size", "limit", "expected"),
    [
        ([(1, 50), (2, 50)], 100, 100, None),
        ([(1, 50), (2, 50)], 101, 100, Drop(Seq(2), 1, 50)),
        ([(1, 5), (2, 5), (3, 90)], 101, 100, Drop(Seq(4), 3, 100)),
        ([(1, 50), (1, 1), (2, 50)], 101, 100, Drop(Seq(2), 2, 51)),
        ([(3, 50)], 1000, 100, Drop(Seq(4), 1, 50)),
        ([(3, 50)], 50, 1, Drop(Seq(4), 1, 50)),
        ([], 1000, 100, None),
    ],
    ids=[
        "as large as allowed",
        "one too much",
        "nine tenths stay",
        "one event's together",
        "not enough",
        "tiny",
        "none",
    ],
)
def test_the_oldest_go_until_nine_tenths_are_left(
    items: list[tuple[int, int]], size: int, limit: int, expected: Drop | None
) -> None:
    assert due_drop(droppable(*items), size, limit) == expected


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 1000)), max_size=30),
    st.integers(0, 20_000),
    st.integers(1, 20_000),
)
def test_no_more_goes_than_has_to(items: list[tuple[int, int]], others: int, limit: int) -> None:
    kept = droppable(*sorted(items))
    size = others + sum(each.size for each in kept)
    drop = due_drop(kept, size, limit)
    if drop is None:
        assert size <= limit or not kept
        return
    gone = [each for each in kept if each.seq < drop.before]
    assert (drop.copies, drop.size) == (len(gone), sum(each.size for each in gone))
    assert size - drop.size <= limit * 9 // 10 or len(gone) == len(kept)
    before_the_last = sum(each.size for each in gone if each.seq < gone[-1].seq)
    assert size - before_the_last > limit * 9 // 10


class Live:
    """A session's log and journal over a store, and the bound on it."""

    def __init__(self, store: Store, limit: int, history: Sequence[Event] = ()) -> None:
        self.store = store
        self.journal = Journal(store, A)
        self.log = EventLog(FixedClock(), self.journal.write)
        self.bound = HistoryLimit(store, A, self.log, self.journal, limit)
        if history:
            self.log.load(history)
            self.journal.opened_at(Seq(len(history) - 1))
        else:
            store.create(row(A))
        store.acquire(A, self.journal.committed)

    async def keep(self, execution: str, *contents: bytes) -> list[BlobDigest]:
        digests = [self.store.blob_put(data) for data in contents]
        groups = tuple(KeptGroup(names=("x",), content=digest, size=1) for digest in digests)
        self.log.append(ValuesKept(execution_id=ExecutionId(execution), groups=groups))
        await self.enforce()
        return digests

    def answer(self, data: bytes) -> BlobDigest:
        digest = self.store.blob_put(data)
        self.log.append(EffectAnswered(execution_id=ExecutionId("x"), ordinal=0, operation="read", result=digest))
        return digest

    async def enforce(self) -> None:
        with anyio.fail_after(SECONDS):
            await self.bound.enforce()
            await self.settled()

    async def settled(self) -> None:
        await self.journal.durable(Seq(len(self.log) - 1))

    def drops(self) -> list[ValuesDropped]:
        return [event for event in self.log.events if isinstance(event, ValuesDropped)]


async def test_the_oldest_values_go_and_the_log_says_so(store: Store) -> None:
    live = Live(store, limit=10_000)
    answer = live.answer(os.urandom(3000))
    (first,) = await live.keep("one", os.urandom(3000))
    second = await live.keep("two", os.urandom(1000), os.urandom(1000))
    assert live.drops() == []
    (third,) = await live.keep("three", os.urandom(2500))
    (said,) = live.drops()
    assert (said.before, said.executions, said.copies, said.limit) == (2, 1, 1, 10_000)
    assert 3000 <= said.size <= 3100
    assert [is_there(store, digest) for digest in (answer, first, *second, third)] == [True, False, True, True, True]
    assert store.row(A).contents_size <= 9000
    await live.keep("four", os.urandom(2600))
    assert (live.drops()[1].executions, live.drops()[1].copies) == (1, 2)
    assert is_there(store, third)


async def test_what_is_no_value_stays_however_much_it_is(store: Store) -> None:
    live = Live(store, limit=1000)
    answers = [live.answer(os.urandom(2000)) for _ in range(3)]
    (value,) = await live.keep("one", b"value")
    assert [is_there(store, digest) for digest in (*answers, value)] == [True, True, True, False]
    await live.enforce()
    assert len(live.drops()) == 1  # and nothing is said where nothing can go


async def test_what_packs_well_counts_as_it_is_packed(store: Store) -> None:
    live = Live(store, limit=100_000)
    (digest,) = await live.keep("one", bytes(5_000_000))
    assert live.drops() == []
    assert is_there(store, digest)


async def test_a_session_that_takes_nothing_any_more_drops_nothing(store: Store) -> None:
    live = Live(store, limit=1000)
    live.log.append(ValuesKept(execution_id=ExecutionId("x"), groups=()))
    await live.settled()
    store.release(A)
    store.close()
    before = len(live.log)
    await live.bound.enforce()
    assert len(live.log) == before


async def test_a_session_that_is_loaded_with_a_lower_limit_drops_at_the_next_value(store: Store) -> None:
    live = Live(store, limit=1_000_000)
    (old,) = await live.keep("one", os.urandom(5000))
    store.release(A)
    again = Live(store, limit=2000, history=live.log.events)
    (new,) = await again.keep("two", b"new")
    assert (is_there(store, old), is_there(store, new)) == (False, True)
