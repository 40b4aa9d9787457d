"""Both implementations of the process table have the same behavior."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from types import ModuleType

import pytest

from tests.support.environments import PATIENCE, until
from tests.support.other_system import IMPLEMENTATIONS, implementation

THREADS = """
import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=IMPLEMENTATIONS)
def table(request: pytest.FixtureRequest) -> ModuleType:
    return implementation("engine.runtime.system.process_table", request.param)


@pytest.fixture
def child() -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as child:
        yield child
        child.kill()


def test_a_child_is_known_with_its_parent_group_and_session(table: ModuleType, child: subprocess.Popen[bytes]) -> None:
    found = table.stat_of(child.pid)
    assert (found.parent, found.group, found.session) == (os.getpid(), child.pid, child.pid)
    assert found.start >= table.stat_of("self").start > 0
    assert {os.getpid(), child.pid} <= set(table.pids())
    assert child.pid in table.children_of("self")
    assert child.pid in table.children_of(os.getpid())
    assert table.has_children()
    assert table.children_of(child.pid) == frozenset()
    assert table.is_childless(child.pid)
    assert table.is_below(child.pid, os.getpid())
    assert not table.is_below(os.getpid(), child.pid)
    assert table.session_of(child.pid) == child.pid


async def test_states(table: ModuleType, child: subprocess.Popen[bytes]) -> None:
    await until(lambda: table.stat_of(child.pid).state == b"S")
    child.send_signal(signal.SIGSTOP)
    await until(lambda: table.stat_of(child.pid).state == b"T")
    child.kill()
    await until(lambda: table.stat_of(child.pid).state == b"Z")
    child.wait(PATIENCE)
    assert table.stat_of(child.pid) is None
    assert table.children_of(child.pid) is None
    assert child.pid not in table.children_of("self")
    with pytest.raises(OSError, match=r"gone|No such"):
        table.threads_of(child.pid)


def test_grandchildren_and_threads(table: ModuleType) -> None:
    command = f"\"{sys.executable}\" -c '{THREADS}' & wait"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, process_group=0) as shell:
        try:
            assert shell.stdout is not None
            shell.stdout.readline()
            (below,) = table.children_of(shell.pid)
            assert not table.is_childless(shell.pid)
            assert table.is_below(below, os.getpid())
            assert (table.threads_of(shell.pid), table.threads_of(below)) == (1, 4)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_a_process_is_identified_across_boots(table: ModuleType) -> None:
    for word in (table.boot_id(), table.pid_namespace()):
        assert word
        assert " " not in word


def test_own_threads(table: ModuleType) -> None:
    assert threading.get_native_id() in table.own_threads()
    before, done, ids = len(table.own_threads()), threading.Event(), queue.Queue[int]()
    thread = threading.Thread(target=lambda: (ids.put(threading.get_native_id()), done.wait(PATIENCE)))
    thread.start()
    assert ids.get(timeout=PATIENCE) in table.own_threads()
    assert len(table.own_threads()) == before + 1
    done.set()
    thread.join()


def test_without_children(table: ModuleType) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(1 if table.has_children() else 0)
    assert os.waitpid(pid, 0)[1] == 0
