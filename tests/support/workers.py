"""Real workers for tests: one zygote per test process, environments that are always closed, and process counting."""

from __future__ import annotations

import atexit
import os
from contextlib import AbstractAsyncContextManager, suppress
from functools import cache
from pathlib import Path

import anyio
import psutil

from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote
from tests.support.environments import PATIENCE, Bench, opened

WorkerBench = Bench[WorkerEnvironment]


@cache
def shared_zygote() -> Zygote:
    zygote = Zygote.spawn()
    atexit.register(zygote.close)
    return zygote


def new_worker() -> WorkerEnvironment:
    """An environment as a host makes it, below the shared zygote."""
    return WorkerEnvironment(shared_zygote())


def bench(
    cwd: Path, zygote: Zygote | None = None, **limits: float
) -> AbstractAsyncContextManager[Bench[WorkerEnvironment]]:
    return opened(WorkerEnvironment(zygote or shared_zygote()), cwd, **limits)


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_in(folder: Path) -> int:
    """How many processes have it as their working directory."""
    found = 0
    for name in os.listdir("/proc"):
        try:
            found += name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder)
        except OSError:
            continue
    return found


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
