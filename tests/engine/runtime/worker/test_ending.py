"""Processes that have ended: they are no members of what is to be ended, and are reaped as they are met."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.runtime.worker.processes import ending
from engine.runtime.worker.processes.brands import Stat, stat_of
from engine.runtime.worker.processes.ending import end_below, end_tree
from tests.support.environments import PATIENCE

ROOT = Path(__file__).parents[3]

ZOMBIES = 40
LEFT_TO_A_ZYGOTE = f"""
import os, signal, socket, time
from engine.runtime.worker.forking import zygote
from engine.runtime.worker.processes.brands import children_of

def ended_children():
    for _ in range({ZOMBIES}):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

def counted(*arguments, **named):
    if ours.fileno() >= 0:
        ended_children()
        ours.close()
    end_below(*arguments, **named)
    print(len(children_of("self")), flush=True)

end_below, zygote.end_below = zygote.end_below, counted
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
loop = zygote.ZygoteLoop(theirs, is_swept=True)
signal.signal(signal.SIGCHLD, loop.notice)
ended_children()
if os.fork() == 0:
    time.sleep(20)
loop.serve()
"""
"""A zygote that meets a process of a dead worker among many that have ended, and more that end while it is at work.

It prints how many children it has after each time it ended what it knows nothing of, and leaves after the first."""

NOT_PERMITTED = 3
AT_ONE_PROCESSOR = f"""
import os, subprocess, sys
from engine.runtime.worker.processes import ending

os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
except PermissionError:
    sys.exit({NOT_PERMITTED})
ending.pids = lambda: sys.exit("all of /proc was listed")
with subprocess.Popen(["sleep", "20"]) as child:
    os.sched_setscheduler(child.pid, os.SCHED_FIFO, os.sched_param(1))
    try:
        ending.end_tree(child.pid)
    finally:
        child.kill()
print("ended", child.returncode)
"""
"""A child that runs, and so stops, only where this process waits."""


@pytest.fixture
def ended() -> Iterator[int]:
    """A child of this process that has ended and was not reaped."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


def test_what_has_ended_is_sent_no_signal(ended: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda _, number: sent.append(number))
    end_tree(ended)
    assert sent == []


def test_what_has_ended_is_met_and_left_to_whoever_may_reap_it(ended: int) -> None:
    met: list[int] = []
    end_tree(ended, met.append)
    assert met.count(ended) == 1
    found = stat_of(ended)
    assert found is not None
    assert found.state == b"Z"


def test_one_process_alone_is_ended_without_a_look_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "pids", lambda: pytest.fail("all of /proc was listed"))
    with subprocess.Popen(["sleep", "20"]) as child:
        end_tree(child.pid)
    assert child.returncode == -signal.SIGKILL


def test_who_ends_a_process_leaves_it_the_only_processor_until_it_has_stopped() -> None:
    command = [sys.executable, "-c", AT_ONE_PROCESSOR]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, text=True)
    if done.returncode == NOT_PERMITTED:
        pytest.skip("this user may give no process precedence")
    assert (done.stdout, done.stderr) == ("ended -9\n", "")


def test_what_is_below_one_that_ends_during_a_look_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Counter[int] = Counter()

    def raced(pid: int) -> Stat | None:
        found = stat_of(pid)
        looks[pid] += 1
        return found._replace(parent=ended.pid) if found and (pid, looks[pid]) == (shell.pid, 1) else found

    with (
        subprocess.Popen(["true"]) as ended,
        subprocess.Popen(["sh", "-c", "sleep 100 & echo $!; wait"], stdout=subprocess.PIPE) as shell,
    ):
        assert shell.stdout is not None
        below = os.pidfd_open(int(shell.stdout.readline()))
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        monkeypatch.setattr(ending, "stat_of", raced)
        ending.end_below(os.getpid(), shell.pid.__eq__)
        assert looks[shell.pid] > 1
        assert shell.wait(PATIENCE) == -signal.SIGKILL
        assert select.select([below], [], [], PATIENCE)[0]  # it has ended
        os.close(below)


