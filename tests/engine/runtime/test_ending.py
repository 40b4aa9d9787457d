"""Processes that fork on while they are ended, and fork bombs: none is left, and the session goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import anyio
import pytest

from engine.runtime.worker.processes import memory
from engine.runtime.worker.processes.ending import end_tree
from engine.runtime.worker.processes.memory import Watch
from tests.support.environments import PATIENCE, until
from tests.support.workers import bench, processes_in

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


async def test_growing_tree_is_ended_whole(tmp_path: Path) -> None:
    await end(tmp_path, GROWING.replace(str(LENGTH), "40"), "close")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["close", "death", "cancel"])
@pytest.mark.parametrize("source", [GROWING, CHAINS], ids=["growing", "chains"])
@pytest.mark.parametrize("number", range(5))
async def test_nothing_is_left_of_what_forks_on(tmp_path: Path, number: int, source: str, how: str) -> None:
    await end(tmp_path, source, how)


DEPTH: Final = 8
SECONDS: Final = 20
BOMB: Final = f"""
import os, time
end = time.monotonic() + {SECONDS}
for _ in range({DEPTH}):
    {{fork}}
while time.monotonic() < end:
    pass
os._exit(0)
"""
"""2 ** DEPTH processes, of which each wants a processor."""
FORKS: Final = {"in one group": "os.fork()", "each in a session of its own": "os.fork() or os.setsid()"}


@pytest.mark.slow
@pytest.mark.parametrize("fork", FORKS.values(), ids=FORKS)
async def test_fork_bomb_ends_with_its_statement(tmp_path: Path, fork: str) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        await b.run("import os; x = [1]")
        begun = time.monotonic()
        outcome = await b.run(BOMB.format(fork=fork), time_limit=0.5)
        assert outcome.status == "timeout"
        with anyio.fail_after(PATIENCE):
            await until(lambda: processes_in(tmp_path) == 0)
        assert time.monotonic() - begun < SECONDS / 2  # nobody waited for them to end by themselves


@pytest.mark.slow
def test_a_look_is_given_up_where_somebody_wants_something(tmp_path: Path) -> None:
    watch = Watch(lambda: True)
    watch.begin(os.getpid(), 1, "the statement")
    assert watch.look() == []
    watch = Watch()
    watch.begin(os.getpid(), 1, "the statement")
    assert "more than the limit of 0.00 GB" in watch.look()[0][1]


@pytest.mark.slow
def test_what_is_too_much_in_one_count_alone_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # As where a page is counted whole for one process, and in part for another that shares it since.
    counts = iter((1 << 40, 0, 1 << 40, 1 << 40))
    monkeypatch.setattr(memory, "_proportional", lambda _: next(counts))
    monkeypatch.setattr(memory, "_tree", lambda pid: [pid])
    watch = Watch()
    watch.begin(os.getpid(), 1, "the statement")
    assert watch.look() == []
    monkeypatch.setattr(watch, "_next_look", 0.0)
    assert "more than the limit of 0.00 GB" in watch.look()[0][1]


@pytest.mark.slow
def test_processes_left_by_statements_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_PROCESSES", 1)
    watch = Watch()
    with subprocess.Popen(["sleep", "20"]) as alone:
        watch.rest(alone.pid, 1 << 40)
        assert (watch.look(), watch.patience()) == ([], None)
        alone.kill()
    with subprocess.Popen(["sh", "-c", "sleep 20 & echo there; wait"], stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()
        watch.rest(parent.pid, 1 << 40)
        ((pid, reason),) = watch.look()
        assert (pid, reason.partition(" exceeded ")[0]) == (parent.pid, "the remaining processes of statements")
        assert not watch.is_busy
        assert watch.patience() is not None
        end_tree(parent.pid)


@pytest.mark.slow
def test_tree_of_too_many_processes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        ["sh", "-c", "for i in 1 2 3 4 5; do sleep 60 & done; echo; wait"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as parent:
        try:
            parent.stdout.readline()
            watch = Watch()
            watch.begin(parent.pid, 1 << 40, "the program")
            assert watch.look() == []
            watch.end(parent.pid)
            monkeypatch.setattr(memory, "MOST_PROCESSES", 5)
            watch.begin(parent.pid, 1 << 40, "the program")
            (found,) = watch.look()
            assert found == (
                parent.pid,
                "the program exceeded the limit of 5 processes; they were ended",
            )
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
