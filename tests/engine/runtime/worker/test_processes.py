"""Processes of statements: their end, their brands, what they hold, and quiet forks."""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from engine.core.domain import Domain
from engine.runtime.system import quiet_fork
from engine.runtime.system.brands import Brand, brand_of, host_is_dead, own_brand
from engine.runtime.system.process_table import Stat, children_of, has_children, stat_of
from engine.runtime.worker.processes import ending, memory
from engine.runtime.worker.processes.ending import end_below, end_left_behind, end_tree, left_behind
from engine.runtime.worker.processes.memory import Watch, held
from tests.support.environments import PATIENCE


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


def test_ended_process_is_met_and_not_reaped(ended: int) -> None:
    met: list[int] = []
    end_tree(ended, met.append)
    assert met.count(ended) == 1
    found = stat_of(ended)
    assert found.state == b"Z"


def test_lone_process_is_ended_without_listing_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "pids", lambda: pytest.fail("all of /proc was listed"))
    with subprocess.Popen(["sleep", "20"]) as child:
        end_tree(child.pid)
    assert child.returncode == -signal.SIGKILL


def test_child_of_one_that_ends_during_a_look_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Counter[int] = Counter()

    def raced(pid: int) -> Stat | None:
        found = stat_of(pid)
        looks[pid] += 1
        return found._replace(parent=ended.pid) if found and (pid, looks[pid]) == (shell.pid, 1) else found

    with (
        subprocess.Popen(["true"]) as ended,
        subprocess.Popen(["sh", "-c", "sleep 100 & echo $!; wait"], stdout=subprocess.PIPE) as shell,
    ):
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
        child.stdout.read(5)
        while (found := stat_of(child.pid)) is not None and found.state != b"Z":
            time.sleep(0.01)
        end_tree(child.pid)
        assert child.wait(PATIENCE) == -signal.SIGKILL


def test_one_with_a_thread_or_child_is_not_alone() -> None:
    script = "import os, threading, time\n{}\nos.write(1, b'%d\\n' % os.getpid()); time.sleep(20)"
    begin = ("os.fork()", "threading.Thread(target=os.system, args=('echo $$; exec sleep 20',)).start()")
    for source in begin:
        command = [sys.executable, "-c", script.format(source)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            pinned = [os.pidfd_open(int(child.stdout.readline())) for _ in range(2)]
            end_tree(child.pid)
            for process in pinned:
                assert select.select([process], [], [], 10)[0]
                os.close(process)


def test_running_process_is_ended_and_ended_ones_met(ended: int) -> None:
    met: list[int] = []
    with subprocess.Popen(["sleep", "20"]) as child:
        end_below(os.getpid(), lambda pid: pid == child.pid, met.append)
    assert child.returncode == -signal.SIGKILL
    assert ended in met


IN_ONE_GROUP = """\
import os, subprocess
meant = subprocess.Popen(["sh", "-c", "sleep 60 & echo; wait"], process_group=0, stdout=subprocess.PIPE)
meant.stdout.readline()  # it is not alone any more
other = subprocess.Popen(["sleep", "60"], process_group=meant.pid)
print(meant.pid, other.pid, flush=True)
other.wait()
meant.wait()
"""


def test_stopped_group_continues_for_others() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", IN_ONE_GROUP], stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as parent:
        meant, other = map(int, parent.stdout.readline().split())
        end_tree(meant)
        try:
            end = time.monotonic() + PATIENCE
            while (found := stat_of(other)) is not None and found.state == b"T" and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            os.kill(other, signal.SIGKILL)
        assert found.state in b"RSD"


MUCH = 1 << 40
BOUND = 1 << 20


def test_files_count_and_targets_of_links_do_not(tmp_path: Path) -> None:
    (tmp_path / "in/side").mkdir(parents=True)
    (tmp_path / "in/side/file").write_bytes(os.urandom(1 << 20))
    (tmp_path / "loop").symlink_to(tmp_path)
    assert 1 << 20 <= held(str(tmp_path), MUCH) <= (1 << 20) + (64 << 10)


def test_holes_count_nothing_and_empty_files_a_block(tmp_path: Path) -> None:
    (tmp_path / "holes").touch()
    os.truncate(tmp_path / "holes", 1 << 30)
    (tmp_path / "empty").touch()
    assert held(str(tmp_path), MUCH) == 2 * 4096


def test_the_count_ends_where_it_is_enough(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).touch()
    assert held(str(tmp_path), 4 * 4096) == 5 * 4096


def test_a_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert held(str(tmp_path / "nowhere"), MUCH) == 0


def deepen(folder: Path) -> None:
    """Makes directories that are deeper than a path can be long."""
    place = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=place)
        inner = os.open("x" * 200, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)


