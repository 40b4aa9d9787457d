"""Fork bombs and kills where sandboxed statements have a process namespace: the kernel bounds and ends them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from engine.log.past import RestorePlan
from engine.runtime.environment import EnvironmentSpec
from engine.runtime.worker.processes.memory import most_tasks
from tests.support.environments import PATIENCE, contents, ended_otherwise, past, refuse, until
from tests.support.workers import WorkerBench, processes_in

from .test_worker_domain import held, spec_in

ROOT: Final = Path(__file__).parents[3]
IS_QUIET: Final = "PYTEST_XDIST_WORKER" not in os.environ
"""Whether no other tests run beside these."""
SECONDS: Final = 6.0
NEXT_SECONDS: Final = 2.0 if IS_QUIET else 10.0
"""For the next statement after a bomb, with a fresh namespace where it needs one."""
OTHERS_SECONDS: Final = 0.5 if IS_QUIET else 3.0
"""For a statement of another session while a bomb runs."""
FORK: Final = """
import os
while True:
    try:
        {fork}
    except OSError:
        pass
"""
PREPARED: Final = """
import resource, signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for kind in (resource.RLIMIT_RTTIME, resource.RLIMIT_NPROC):
    try:
        resource.setrlimit(kind, (resource.getrlimit(kind)[1],) * 2)
        resource.setrlimit(kind, (1 << 40, 1 << 40))
    except (OSError, ValueError):
        pass
