"""One pattern for every cancel: what is awaited ends, nothing new begins, and there is no moment in between."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from engine.session.cancellation import Cancellation, WorkCancelledError

pytestmark = pytest.mark.anyio
SECONDS = 5.0


async def never() -> None:
    pytest.fail("it began")


async def test_what_is_guarded_gives_its_result_where_nobody_cancels() -> None:
    async def perform() -> int:
        await anyio.lowlevel.checkpoint()
        return 42

    assert await Cancellation().guard(perform) == 42


async def test_a_cancel_tears_what_is_guarded() -> None:
    cancellation, waiting, ended = Cancellation(), anyio.Event(), list[str]()

    async def perform() -> None:
        waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("torn")

    async def cancel() -> None:
        await waiting.wait()
        cancellation.cancel()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            with pytest.raises(WorkCancelledError):
                await cancellation.guard(perform)
    assert ended == ["torn"]


async def test_nothing_begins_after_a_cancel() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(WorkCancelledError):
        await cancellation.guard(never)
    with pytest.raises(WorkCancelledError):
        await cancellation.stoppable(never, lambda: None)


async def test_a_cancel_between_two_waits_is_not_lost() -> None:
    cancellation = Cancellation()
    await cancellation.guard(anyio.lowlevel.checkpoint)
    cancellation.cancel()
    with pytest.raises(WorkCancelledError):
        await cancellation.guard(never)


async def test_a_result_that_comes_too_late_to_be_torn_is_dropped() -> None:
    cancellation = Cancellation()

    async def perform() -> int:
        cancellation.cancel()
        return 42

    with pytest.raises(WorkCancelledError):
        await cancellation.guard(perform)


async def test_what_is_stoppable_is_told_once_and_its_outcome_is_awaited() -> None:
    cancellation, told, waiting = Cancellation(), list[str](), anyio.Event()
    stopped = anyio.Event()

    def stop() -> None:
        told.append("stop")
        stopped.set()

    async def perform() -> str:
        waiting.set()
        await stopped.wait()
        await anyio.lowlevel.checkpoint()
        return "stopped"

    async def cancel_twice() -> None:
        await waiting.wait()
        cancellation.cancel()
        cancellation.cancel()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_twice)
            assert await cancellation.stoppable(perform, stop) == "stopped"
    assert told == ["stop"]


async def test_what_has_ended_is_not_told_to_stop() -> None:
    cancellation = Cancellation()
    await cancellation.stoppable(anyio.lowlevel.checkpoint, lambda: pytest.fail("it has ended"))
    cancellation.cancel()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_failure_is_raised_as_it_is(cancelled: bool) -> None:
    cancellation = Cancellation()

    async def fail() -> None:
        if cancelled:
            cancellation.cancel()
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        await cancellation.guard(fail)


async def test_the_end_of_the_task_itself_passes_through() -> None:
    cancellation, reached = Cancellation(), list[str]()
    with anyio.CancelScope() as scope:

        async def end() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        await cancellation.guard(end)
        reached.append("went on")
    assert scope.cancelled_caught
    assert reached == []


async def test_a_cancel_and_the_end_of_the_task_at_once_end_the_task() -> None:
    cancellation, reached = Cancellation(), list[str]()
    with anyio.CancelScope() as scope:

        async def end() -> None:
            cancellation.cancel()
            scope.cancel()
            await anyio.sleep_forever()

        try:
            await cancellation.guard(end)
        except WorkCancelledError:
            await anyio.lowlevel.checkpoint()
        reached.append("went on")
    assert reached == []
