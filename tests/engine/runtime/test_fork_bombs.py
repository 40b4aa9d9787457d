"""Statements that fork exponentially: their end takes all of them, and the session goes on.

Each bomb is bounded in itself, whatever becomes of the test: it goes DEPTH generations deep, and its processes end by
themselves after SECONDS.
"""

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

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
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


@pytest.mark.parametrize("fork", FORKS.values(), ids=FORKS)
async def test_a_fork_bomb_ends_with_its_statement_and_the_names_come_back(tmp_path: Path, fork: str) -> None:
    async with bench(tmp_path, grace_seconds=0.1) as b:
        await b.run("import os; x = [1]")
        begun = time.monotonic()
        outcome = await b.run(BOMB.format(fork=fork), time_limit=0.5)
        assert outcome.status == "timeout"
        with anyio.fail_after(PATIENCE):
            await until(lambda: processes_in(tmp_path) == 0)
        assert time.monotonic() - begun < SECONDS / 2  # nobody waited for them to end by themselves


async def test_what_statements_run_in_has_no_precedence(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("import os, subprocess\nos.getpriority(0, 0), subprocess.getoutput('nice')")
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        assert outcome.value == f"({ours}, '{ours}')"
        assert (
            await b.value(
                "open('/proc/self/autogroup').read().split()[-1] if os.path.exists('/proc/self/autogroup') else '0'"
            )
            == "'0'"
        )


def test_a_look_is_given_up_where_somebody_wants_something(tmp_path: Path) -> None:
    watch = Watch(lambda: True)
    watch.begin(os.getpid(), 1, "the statement")
    assert watch.look() == []
    watch = Watch()
    watch.begin(os.getpid(), 1, "the statement")
    assert "more than the 0.00 GB" in watch.look()[0][1]


def test_what_is_too_much_in_one_count_alone_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # As where a page is counted whole for one process, and in part for another that shares it since.
    counts = iter((1 << 40, 0, 1 << 40, 1 << 40))
    monkeypatch.setattr(memory, "_proportional", lambda _: next(counts))
    monkeypatch.setattr(memory, "_tree", lambda pid: [pid])
    watch = Watch()
    watch.begin(os.getpid(), 1, "the statement")
    assert watch.look() == []
    monkeypatch.setattr(watch, "_next_look", 0.0)
    assert "more than the 0.00 GB" in watch.look()[0][1]


def test_what_a_statement_has_left_is_looked_at_while_there_is_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_PROCESSES", 1)
    watch = Watch()
    with subprocess.Popen(["sleep", "20"]) as alone:
        watch.rest(alone.pid, 1 << 40)
        assert (watch.look(), watch.patience()) == ([], None)
        alone.kill()
    with subprocess.Popen(["sh", "-c", "sleep 20 & echo there; wait"], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        watch.rest(parent.pid, 1 << 40)
        ((pid, reason),) = watch.look()
        assert (pid, reason.partition(" had ")[0]) == (parent.pid, "what statements left running")
        assert not watch.is_busy
        assert watch.patience() is not None
        end_tree(parent.pid)


def test_a_tree_of_too_many_processes_is_found_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        ["sh", "-c", "for i in 1 2 3 4 5; do sleep 60 & done; echo; wait"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as parent:
        try:
            assert parent.stdout
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
                "the program had more than the 5 processes that it may have at a time; they were ended",
            )
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