"""
"""Ignores each signal that can be ignored, and sets limits of its own, so that it carries no mark."""
BOMBS: Final = {
    "fork": FORK.format(fork="os.fork()"),
    "prepared": PREPARED + FORK.format(fork="os.fork()"),
    "sessions": FORK.format(fork="os.fork() or (os.setsid(), os.fork() and os._exit(0))"),
    "shell": "import subprocess\nsubprocess.run(['bash', '-c', ':(){ :|:& };:; sleep 60'])",
}


def namespace_of(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/pid")


def is_apart(pid: int | None) -> bool:
    return pid is not None and namespace_of(pid) != namespace_of(os.getpid())


@pytest.fixture
async def b(tmp_path: Path) -> AsyncIterator[WorkerBench]:
    """A sandboxed worker in a process namespace."""
    async with held(spec_in(tmp_path)) as bench:
        if not is_apart(bench.environment.pid):
            pytest.skip("no process namespaces here")
        yield bench


def tasks_in(namespace: str) -> int:
    """Processes and threads of a namespace."""
    found = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == namespace:
                found += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return found


async def bombed(b: WorkerBench, other: WorkerBench, source: str) -> tuple[int, float]:
    """Runs the bomb. How many tasks there were at most, and how long a statement of the other session took."""
    assert b.environment.pid is not None
    namespace = namespace_of(b.environment.pid)
    most, longest = [0], [0.0]

    async def count() -> None:
        while True:
            most[0] = max(most[0], await anyio.to_thread.run_sync(tasks_in, namespace))
            await anyio.sleep(0.2)  # because it costs both sessions some time

    async def ask() -> None:
        while True:
            begun = time.monotonic()
            await other.value("1 + 1")
            longest[0] = max(longest[0], time.monotonic() - begun)
            await anyio.sleep(0.1)

    async with anyio.create_task_group() as watching:
        watching.start_soon(count)
        watching.start_soon(ask)
        assert (await b.run(source, time_limit=SECONDS)).status in ("error", "timeout")
        watching.cancel_scope.cancel()
    return most[0], longest[0]


def pair(folder: Path) -> tuple[EnvironmentSpec, EnvironmentSpec]:
    """Specifications of two sessions, each in a folder of its own."""
    found: list[EnvironmentSpec] = []
    for name in ("one", "other"):
        (folder / name).mkdir()
        found.append(spec_in(folder / name))
    return found[0], found[1]


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
async def test_checkpoint_survives_a_fork_bomb(b: WorkerBench, bomb: str) -> None:
    step = past("kept = [7]; held = object(); first = id(held)")
    await b.environment.run(step.request, refuse, b.take)
    assert await b.environment.snapshot(step.request.execution_id)
    await until(lambda: bool(b.environment.checkpoints()))
    await b.run(BOMBS[bomb], time_limit=SECONDS)
    with anyio.fail_after(PATIENCE):
        restored = await b.environment.restore(RestorePlan(steps=(step,)), contents, ended_otherwise)
    assert (restored.checkpoint, restored.executions) == (step.request.execution_id, 0)
    assert await b.value("kept, id(held) == first") == "([7], True)"


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_fork_bomb_stays_below_the_limit_and_ends(tmp_path: Path, bomb: str) -> None:
    spec, others = pair(tmp_path)
    async with held(others) as other, held(spec) as b:
        if not is_apart(b.environment.pid):
            pytest.skip("no process namespaces here")
        most, longest = await bombed(b, other, BOMBS[bomb])
        assert most <= 1.1 * most_tasks()
        # The kernel gives each session of processes a share of the processors, until the bomb is ended.
        assert longest < OTHERS_SECONDS * (3 if bomb == "sessions" else 1)
        with anyio.fail_after(NEXT_SECONDS):
            if not b.environment.alive:
                await b.environment.start(spec)
            assert await b.value("1 + 1") == "2"
    with anyio.fail_after(PATIENCE):
        await until(lambda: processes_in(tmp_path / "one") == 0)


async def test_statements_in_the_sandbox_see_only_their_own_processes(b: WorkerBench) -> None:
    seen = await b.value("import os; sorted(int(name) for name in os.listdir('/proc') if name.isdigit())")
    first, *rest = map(int, seen.strip("[]").split(", "))
    assert first == 1
    assert len(rest) <= 2  # the worker, and perhaps a parser
    assert await b.value(f"os.path.exists('/proc/{os.getpid()}') and os.getpid() != {os.getpid()}") == "False"
    for attempt in ("open('/proc/1/mem', 'rb')", "open('/proc/1/environ', 'rb')", "open('/proc/1/fd/3')"):
        outcome = await b.run(f"{attempt}.read(1)")
        assert outcome.exception is not None, attempt
    for link in ("fd/3", "root", "cwd"):
        outcome = await b.run(f"os.readlink('/proc/1/{link}')")
        assert outcome.exception is not None, link


async def test_statements_outside_the_sandbox_see_all_processes(tmp_path: Path) -> None:
    async with held(replace(spec_in(tmp_path), domain=None)) as b:
        assert not is_apart(b.environment.pid)
        assert await b.value(f"import os; os.path.exists('/proc/{os.getpid()}')") == "True"


SPINNING: Final = """
import signal, subprocess, sys
program = '''
import itertools
for number in itertools.count():
    with open("scratch/count", "w") as file:
        file.write(str(number))
'''
child, stopped = subprocess.Popen([sys.executable, "-c", program]), subprocess.Popen(["sleep", "60"])
stopped.send_signal(signal.SIGSTOP)
"""
STATE: Final = """open(f"/proc/{stopped.pid}/stat").read().rpartition(")")[2].split()[0]"""


async def test_all_stand_still_until_the_host_is_done(tmp_path: Path) -> None:
    """So that no process of a statement comes between two steps of the host."""
    count = tmp_path / "scratch/count"
    async with held(spec_in(tmp_path)) as b:
        assert (await b.run(SPINNING)).exception is None
        await until(count.exists)
        for _ in range(3):
            async with b.environment.stopped() as still:
                assert still
                before = count.stat().st_mtime_ns
                await anyio.sleep(0.05)
                assert count.stat().st_mtime_ns == before
            await until(lambda before=before: count.stat().st_mtime_ns != before)
        assert await b.value(STATE) == "'T'"
        assert (await b.run("child.kill(); stopped.kill()")).exception is None


HOPPING: Final = """
import subprocess, sys
program = '''
import ctypes, os, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
file = os.open("scratch/count", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
if os.fork() == 0:
    while True:
        os.write(file, b".")
        if os.fork():
            os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
'''
child = subprocess.Popen([sys.executable, "-S", "-c", program])
"""


async def test_hopping_process_is_stopped_or_reported(b: WorkerBench, tmp_path: Path) -> None:
    count = tmp_path / "scratch/count"
    assert (await b.run(HOPPING)).exception is None
    await until(lambda: count.exists() and count.stat().st_size > 20)
    for _ in range(5):
        async with b.environment.stopped() as still:
            before = count.stat().st_size
            await anyio.sleep(0.02)
            assert not still or count.stat().st_size == before


WOKEN: Final = """
import ctypes, signal, subprocess, sys
program = '''
import ctypes, fcntl, os, signal, threading, time
signal.signal(signal.SIGCONT, lambda *_: None)
if {kind!r} == "timer":
    class Event(ctypes.Structure):
        _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int)]
        _fields_ += [("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
    libc, timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
    event = Event(None, signal.SIGCONT, 0)
    assert libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 1_000_000, 0, 1_000_000), None) == 0
elif {kind!r} == "directory":
    folder = os.open("scratch", os.O_RDONLY)
    fcntl.fcntl(folder, fcntl.F_SETSIG, signal.SIGCONT)
    fcntl.fcntl(folder, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MODIFY | fcntl.DN_MULTISHOT)
else:
    if os.fork():
        if os.fork():
            while True:
                os.kill(-1, signal.SIGCONT)
    threading.Thread(target=lambda: [os.kill(os.getppid(), signal.SIGCONT) for _ in iter(int, 1)]).start()
while True:
    with open("scratch/count", "a") as file:
        file.write(".")
    time.sleep(0.0005)
'''
children = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
"""


@pytest.mark.parametrize("kind", ["timer", "directory", "storm"])
async def test_no_signal_wakes_what_stands_still(b: WorkerBench, tmp_path: Path, kind: str) -> None:
    """SIGCONT would end a SIGSTOP, and the kernel sends it to a program that has asked for it before."""
    count = tmp_path / "scratch/count"
    assert (await b.run(WOKEN.replace("{kind!r}", repr(kind)))).exception is None
    await until(lambda: count.exists() and count.stat().st_size > 20)
    for number in range(5):
        async with b.environment.stopped() as still:
            assert still
            before = count.stat().st_size
            (tmp_path / f"scratch/{number}").touch()
            await anyio.sleep(0.03)
            assert count.stat().st_size == before
        await until(lambda before=before: count.stat().st_size > before)


async def test_nothing_is_started_while_all_stand_still(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with (
        held(spec_in(tmp_path / "one")) as b,
        held(spec_in(tmp_path / "other")) as other,
        anyio.create_task_group() as tasks,
    ):
        if not is_apart(b.environment.pid):
            pytest.skip("no process namespaces here")
        made = tmp_path / "other/scratch/made"
        domain = spec_in(tmp_path / "other").domain
        async with b.environment.stopped() as still:
            assert still
            tasks.start_soon(partial(other.command, f"echo > {made}", domain=domain))
            await anyio.sleep(0.3)
            assert not made.exists()
        await until(made.exists)


async def test_acts_of_the_host_wait_while_all_stand_still(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    acted: list[str] = []
    async with held(spec_in(tmp_path / "one")) as b, held(spec_in(tmp_path / "other")) as other:

        async def act() -> None:
            async with other.environment.acting():
                acted.append("act")

        async with anyio.create_task_group() as tasks, b.environment.stopped():
            tasks.start_soon(act)
            await anyio.sleep(0.05)
            acted.append("still")
        assert acted == ["still", "act"]


SPAWNING: Final = """
import subprocess, sys
program = '''
import os, subprocess
while True:
    subprocess.run(["/bin/true"])
'''
children = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
"""


async def test_processes_that_start_programs_are_stopped_and_continue(b: WorkerBench) -> None:
    """One that waits for its child in `vfork` rests only when the child has memory of its own."""
    assert (await b.run(SPAWNING)).exception is None
    found: list[bool] = []
    for _ in range(12):
        async with b.environment.stopped() as still:
            found.append(still)
        await anyio.sleep(0.02)
    assert found.count(True) >= 11
    assert await b.value("[each.poll() for each in children]") == "[None, None, None]"


async def test_nobody_is_stopped_where_statements_have_the_users_rights(tmp_path: Path) -> None:
    async with held(replace(spec_in(tmp_path), domain=None)) as b, b.environment.stopped() as still:
        assert still
        assert await b.value("1 + 1") == "2"


async def test_what_the_kernel_allows_is_most_tasks(b: WorkerBench) -> None:
    bounds = "int(open('/proc/sys/kernel/pid_max').read()), resource.getrlimit(resource.RLIMIT_NPROC)[0]"
    found = await b.value(f"import resource; {bounds}")
    pid_max, most = map(int, found.strip("()").split(", "))
    assert pid_max == 300 + most_tasks() or 0 < most <= most_tasks()


HOST: Final = """
import os, sys
from pathlib import Path
import anyio
from tests.engine.runtime.test_worker_domain import held, spec_in
from engine.runtime.zygote import Zygote

