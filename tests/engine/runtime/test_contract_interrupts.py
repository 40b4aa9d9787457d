"""Stopping a statement in any environment: by interrupt, by its time limit, by cancelling whoever awaits it."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from engine.core.execution import STATEMENT_CANCELLED, STATEMENT_TIMEOUT
from engine.log.past import RestorePlan
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime.worker.interrupts import interruption
from engine.runtime.worker.protocol import Stopping
from tests.support.environments import PATIENCE, AnyBench, Make, contents, ended_otherwise, opened

SPIN = "def spin():\n    while True: pass\n"
"""A function, because CPython's exception table leaves out the jump that ends a loop's body."""
NAPS = "import time\nwhile True: time.sleep(0.001)"
"""Runs for ever, looking for interrupts, without holding up who shares its process."""
STUBBORN = """
import time
over = time.monotonic() + 1
def nap():
    while time.monotonic() < over: time.sleep(0.01)
while time.monotonic() < over:
    try: nap()
    except KeyboardInterrupt: pass
"""
"""Swallows the interrupt and goes on until long after the grace; ends, because a thread cannot be ended otherwise."""


async def test_an_endless_loop_is_cancelled_and_the_namespace_stays(b: AnyBench) -> None:
    await b.run("kept = 1")
    outcome = await b.interrupted("n = 2\nprint('go')\nwhile True: pass")
    assert outcome.status == "cancelled"
    assert outcome.exception.type == STATEMENT_CANCELLED
    assert outcome.exception.message == str(interruption(Stopping()))
    assert outcome.exception.traceback.endswith(f"\n{STATEMENT_CANCELLED}: {outcome.exception.message}\n")
    assert "_handle" not in outcome.exception.traceback
    assert outcome.stdout.text.strip() == "go"
    assert await b.value("kept + n") == "3"


async def test_the_time_limit_is_a_timeout(b: AnyBench) -> None:
    outcome = await b.run("while True: pass", time_limit=0.1)
    assert outcome.status == "timeout"
    assert outcome.exception.type == STATEMENT_TIMEOUT
    assert outcome.exception.message == str(interruption(Stopping(0.1)))
    assert b.environment.alive
    assert await b.value("1") == "1"


async def test_stopped_statement_does_not_swallow_the_stop_as_exception(b: AnyBench) -> None:
    caught = "try: spin()\nexcept Exception: swallowed = True\nexcept KeyboardInterrupt as e: kept = str(e)"
    assert (await b.run(SPIN + caught, time_limit=0.1)).status == "timeout"
    assert await b.value("kept, 'swallowed' in globals()") == repr((str(interruption(Stopping(0.1))), False))


async def test_interrupt_by_the_statement_itself_has_no_reason(b: AnyBench) -> None:
    assert (await b.run("while True: pass", time_limit=0.1)).status == "timeout"
    outcome = await b.run("raise KeyboardInterrupt")
    assert (outcome.status, outcome.exception.type, outcome.exception.message) == ("error", "KeyboardInterrupt", "")


async def test_stop_during_an_effect_names_its_reason(b: AnyBench) -> None:
    async def stop(_: EffectRequest) -> EffectAnswer:
        b.environment.interrupt()
        await anyio.sleep_forever()
        raise AssertionError

    source = "try:\n    read('x')\nexcept InterruptedError:\n    while True: pass"
    outcome = await b.run(source, effects=stop)
    assert outcome.exception.type == STATEMENT_CANCELLED


async def test_statement_that_ignores_the_grace_loses_its_namespace(make: Make, tmp_path: Path) -> None:
    async with opened(make(), tmp_path, grace_seconds=0.1) as b:
        outcome = await b.run(STUBBORN, time_limit=0.1)
        assert outcome.status == "timeout"
        assert outcome.exception.type == "WorkerDied"
        assert "did not stop within 0.1 s of being interrupted" in outcome.exception.message
        assert not b.environment.alive
        assert await b.environment.loss() is None  # which the outcome has said
        with anyio.fail_after(PATIENCE):
            await b.environment.restore(RestorePlan(), contents, ended_otherwise)
        assert await b.value("1") == "1"


async def test_statement_that_swallows_the_interrupt_is_cancelled(b: AnyBench) -> None:
    outcome = await b.interrupted(SPIN + "try:\n    print('go')\n    spin()\nexcept KeyboardInterrupt: pass\n'fine'")
    assert outcome.status == "cancelled"
    assert outcome.value == "'fine'"
    assert outcome.exception is None


async def test_early_interrupt_is_kept_and_late_one_harmless(b: AnyBench) -> None:
    for _ in range(8):
        async with b.running(NAPS) as outcomes:
            b.environment.interrupt()
        assert outcomes[0].status == "cancelled"
        assert (await b.run("y = 1")).status == "ok"


async def test_interrupt_at_the_end_never_reaches_the_next_statement(b: AnyBench) -> None:
    for _ in range(8):
        outcome = await b.interrupted("print('almost over')")
        assert outcome.status in ("ok", "cancelled")
        assert await b.value("2 + 2") == "4"


async def test_an_interrupt_without_a_statement_does_nothing(b: AnyBench) -> None:
    b.environment.interrupt()
    assert await b.value("1") == "1"


async def test_a_display_that_hangs_is_under_the_time_limit(b: AnyBench) -> None:
    outcome = await b.run("class H:\n    def __repr__(self):\n        while True: pass\nH()", time_limit=0.1)
    assert outcome.status == "timeout"
    assert outcome.exception.type == STATEMENT_TIMEOUT
    assert b.environment.alive


@pytest.mark.slow
async def test_a_diff_that_hangs_is_under_the_time_limit(b: AnyBench) -> None:
    # Apart, so that nothing but the diff takes long in the statement with the limit.
    await b.run("class H:\n    def __repr__(self):\n        while True: pass")
    outcome = await b.run("h = H()", time_limit=0.5)
    assert outcome.status == "timeout"
    assert outcome.exception.type == STATEMENT_TIMEOUT
    assert b.environment.alive
    assert await b.value("type(h).__name__") == "'H'"


async def test_cancelling_the_awaiting_task_stops_the_statement(b: AnyBench) -> None:
    with anyio.fail_after(PATIENCE):
        for _ in range(5):
            with anyio.CancelScope() as scope:
                b.on_output = scope.cancel
                await b.run("print('x' * 100_000)\nwhile True: pass")
            assert scope.cancelled_caught
            b.on_output = None
            assert b.environment.alive
            assert await b.value("3") == "3"


async def test_an_output_sink_that_raises_leaves_the_environment_in_step(b: AnyBench) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    b.on_output = fail
    with pytest.raises(ZeroDivisionError):
        await b.run("print('x')\nwhile True: pass")
    b.on_output = None
    assert await b.value("4") == "4"


async def test_interrupt_during_an_effect_stops_handler_and_statement(b: AnyBench) -> None:
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


@pytest.mark.slow
async def test_grace_begins_after_the_effect_has_ended(make: Make, tmp_path: Path) -> None:
    async def handler(asked: EffectRequest) -> EffectAnswer:
        b.environment.interrupt()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.6)  # a program that has to be killed
        raise AssertionError("the handler must have been cancelled")

    async with opened(make(), tmp_path, grace_seconds=0.5) as b:
        outcome = await b.run("import time\ntry: read('x')\nfinally: time.sleep(0.15); kept = 1", effects=handler)
        assert outcome.status == "cancelled"
        assert await b.value("kept") == "1"


async def test_asking_again_after_an_interrupt_is_refused_by_the_host(b: AnyBench) -> None:
    async def interrupt(_: EffectRequest) -> EffectAnswer:
        b.environment.interrupt()
        await anyio.sleep_forever()
        raise AssertionError

    outcome = await b.run("try: read('x')\nexcept BaseException: pass\nread('y')", effects=interrupt)
    assert outcome.status == "cancelled"
    assert outcome.exception.type in ("InterruptedError", STATEMENT_CANCELLED)
    assert await b.value("6") == "6"


async def test_time_of_an_effect_is_not_the_statements(b: AnyBench) -> None:
    async def slow(_: EffectRequest) -> EffectAnswer:
        await anyio.sleep(0.35)
        return EffectAnswer(value="late")

    outcome = await b.run("read('x')", time_limit=0.3, effects=slow)
    assert outcome.status == "ok"


async def test_close_during_a_statement_ends_it_and_is_bounded(b: AnyBench) -> None:
    started = anyio.Event()
    b.on_output = started.set
    with anyio.fail_after(PATIENCE):
        async with b.running(f"print('go')\n{NAPS}") as outcomes:
            await started.wait()
            await b.environment.close()
    assert outcomes[0].status == "cancelled"
    assert not b.environment.alive


async def test_statement_that_waits_in_line_is_stopped_before_it_begins(b: AnyBench) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(b.environment.project, ["some words " * 20_000], 100)
        async with b.running("ran = True") as outcomes:
            await anyio.lowlevel.checkpoint()
            b.environment.interrupt()
    assert [outcome.status for outcome in outcomes] == ["cancelled"]
    assert await b.value("'ran' in globals()") == "False"
