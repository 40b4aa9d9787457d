"""Facts about processes, brands, and quiet forks."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pytest

from engine.runtime.worker.processes import quiet_fork
from engine.runtime.worker.processes.brands import Brand, brand_of, children_of, has_children, host_is_dead, own_brand
from engine.runtime.worker.processes.ending import end_left_behind, left_behind

ROOT: Final = str(Path(__file__).parents[3])
SECONDS: Final = 30
BRANDED: Final = f"""
import sys, time
sys.path.insert(0, {ROOT!r})
from engine.runtime.worker.processes.brands import own_brand
from engine.runtime.worker.processes.system import take_brand
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


def test_a_host_is_dead_when_its_number_is_free_or_given_to_another() -> None:
    mine = own_brand(1)
    assert not host_is_dead(mine)
    assert host_is_dead(mine._replace(soft=mine.soft ^ START))
    ended = subprocess.Popen(["true"])
    ended.wait(SECONDS)
    assert host_is_dead(mine._replace(soft=mine.soft - os.getpid() + ended.pid))


@pytest.mark.parametrize("bit", [0, 31, 32, 61], ids=["user", "user", "namespaces", "namespaces"])
def test_a_host_of_another_user_or_in_another_namespace_is_never_dead(bit: int) -> None:
    mine = own_brand(1)
    assert not host_is_dead(Brand(mine.soft ^ START, mine.hard ^ 1 << bit))


def test_what_carries_the_brand_of_a_running_host_stays_and_ends_with_the_next_look_after_that() -> None:
    program = f"import subprocess\n{BRANDED.replace('sys.stdin.read()', '')}"
    program += "child = subprocess.Popen(['sleep', '600'])\nprint(child.pid, flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
        assert host.stdout
        host.stdout.readline()
        child = int(host.stdout.readline())
        brand = brand_of(child)
        assert brand is not None
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
        assert container.stdout
        assert container.stdout.readline() == b"branded\n"
        end_left_behind()
        assert container.stdin
        container.stdin.close()
        assert container.wait(SECONDS) == 0


_OF_ANY_KIND = 0x40000000
"""`__WALL` of waitpid."""


def test_any_child_counts_until_it_was_reaped_also_one_whose_end_nobody_is_told_of() -> None:
    others = children_of("self")
    for fork in (os.fork, quiet_fork.fork):
        pid = fork()
        if pid == 0:
            os._exit(0)
        assert has_children()
        assert pid in (children_of("self") or ())
        os.waitpid(pid, _OF_ANY_KIND)
    assert has_children() == bool(others)


def test_a_process_that_is_forked_beside_another_is_its_parents_and_knows_its_own_thread() -> None:
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
