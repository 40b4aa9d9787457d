"""Stopping what only a process can stop: system calls, loops in C, handlers of the user's."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine.log.statements import RunOutcome
from tests.support.environments import PATIENCE, refuse, request
from tests.support.workers import bench

pytestmark = pytest.mark.anyio

C_LOOP = """
import os, collections, itertools
collections.deque(itertools.chain(map(os.write, [1], [b"go"]), itertools.repeat(1)), maxlen=0)
"""
"""Says "go" from within a loop that runs no bytecode, so that no signal handler of Python's ever runs."""


async def test_a_c_loop_is_killed_after_the_grace(tmp_path: Path) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        outcome = await b.interrupted(C_LOOP)
        assert outcome.status == "cancelled"
        assert outcome.exception is not None
        assert outcome.exception.type == "WorkerDied"
        assert "SIGKILL" in outcome.exception.message
        assert outcome.stdout.text == "go"
        assert not b.environment.alive


async def test_an_interrupt_ends_a_system_call_also_when_it_comes_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for _ in range(10):
            async with anyio.create_task_group() as tasks:
                outcomes: list[RunOutcome] = []

                async def run(into: list[RunOutcome] = outcomes) -> None:
                    into.append(await b.run("import time; time.sleep(20)"))

                tasks.start_soon(run)
                await anyio.lowlevel.checkpoint()
                b.environment.interrupt()
            assert outcomes[0].status == "cancelled"
            assert b.environment.alive


async def test_an_interrupt_that_a_system_call_did_not_notice_is_repeated(tmp_path: Path) -> None:
    lose_the_first = """
import signal, time
ours = signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, ours))
print("go", flush=True)
time.sleep(20)
"""
    async with bench(tmp_path) as b:
        outcome = await b.interrupted(lose_the_first)
        assert outcome.status == "cancelled"
        assert outcome.exception is not None
        assert outcome.exception.type == "KeyboardInterrupt"
        assert b.environment.alive


async def test_cancelling_the_awaiting_task_of_a_statement_that_cannot_be_interrupted_ends_the_worker(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            b.on_output = scope.cancel
            await b.run(C_LOOP)
        assert scope.cancelled_caught
        assert not b.environment.alive


async def test_a_handler_of_the_users_for_sigint_is_gone_in_the_next_statement(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
        outcome = await b.run("while True: pass", time_limit=0.1)
        assert outcome.status == "timeout"
        assert b.environment.alive


async def test_close_during_a_statement_that_cannot_be_interrupted_ends_it_and_is_bounded(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcomes: list[RunOutcome] = []
        started = anyio.Event()

        async def run() -> None:
            outcomes.append(await b.environment.run(request(C_LOOP), refuse, lambda *_: started.set()))

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await started.wait()
                await b.environment.close()
        assert outcomes[0].status == "cancelled"
        assert not b.environment.alive
