"""One queue out: in order, bounded, and free to go once the client is gone."""

from __future__ import annotations

import anyio
import pytest

from acp_adapter.rpc.outbox import BATCH, Outbox

pytestmark = pytest.mark.anyio
SECONDS = 10.0


async def test_queued_lines_leave_together_in_order_up_to_a_batch() -> None:
    outbox = Outbox()
    sent: list[bool] = []
    lines = [b"%d\n" % i for i in range(20_000)]
    for line in lines:
        outbox.put(line, sent.append if line == b"3\n" else None)
    taken = b""
    with anyio.fail_after(SECONDS):
        while outbox.size:
            batch = await outbox.take()
            assert len(batch.data) <= BATCH
            taken += batch.data
            outbox.sent(batch)
    assert taken == b"".join(lines)
    assert sent == [True]


async def test_a_line_longer_than_a_batch_goes_alone() -> None:
    outbox = Outbox()
    outbox.put(b"a" * (BATCH + 1))
    outbox.put(b"b")
    with anyio.fail_after(SECONDS):
        assert len((await outbox.take()).data) == BATCH + 1
        assert (await outbox.take()).data == b"b"


async def test_bytes_count_until_they_are_with_the_transport() -> None:
    outbox = Outbox()
    outbox.put(b"12345")
    batch = await outbox.take()
    with anyio.move_on_after(0.01) as waited:
        await outbox.room(4)
    assert waited.cancelled_caught
    outbox.sent(batch)
    with anyio.fail_after(SECONDS):
        await outbox.room(0)


async def test_closing_drops_what_is_queued_and_what_comes_and_frees_who_waits() -> None:
    outbox = Outbox()
    sent: list[bool] = []
    outbox.put(b"x" * 100, sent.append)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.room, 0)
            await anyio.lowlevel.checkpoint()
            outbox.close()
    outbox.put(b"late", sent.append)
    assert outbox.size == 0
    assert sent == [False, False]
