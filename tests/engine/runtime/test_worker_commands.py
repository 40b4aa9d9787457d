"""Programs below the zygote: all of them ends with them, whoever dies, and nothing of a statement's reaches them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from engine.runtime.system.brands import brand_of
from tests.support.environments import until
from tests.support.workers import WorkerBench, bench, processes_in, running, shared_zygote

LEAVES = """
sleep 600 &
setsid sleep 600 &
setsid setsid env -i sleep 600 < /dev/null > /dev/null 2>&1 &
(trap '' TERM INT HUP QUIT; setsid bash -c 'sleep 600; sleep 600' & )
(cd / && setsid -f sleep 0)
sleep 0.1
touch left
"""
"""Leaves processes in its group and out of it, in sessions of their own, deaf ones, and orphans."""
WAITS = "while :; do sleep 0.1; done"
CHAIN = "while True:\n    if os.fork(): os._exit(0)"
CHAINS = f"{sys.executable} -S -c 'import os\nos.setsid()\n[os.fork() for _ in range(2)]\n{CHAIN}' & "
"""Four lines of processes of which each starts the next and ends at once."""


async def test_what_left_a_program_ends_with_it(b: WorkerBench, tmp_path: Path) -> None:
    assert (await b.command(LEAVES)).code == 0
    # The worker alone is left; what was killed may need a moment to be gone.
    await until(lambda: processes_in(tmp_path) == 1)


async def test_daemons_run_as_long_as_their_program(tmp_path: Path) -> None:
    async with bench(tmp_path) as b, anyio.create_task_group() as tasks:
        tasks.start_soon(b.command, "(setsid sleep 600 & echo $! > daemon); touch left; " + WAITS)
        await until((tmp_path / "left").exists)
        # Another's end has the zygote look for orphans.
        await b.command("true")
        assert running(int((tmp_path / "daemon").read_text()))
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["time", "cancel", "close"])
async def test_daemons_end_with_their_program_however_it_ends(tmp_path: Path, how: str) -> None:
    async with bench(tmp_path) as b, anyio.create_task_group() as tasks:
        if how == "time":
            assert (await b.command(LEAVES + WAITS, seconds=0.3)).timed_out
        else:
            tasks.start_soon(b.command, LEAVES + WAITS)
            await until((tmp_path / "left").exists)
            if how == "cancel":
                tasks.cancel_scope.cancel()
            else:
                await b.environment.close()
        with anyio.CancelScope(shield=True):
            await until(lambda: processes_in(tmp_path) == (how != "close"))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize(
    "end", ["touch left", f"touch left; {WAITS}", f"touch left; sleep 0.5; kill -9 $PPID; {WAITS}"]
)
async def test_a_program_that_forks_on_is_ended_whole(b: WorkerBench, tmp_path: Path, end: str, number: int) -> None:
    outcome = await b.command(CHAINS + end, seconds=1.0)
    assert outcome.timed_out or outcome.code == 0 or outcome.reason
    await until(lambda: processes_in(tmp_path) == 1)
    assert (await b.command("echo on")).stdout.head == b"on\n"


@pytest.mark.slow
async def test_program_that_kills_its_keeper_is_ended_and_reported(b: WorkerBench, tmp_path: Path) -> None:
    outcome = await b.command(f"sleep 0.1; kill -9 $PPID; {WAITS}")
    assert (outcome.code, outcome.signal) == (None, None)
    assert outcome.reason == "the program was killed by SIGKILL (Killed)"
    await until(lambda: processes_in(tmp_path) == 1)


@pytest.mark.slow
async def test_a_program_whose_processes_hold_too_much_memory_is_ended(tmp_path: Path) -> None:
    size = "400 << 20"
    fill = f"import mmap, time; kept = mmap.mmap(-1, {size}); [kept.write(bytes(4096)) for _ in range({size} >> 12)]"
    async with bench(tmp_path, data_bytes=300 << 20) as b:
        await b.run("kept = 1")
        outcome = await b.command(f"{sys.executable} -S -c '{fill}; time.sleep(60)'")
        assert (outcome.code, outcome.signal, outcome.timed_out) == (None, None, False)
        assert outcome.reason.startswith("the program and its processes used 0.")
        assert "GB of memory, more than the limit of 0.31 GB" in outcome.reason
        assert await b.value("kept") == "1"


async def test_program_has_our_limits_and_no_host_descriptors(tmp_path: Path) -> None:
    async with bench(tmp_path, open_files=200, data_bytes=1 << 30) as b:
        outcome = await b.command(
            "ulimit -n; ulimit -c; ulimit -d; ls /proc/self/fd | wc -l; ps -o sid= -p $$; echo $$"
        )
        files, cores, data, open_now, session, pid = outcome.stdout.head.split()
        # 0, 1, 2, and the directory that is listed.
        assert (files, cores, data, open_now) == (b"200", b"0", b"%d" % (1 << 20), b"4")
        assert session == pid
        # Its keeper has 0, 1, 2 and the socket on which it reports, once it has given the pipes away.
        assert (await b.command("until test $(ls /proc/$PPID/fd | wc -l) = 4; do sleep 0.01; done")).code == 0

        seen: list[bool] = []

        def look() -> None:
            seen.append(brand_of(int(b.output[-1][1])) == shared_zygote().brand)
            (tmp_path / "seen").touch()

        b.on_output = look
        await b.command("echo $$; until test -e seen; do sleep 0.01; done")
        assert seen == [True]


PLANT = """
import io, os, stat, sys
for name in ("git", "python", "ls"):
    with io.open(name, "w") as file: file.write("#!/bin/sh\\necho planted\\n")
    os.chmod(name, 0o755)