LEAVES = '''
import os, resource, signal, time
for kind in range(1, 65):
    try:
        signal.signal(kind, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(3):
    if between := os.fork():
        try:
            os.waitpid(between, 0)
        except ChildProcessError:  # as SIGCHLD is ignored
            pass
    else:
        os.setsid()
        if os.fork():
            os._exit(0)
        try:
            resource.setrlimit(resource.RLIMIT_RTTIME, (1 << 40, 1 << 40))
        except (OSError, ValueError):  # the sandbox keeps the brand
            pass
        time.sleep(600)
        os._exit(0)
'''

async def main(folder):
    zygote = Zygote.spawn()
    async with held(spec_in(folder), zygote) as b:
        assert (await b.run(LEAVES)).exception is None
        print(os.getpid(), zygote.pid, b.environment.pid, flush=True)
        sys.stdin.readline()
        await b.run("import time; time.sleep(60)")

anyio.run(main, Path(sys.argv[1]))
"""
"""A host whose statement leaves processes that no mark, session or signal finds. It prints the ids of host, zygote and
worker, and runs another statement when it is told to."""
TARGETS: Final = {"host": (0,), "zygote": (1,), "both": (0, 1), "worker": (2,), "all": (0, 1, 2)}


@contextmanager
def host(folder: Path) -> Generator[tuple[subprocess.Popen[str], list[int]]]:
    command = [sys.executable, "-c", HOST, str(folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as started:
        assert started.stdout is not None
        try:
            yield started, [int(number) for number in started.stdout.readline().split()]
        finally:
            started.kill()


def becomes(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 10.0
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def kill(folder: Path, target: str, seconds: float) -> None:
    """Kills those processes while a statement runs; what the statement before left is gone soon."""
    with host(folder) as (started, numbers):
        if not is_apart(numbers[2]):
            pytest.skip("no process namespaces here")
        assert becomes(lambda: processes_in(folder) == 4)  # the worker, and what the statement left
        started.stdin.write("\n")
        started.stdin.flush()
        time.sleep(seconds)
        for place in TARGETS[target]:
            with suppress(ProcessLookupError):  # one may end as quickly as the one before it
                os.kill(numbers[place], signal.SIGKILL)
        assert becomes(lambda: processes_in(folder) == 0), target


@pytest.mark.parametrize(
    "target", [each if each == "all" else pytest.param(each, marks=pytest.mark.slow) for each in TARGETS]
)
def test_no_process_is_left_whoever_is_killed(tmp_path: Path, target: str) -> None:
    kill(tmp_path, target, 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100))
def test_no_process_is_left_after_a_kill_at_any_moment(tmp_path: Path, number: int) -> None:
    chance = random.Random(number)
    kill(tmp_path, chance.choice(list(TARGETS)), chance.random() * 0.3)


ASKS: Final = """
import ctypes, os, signal, sys, time
from engine.core.domain import Domain
from engine.runtime.realm import Holding
from engine.runtime.sandbox.entering import keep_only
keep_only(())  # root may ask every process
holding = Holding()
(begun, go_on), (done, tell) = os.pipe(), os.pipe()
if (pid := os.fork()) == 0:
    os.read(begun, 1)
    ctypes.CDLL(None).prctl(4, int(sys.argv[1]), 0, 0, 0)
    os.write(tell, b"1")
    time.sleep(60)
