"""Processes that fork on while they are ended: none is left, however many there are and whoever their parents were."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.support.environments import PATIENCE, until
from tests.support.workers import bench, processes_in

pytestmark = pytest.mark.anyio

LINES, LENGTH = 4, 400
"""Lines of descent, and how many processes each leaves asleep at most."""

GROWING = f"""
import os, time
def grow():
    os.setsid()
    for _ in range({LENGTH}):
        if os.fork() == 0:
            continue
        time.sleep(600)
        os._exit(0)
    time.sleep(600)
for _ in range({LINES}):
    if os.fork() == 0:
        grow()
        os._exit(0)
print("grows", flush=True)
"""
"""Each process starts the next and sleeps: the tree grows at its ends while it is ended from its root."""

CHAINS = f"""
import os, time
def chain():
    os.setsid()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
    os._exit(0)
for _ in range({LINES}):
    if os.fork() == 0:
        chain()
print("runs", flush=True)
"""
"""Each process starts the next and ends at once: none of them lives long enough to be looked at twice."""


async def end(folder: Path, source: str, how: str) -> None:
    """Runs the source, and ends it while it forks on; returns when nothing of it is left."""
    async with bench(folder, grace_seconds=0.05) as b:
        if how == "close":
            await b.run(source)
        elif how == "death":
            await b.run(f"{source}\nos._exit(1)")
        else:
            await b.interrupted(f"{source}\nwhile True: pass")
            with anyio.fail_after(PATIENCE):
                await until(lambda: processes_in(folder) <= 1)  # none where the worker was ended, too
    with anyio.fail_after(PATIENCE):
        await until(lambda: processes_in(folder) == 0)


async def test_a_tree_that_grows_while_it_is_ended_is_ended_whole(tmp_path: Path) -> None:
    await end(tmp_path, GROWING.replace(str(LENGTH), "40"), "close")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["close", "death", "cancel"])
@pytest.mark.parametrize("source", [GROWING, CHAINS], ids=["growing", "chains"])
@pytest.mark.parametrize("number", range(5))
async def test_nothing_is_left_of_what_forks_on(tmp_path: Path, number: int, source: str, how: str) -> None:
    await end(tmp_path, source, how)
