"""Real workers for tests: one zygote per test process, environments that are always closed, and process counting."""

from __future__ import annotations

import atexit
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

import anyio
import psutil

from engine.environment.worker_environment import WorkerEnvironment
from engine.environment.zygote import Zygote
from engine.execution import ExceptionInfo
from engine.ids import ExecutionId
from engine.ports import EffectAnswer, EffectHandler, EffectRequest, EnvironmentSpec, Limits, RunOutcome, RunRequest

PATIENCE = 30.0
"""Seconds after which a test that waits has failed."""
_numbers = count(1)


@cache
def shared_zygote() -> Zygote:
    zygote = Zygote.spawn()
    atexit.register(zygote.close)
    return zygote


def spec_for(cwd: Path, **limits: float) -> EnvironmentSpec:
    return EnvironmentSpec(
        cwd=str(cwd),
        directories=(str(cwd),),
        variables={"PATH": os.environ["PATH"], "HOME": str(cwd)},
        limits=Limits(**limits),
    )


def request(
    source: str, time_limit: float | None = 20.0, label: str | None = None, execution_id: str | None = None
) -> RunRequest:
    number = next(_numbers)
    return RunRequest(
        execution_id=ExecutionId(execution_id or f"ex_{number}"),
        label=label or f"<statement {number}>",
        source=source,
        round_id=number,
        time_limit=time_limit,
    )


async def refuse(asked: EffectRequest) -> EffectAnswer:
    return EffectAnswer(error=ExceptionInfo(type="PermissionError", message=f"no {asked.operation} here"))


class Bench:
    """An environment with what came out of it."""

    def __init__(self, environment: WorkerEnvironment) -> None:
        self.environment = environment
        self.output: list[tuple[str, str]] = []
        self.on_output: Callable[[], None] | None = None

    async def run(
        self,
        source: str,
        time_limit: float = 20.0,
        effects: EffectHandler = refuse,
        execution_id: str | None = None,
    ) -> RunOutcome:
        asked = request(source, time_limit, execution_id=execution_id)
        with anyio.fail_after(PATIENCE):
            return await self.environment.run(asked, effects, self.take)

    async def value(self, source: str) -> str | None:
        """The displayed value of a statement that has to succeed."""
        outcome = await self.run(source)
        assert outcome.status == "ok", outcome.exception
        return outcome.value

    def take(self, stream: str, text: str) -> None:
        self.output.append((stream, text))
        if self.on_output is not None:
            self.on_output()


@asynccontextmanager
async def bench(cwd: Path, zygote: Zygote | None = None, **limits: float) -> AsyncIterator[Bench]:
    environment = WorkerEnvironment(zygote or shared_zygote())
    try:
        with anyio.fail_after(PATIENCE):
            await environment.start(spec_for(cwd, **limits))
        yield Bench(environment)
    finally:
        with anyio.CancelScope(shield=True):
            await environment.close()


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(*pids: int) -> None:
    """Returns when none of the processes runs any more."""
    with anyio.fail_after(PATIENCE):
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                try:
                    await anyio.wait_readable(descriptor)
                finally:
                    os.close(descriptor)


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds; for what other processes do without telling anybody."""
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 -- there is no event of another process to wait for
            await anyio.sleep(0.005)