with io.open("rc", "w") as file: file.write("echo planted; ls() { echo planted; }\\n")
here = os.getcwd()
os.environ.update(PATH=here, BASH_ENV="rc", ENV="rc", PYTHONSTARTUP="rc", PYTHONPATH=here, LD_PRELOAD="rc")
os.environ["BASH_FUNC_ls%%"] = "() { echo planted; }"
os.environ["EDITOR"] = "planted"
for name in (".bashrc", ".profile", ".bash_profile", ".bash_login"): os.symlink("rc", name)
os.umask(0o777); os.chdir("/"); sys.path[:] = []
import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); os.nice(5)
"""


async def test_nothing_that_a_statement_planted_reaches_a_program(b: WorkerBench) -> None:
    look = "env | sort; pwd; umask; type ls; ulimit -n; grep -E 'Sig(Blk|Ign)' /proc/self/status; nice"
    before = (await b.command(look)).stdout.head
    outcome = await b.run(PLANT)
    assert outcome.exception is None
    after = (await b.command(look)).stdout.head
    assert before == after
    assert b"planted" not in after
    masks = dict(line.split(b":\t") for line in after.splitlines() if line.startswith(b"Sig"))
    assert int(masks[b"SigBlk"], 16) == 0
    assert int(masks[b"SigIgn"], 16) & 0x7FFFFFFF == 0  # the C library keeps two beyond these


async def test_a_program_reads_no_environment_of_ours_and_none_above(b: WorkerBench) -> None:
    pids = [shared_zygote().pid, os.getpid(), os.getppid()]
    outcome = await b.command(f"cat {' '.join(f'/proc/{pid}/environ' for pid in pids)} 2>/dev/null | wc -c")
    assert outcome.stdout.head == b"0\n"
    # The keeper, which is in the domain of its program, was forked from a process that holds no key.
    keeper = (await b.command("cat /proc/$PPID/environ | tr '\\0' '\\n'")).stdout.head
    assert {line.split(b"=")[0] for line in keeper.splitlines()} <= {
        b"PYTHONHASHSEED",
        b"GLIBC_TUNABLES",
        b"LD_LIBRARY_PATH",
    }


async def test_programs_give_every_descriptor_and_process_back(b: WorkerBench) -> None:
    await b.command("true")
    root = psutil.Process(shared_zygote().pid)
    ours, theirs = len(os.listdir("/proc/self/fd")), root.num_fds()
    children = len(root.children(recursive=True))
    for command in ("true", "exit 3", "kill -9 $$", "yes | head -c 3000000"):
        await b.command(command)
    with pytest.raises(FileNotFoundError):
        await b.command("/none", "x")
    # At the beginning what earlier tests had may not have been given back yet, so it may be less now.
    await until(lambda: len(os.listdir("/proc/self/fd")) <= ours and root.num_fds() <= theirs)
    await until(lambda: len(root.children(recursive=True)) <= children)