def test_one_whose_first_thread_alone_has_ended_is_ended() -> None:
    script = (
        "import ctypes, os, threading, time\n"
        "threading.Thread(target=lambda: (os.write(1, b'there'), time.sleep(20))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read(5)
        while (found := stat_of(child.pid)) is not None and found.state != b"Z":
            time.sleep(0.01)
        end_tree(child.pid)
        assert child.wait(PATIENCE) == -signal.SIGKILL


def test_one_that_has_a_thread_or_a_child_is_not_taken_for_one_alone() -> None:
    script = "import os, threading, time\n{}\nos.write(1, b'%d\\n' % os.getpid()); time.sleep(20)"
    begin = ("os.fork()", "threading.Thread(target=os.system, args=('echo $$; exec sleep 20',)).start()")
    for source in begin:
        command = [sys.executable, "-c", script.format(source)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            pinned = [os.pidfd_open(int(child.stdout.readline())) for _ in range(2)]
            end_tree(child.pid)
            for process in pinned:
                assert select.select([process], [], [], 10)[0]
                os.close(process)


def test_what_runs_is_ended_and_what_has_ended_beside_it_is_met(ended: int) -> None:
    met: list[int] = []
    with subprocess.Popen(["sleep", "20"]) as child:
        end_below(os.getpid(), lambda pid: pid == child.pid, met.append)
    assert child.returncode == -signal.SIGKILL
    assert ended in met


@pytest.mark.slow
def test_a_zygote_looks_for_orphans_once_for_many_that_ended_and_reaps_those_that_it_meets() -> None:
    command = [sys.executable, "-c", LEFT_TO_A_ZYGOTE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    left = [int(line) for line in done.stdout.split()]
    # One is because it leaves. One of the children may be the orphan, which was killed only just now.
    assert len(left) <= 3
    assert max(left) <= 1


LOOKED_AT_BETWEEN_STATEMENTS = """
import os, socket, subprocess
from engine.runtime.worker.forking import zygote
from engine.runtime.worker.processes import memory

memory.LOOK_SECONDS = memory.IDLE_LOOK_SECONDS = zygote._IDLE_SECONDS = 0.01
zygote.end_left_behind = lambda: print("swept", flush=True)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
loop = zygote.ZygoteLoop(theirs, is_swept=False)
left = subprocess.Popen(["sleep", "20"])
loop._memory.rest(os.getpid(), 1 << 40)
look = loop._memory.look
looks = iter(range(5))

def looked():
    if next(looks, None) is None:
        left.kill()
        ours.close()
    return look()

loop._memory.look = looked
loop._known = lambda: {left.pid}
loop.serve()
"""
"""A zygote that looks at what a statement has left, five times, while it has nothing to do."""


def test_a_zygote_looks_for_what_dead_hosts_left_once_however_often_it_is_idle() -> None:
    command = [sys.executable, "-c", LOOKED_AT_BETWEEN_STATEMENTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True, text=True)
    assert done.stdout == "swept\n"


IN_ONE_GROUP = """\
import os, subprocess
meant = subprocess.Popen(["sh", "-c", "sleep 60 & echo; wait"], process_group=0, stdout=subprocess.PIPE)
meant.stdout.readline()  # it is not alone any more
other = subprocess.Popen(["sleep", "60"], process_group=meant.pid)
print(meant.pid, other.pid, flush=True)
other.wait()
meant.wait()
"""


def test_a_group_is_stopped_at_once_and_who_is_not_meant_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", IN_ONE_GROUP], stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as parent:
        assert parent.stdout
        meant, other = map(int, parent.stdout.readline().split())
        end_tree(meant)
        try:
            end = time.monotonic() + PATIENCE
            while (found := stat_of(other)) is not None and found.state == b"T" and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            os.kill(other, signal.SIGKILL)
        assert found is not None
        assert found.state in b"RSD"