@pytest.mark.parametrize("enough", [1 << 30, MUCH])
def test_too_deep_directory_is_too_much(tmp_path: Path, enough: int) -> None:
    deepen(tmp_path)
    assert held(str(tmp_path), enough) > enough


@contextmanager
def process(*command: str) -> Generator[int]:
    """A process that a statement could be of, with a child if the command starts one."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as started:
        started.stdout.readline()
        try:
            yield started.pid
        finally:
            subprocess.run(["pkill", "-KILL", "-P", str(started.pid)], check=False)
            started.kill()


ALONE = ("sh", "-c", "echo; exec sleep 60")
PARENT = ("sh", "-c", "sleep 60 & echo; wait")


def found(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a look now blames somebody."""
    monkeypatch.setattr(watch, "_next_look", 0.0)
    return bool(watch.look())


@pytest.mark.parametrize("before", [BOUND, 3 * BOUND])
def test_growth_beyond_the_bound_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    (tmp_path / "before").write_bytes(os.urandom(before))
    monkeypatch.setattr(memory, "LOOK_SECONDS", 0.0)  # the statement begins now
    watch = Watch()
    with process(*ALONE) as pid:
        watch.begin(pid, MUCH, "the statement", Domain(scratch=str(tmp_path), scratch_bytes=BOUND))
        (tmp_path / "cache").touch()  # as Python writes one
        assert not found(watch, monkeypatch)
        (tmp_path / "more").write_bytes(os.urandom(BOUND // 4))
        assert found(watch, monkeypatch)
        (tmp_path / "before").unlink()
        assert not found(watch, monkeypatch)


@pytest.mark.parametrize("command", [ALONE, PARENT], ids=["alone", "leaves a child"])
def test_earlier_growth_is_not_blamed_on_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    domain = Domain(scratch=str(tmp_path), scratch_bytes=BOUND)
    watch = Watch()
    with process(*command) as pid:
        watch.begin(pid, MUCH, "the statement", domain)
        assert not found(watch, monkeypatch)
        (tmp_path / "much").write_bytes(os.urandom(3 * BOUND))
        watch.rest(pid, MUCH, domain)  # before the next look
        assert not found(watch, monkeypatch)
        monkeypatch.setattr(memory, "LOOK_SECONDS", 0.0)  # the statement begins now
        watch.begin(pid, MUCH, "the statement", domain)
        assert not found(watch, monkeypatch)


def test_growth_before_watching_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LOOK_SECONDS", 60.0)  # since the statement began
    (tmp_path / "much").write_bytes(os.urandom(3 * BOUND))
    watch = Watch()
    with process(*ALONE) as pid:
        watch.begin(pid, MUCH, "the statement", Domain(scratch=str(tmp_path), scratch_bytes=BOUND))
        assert found(watch, monkeypatch)


def test_what_a_child_that_was_left_writes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain(scratch=str(tmp_path), scratch_bytes=BOUND)
    watch = Watch()
    with process(*PARENT) as pid:
        watch.rest(pid, MUCH, domain)
        (tmp_path / "much").write_bytes(os.urandom(3 * BOUND))
        assert found(watch, monkeypatch)


def test_too_deep_directory_exceeds_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deepen(tmp_path)
    watch = Watch()
    with process(*ALONE) as pid:
        watch.begin(pid, MUCH, "the statement", Domain(scratch=str(tmp_path), scratch_bytes=BOUND))
        assert found(watch, monkeypatch)


ROOT: Final = str(Path(__file__).parents[3])
SECONDS: Final = 30
BRANDED: Final = f"""
import sys, time
sys.path.insert(0, {ROOT!r})
from engine.runtime.system.brands import own_brand
from engine.runtime.system.own_process import take_brand
take_brand(own_brand(3))
print("branded", flush=True)
sys.stdin.read()
"""
ELSEWHERE: Final = ("unshare", "--pid", "--fork", "--mount-proc")
START: Final = 1 << 22


def test_a_brand_says_which_zygote_of_which_host_it_is() -> None:
    assert own_brand(1).host == os.getpid()
    assert own_brand(1) != own_brand(2)
    assert own_brand(1) == own_brand(33)
    assert all(0 < value < 1 << 63 for value in own_brand(31))


def test_a_process_without_a_brand_has_none() -> None:
    assert brand_of(os.getpid()) is None
    assert brand_of(1 << 22) is None


def test_host_is_dead_when_its_number_is_reused() -> None:
    mine = own_brand(1)
    assert not host_is_dead(mine)
    assert host_is_dead(mine._replace(soft=mine.soft ^ START))
    ended = subprocess.Popen(["true"])
    ended.wait(SECONDS)
    assert host_is_dead(mine._replace(soft=mine.soft - os.getpid() + ended.pid))


@pytest.mark.parametrize("bit", [0, 31, 32, 61], ids=["user", "user", "namespaces", "namespaces"])
def test_foreign_host_is_never_dead(bit: int) -> None:
    mine = own_brand(1)
    assert not host_is_dead(Brand(mine.soft ^ START, mine.hard ^ 1 << bit))


def test_branded_process_ends_after_its_host() -> None:
    program = f"import subprocess\n{BRANDED.replace('sys.stdin.read()', '')}"
    program += "child = subprocess.Popen(['sleep', '600'])\nprint(child.pid, flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
        host.stdout.readline()
        child = int(host.stdout.readline())
        brand = brand_of(child)
        assert brand.host == host.pid
        end_left_behind()
        assert brand_of(child) == brand
        pinned = os.pidfd_open(child)
        ended = select.poll()
        ended.register(pinned, select.POLLIN)
        host.kill()
        host.wait(SECONDS)
        # A command of a neighbour on this machine may be quicker.
        assert child in left_behind() or ended.poll(SECONDS * 1000)
        end_left_behind()
        assert ended.poll(SECONDS * 1000)
        os.close(pinned)
        assert child not in left_behind()


@pytest.mark.parametrize("command", [ELSEWHERE] if os.geteuid() == 0 and shutil.which("unshare") else [])
def test_processes_of_a_container_are_left_alone(command: tuple[str, ...]) -> None:
    arguments = [*command, sys.executable, "-c", BRANDED]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as container:
        assert container.stdout.readline() == b"branded\n"
        end_left_behind()
        container.stdin.close()
        assert container.wait(SECONDS) == 0


_OF_ANY_KIND = 0x40000000
"""`__WALL` of waitpid."""


def test_every_child_counts_until_it_was_reaped() -> None:
    others = children_of("self")
    for fork in (os.fork, quiet_fork.fork):
        pid = fork()
        if pid == 0:
            os._exit(0)
        assert has_children()
        assert pid in (children_of("self") or ())
        os.waitpid(pid, _OF_ANY_KIND)
    assert has_children() == bool(others)


def test_process_forked_beside_is_its_parents() -> None:
    us, (reader, writer) = os.getpid(), os.pipe()
    between = os.fork()
    if between == 0:
        if quiet_fork.can_be_beside() and quiet_fork.fork_beside(lambda: None) is None:
            # Of a thread that is not of this process there is no clock.
            time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident()))
            os.write(writer, b"%d %d" % (os.getppid() == us, os.getpid()))
        os._exit(0)
    os.close(writer)
    os.waitpid(between, 0)
    is_ours, pid = os.read(reader, 100).split()
    os.close(reader)
    assert is_ours == b"1"
    assert os.waitpid(int(pid), 0) == (int(pid), 0)


TAKES_PRECEDENCE: Final = """
import os
from engine.runtime.system.own_process import take_precedence

{}
before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
take_precedence()
assert (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == before, before
"""
CHOSEN: Final = {"a policy": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))", "a number": "os.nice(1)"}


@pytest.mark.parametrize("choice", CHOSEN.values(), ids=CHOSEN)
def test_a_precedence_that_somebody_has_chosen_stays(choice: str) -> None:
    # In a session of its own, because the precedence of one would be changed with it.
    subprocess.run(
        [sys.executable, "-c", TAKES_PRECEDENCE.format(choice)],
        cwd=ROOT,
        start_new_session=True,
        timeout=60,
        check=True,
    )


def test_directory_that_may_not_be_read_counts_as_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program can write into one that it holds open."""
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(errno.EACCES, "closed")
        return scandir(path)

    assert memory.held(str(tmp_path), 1 << 30) < 1 << 20
    monkeypatch.setattr(os, "scandir", refusing)
    assert memory.held(str(tmp_path), 1 << 30) == (1 << 30) + 1
