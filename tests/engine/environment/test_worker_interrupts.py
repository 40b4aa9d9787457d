"""Stopping a statement: by interrupt, by its time limit, by cancelling whoever awaits it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine.ports import EffectAnswer, EffectRequest, RunOutcome
from tests.support.workers import PATIENCE, Bench, bench, request

pytestmark = pytest.mark.anyio

C_LOOP = """
import os, collections, itertools
collections.deque(itertools.chain(map(os.write, [1], [b"go"]), itertools.repeat(1)), maxlen=0)
"""
"""Says "go" from within a loop that runs no bytecode, so that no signal handler of Python's ever runs."""

SPIN = "def spin():\n    while True: pass\n"
"""A function, because CPython's exception table leaves out the jump that ends a loop's body."""


async def interrupted(b: Bench, source: str) -> RunOutcome:
    """Runs the source and interrupts it at its first output."""
    b.on_output = b.environment.interrupt
    try:
        return await b.run(source)
    finally:
        b.on_output = None


async def test_an_endless_loop_is_cancelled_and_the_namespace_stays(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run("kept = 1")
        outcome = await interrupted(b, "n = 2\nprint('go')\nwhile True: pass")
        assert outcome.status == "cancelled"
        assert outcome.exception is not None
        assert outcome.exception.type == "KeyboardInterrupt"
        assert outcome.exception.traceback.endswith("\nKeyboardInterrupt\n")
        assert "_handle" not in outcome.exception.traceback
        assert outcome.stdout.text.strip() == "go"
        assert await b.value("kept + n") == "3"


async def test_the_time_limit_is_a_timeout(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("while True: pass", time_limit=0.1)
        assert outcome.status == "timeout"
        assert b.environment.alive
        assert await b.value("1") == "1"


async def test_a_c_loop_is_killed_after_the_grace(tmp_path: Path) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        outcome = await interrupted(b, C_LOOP)
        assert outcome.status == "cancelled"
        assert outcome.exception is not None
        assert outcome.exception.type == "WorkerDied"
        assert "SIGKILL" in outcome.exception.message
        assert outcome.stdout.text == "go"
        assert not b.environment.alive


async def test_a_loop_that_swallows_the_interrupt_is_killed_after_the_grace(tmp_path: Path) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        source = SPIN + "while True:\n    try: spin()\n    except KeyboardInterrupt: pass"
        outcome = await b.run(source, time_limit=0.1)
        assert outcome.status == "timeout"
        assert not b.environment.alive


async def test_a_statement_that_swallows_the_interrupt_and_ends_is_cancelled_all_the_same(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        source = SPIN + "try:\n    print('go')\n    spin()\nexcept KeyboardInterrupt: pass\n'fine'"
        outcome = await interrupted(b, source)
        assert outcome.status == "cancelled"
        assert outcome.value == "'fine'"
        assert outcome.exception is None


async def test_an_interrupt_at_once_is_not_lost_and_a_late_one_hits_no_other_statement(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for _ in range(50):
            async with anyio.create_task_group() as tasks:
                outcomes: list[RunOutcome] = []

                async def run(into: list[RunOutcome] = outcomes) -> None:
                    into.append(await b.run("import time; time.sleep(20)"))

                tasks.start_soon(run)
                await anyio.lowlevel.checkpoint()
                b.environment.interrupt()
            assert outcomes[0].status == "cancelled"
            assert (await b.run("y = 1")).status == "ok"


async def test_an_interrupt_that_a_system_call_did_not_notice_is_repeated(tmp_path: Path) -> None:
    lose_the_first = """
import signal, time
ours = signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, ours))
print("go", flush=True)
time.sleep(20)
"""
    async with bench(tmp_path) as b:
        outcome = await interrupted(b, lose_the_first)
        assert outcome.status == "cancelled"
        assert outcome.exception is not None
        assert outcome.exception.type == "KeyboardInterrupt"
        assert b.environment.alive


async def test_an_interrupt_that_races_with_the_end_never_reaches_the_next_statement(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for _ in range(50):
            outcome = await interrupted(b, "print('almost over')")
            assert outcome.status in ("ok", "cancelled")
            assert await b.value("2 + 2") == "4"


async def test_an_interrupt_without_a_statement_does_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.environment.interrupt()
        assert await b.value("1") == "1"


async def test_a_display_that_hangs_is_under_the_time_limit(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("class H:\n    def __repr__(self):\n        while True: pass\nH()", time_limit=0.1)
        assert outcome.status == "timeout"
        assert b.environment.alive


async def test_a_diff_that_hangs_is_under_the_time_limit(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        source = "class H:\n    def __reduce__(self):\n        while True: pass\nh = H()"
        outcome = await b.run(source, time_limit=0.1)
        assert outcome.status == "timeout"
        assert b.environment.alive
        assert await b.value("type(h).__name__") == "'H'"


async def test_cancelling_the_awaiting_task_stops_the_statement_and_leaves_the_worker_in_step(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        with anyio.fail_after(PATIENCE):
            for _ in range(5):
                with anyio.CancelScope() as scope:
                    b.on_output = scope.cancel
                    await b.run("print('x' * 100_000)\nwhile True: pass")
                assert scope.cancelled_caught
                b.on_output = None
                assert b.environment.alive
                assert await b.value("3") == "3"


async def test_cancelling_the_awaiting_task_of_a_statement_that_cannot_be_interrupted_ends_the_worker(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            b.on_output = scope.cancel
            await b.run(C_LOOP)
        assert scope.cancelled_caught
        assert not b.environment.alive


async def test_an_output_sink_that_raises_leaves_the_worker_in_step(tmp_path: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async with bench(tmp_path) as b:
        b.on_output = fail
        with pytest.raises(ZeroDivisionError):
            await b.run("print('x')\nwhile True: pass")
        b.on_output = None
        assert await b.value("4") == "4"


async def test_an_interrupt_while_the_host_answers_an_effect_stops_the_handler_and_the_statement(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as b:
        stopped: list[bool] = []

        async def never(_: EffectRequest) -> EffectAnswer:
            b.environment.interrupt()
            try:
                await anyio.sleep_forever()
            finally:
                stopped.append(True)
            raise AssertionError

        outcome = await b.run("read('x')", effects=never)
        assert outcome.status == "cancelled"
        assert stopped == [True]
        assert await b.value("5") == "5"


async def test_asking_again_after_an_interrupt_is_refused_by_the_host(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:

        async def interrupt(_: EffectRequest) -> EffectAnswer:
            b.environment.interrupt()
            await anyio.sleep_forever()
            raise AssertionError

        source = "try: read('x')\nexcept BaseException: pass\nread('y')"
        outcome = await b.run(source, effects=interrupt)
        assert outcome.status == "cancelled"
        assert outcome.exception is not None
        assert outcome.exception.type in ("InterruptedError", "KeyboardInterrupt")
        assert await b.value("6") == "6"


async def test_the_time_the_host_takes_for_an_effect_is_not_the_statements(tmp_path: Path) -> None:
    async def slow(_: EffectRequest) -> EffectAnswer:
        await anyio.sleep(0.4)
        return EffectAnswer(value="late")

    async with bench(tmp_path) as b:
        outcome = await b.run("read('x')", time_limit=0.3, effects=slow)
        assert outcome.status == "ok"


async def test_a_handler_of_the_users_for_sigint_is_gone_in_the_next_statement(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
        outcome = await b.run("while True: pass", time_limit=0.1)
        assert outcome.status == "timeout"
        assert b.environment.alive


async def test_close_during_a_statement_ends_it_and_is_bounded(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcomes: list[RunOutcome] = []

        async def run() -> None:
            asked = request(C_LOOP)
            outcomes.append(await b.environment.run(asked, _refuse, lambda *_: started.set()))

        started = anyio.Event()
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await started.wait()
                await b.environment.close()
        assert outcomes[0].status == "cancelled"
        assert not b.environment.alive


async def _refuse(asked: EffectRequest) -> EffectAnswer:
    raise AssertionError(asked)