holding.begin(pid, Domain(scratch=sys.argv[2]))
os.write(go_on, b"1")
os.read(done, 1)
print(holding.sees(sys.argv[2]), holding.sees(sys.argv[2] + "/missing"))
os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.parametrize("dumpable", [0, 1])
def test_what_a_worker_sees_is_known_even_if_it_refuses_to_be_asked(tmp_path: Path, dumpable: int) -> None:
    command = [sys.executable, "-c", ASKS, str(dumpable), str(tmp_path)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout == b"True False\n"


LEFT: Final = {
    "process": ("import subprocess; p = subprocess.Popen(['sleep', '1000'])", "p.kill(); p.wait()"),
    "thread": (
        "import threading; e = threading.Event(); t = threading.Thread(target=e.wait, daemon=True); t.start()",
        "e.set(); t.join()",
    ),
    "handler": (
        "import signal; signal.signal(signal.SIGALRM, print)",
        "signal.signal(signal.SIGALRM, signal.SIG_DFL)",
    ),
}


async def test_what_a_statement_leaves_running_is_known_until_it_ends(b: WorkerBench) -> None:
    await b.run("x = 1")
    assert not b.environment.has_programs
    for name, (begin, end) in LEFT.items():
        await b.run(begin)
        assert b.environment.has_programs, name
        await b.run(end)
        await until(lambda: not b.environment.has_programs)
    b.environment.end_programs()
    await until(lambda: not b.environment.alive and not b.environment.has_programs)
