"""Nothing is left behind: no process, no descriptor, whoever dies first."""

from __future__ import annotations

import ast
import os
import signal
import socket
import sys
from pathlib import Path
from pkgutil import iter_modules

import anyio
import psutil
import pytest

from engine.core.errors import EnvironmentUnavailableError
from engine.files import detail
from engine.log.past import RestorePlan
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime.zygote import Zygote
from tests.support.environments import PATIENCE, contents, ended_otherwise, until
from tests.support.workers import WorkerBench, bench, gone, running, shared_zygote

DAEMONS = """
import os, subprocess, time
pids = [subprocess.Popen(["sleep", "1000"]).pid for _ in range(2)]
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(w, str(os.getpid()).encode())
        os.closerange(0, 1 << 16)
        time.sleep(1000)
    os._exit(0)
os.wait()
pids.append(int(os.read(r, 20)))
print(*pids, flush=True)
"""


async def test_close_ends_children_and_daemons(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pids = [int(word) for word in (await b.run(DAEMONS)).stdout.text.split()]
        assert len(pids) == 3
        assert all(map(running, pids))
        worker = b.environment.pid
        assert worker is not None
    await gone(worker, *pids)


STUBBORN = """
try:
    print("now", flush=True)
    sum(range(10**12))
except KeyboardInterrupt:
    sum(range(10**12))
"""
"""Loops in C when the interrupt has come, wherever it came."""


@pytest.mark.parametrize("end", ["os._exit(3)", "import ctypes; ctypes.string_at(0)", STUBBORN])
async def test_a_workers_death_ends_its_children_and_daemons(tmp_path: Path, end: str) -> None:
    async with bench(tmp_path, grace_seconds=0.05) as a, bench(tmp_path) as b:
        kept = [int(word) for word in (await b.run(DAEMONS)).stdout.text.split()]
        a.on_output = lambda: a.environment.interrupt() if "now" in str(a.output) else None
        outcome = await a.run(DAEMONS + end)
        assert outcome.exception.type == "WorkerDied"
        await gone(*(int(word) for word in outcome.stdout.text.split() if word.isdigit()))
        assert all(map(running, kept))


HOST = """
import os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
import anyio
from engine.runtime.zygote import Zygote
from tests.support.workers import bench
zygote = Zygote.spawn()
async def main():
    async with bench(Path({cwd!r}), zygote) as b:
        outcome = await b.run({source!r})
        print(zygote.pid, b.environment.pid, outcome.stdout.text, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
async def test_a_host_that_goes_takes_everything_with_it(tmp_path: Path, number: signal.Signals) -> None:
    script = HOST.format(root=str(Path(__file__).parents[3]), cwd=str(tmp_path), source=DAEMONS)
    with anyio.fail_after(PATIENCE):
        async with await anyio.open_process([sys.executable, "-c", script], stderr=None) as host:
            assert host.stdout is not None
            said = b""
            while said.count(b"\n") < 1:
                said += await host.stdout.receive()
            pids = [int(word) for word in said.split()]
            assert len(pids) == 5
            assert all(map(running, pids))
            host.send_signal(number)
            await host.wait()
            await gone(*pids)


async def test_closing_gives_every_descriptor_and_process_back(tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    zygote = Zygote.spawn()
    try:
        for _ in range(2):
            async with bench(tmp_path, zygote) as b:
                await b.run("x = 1")
                await b.environment.restore(RestorePlan(), contents, ended_otherwise)
                await b.run("import os; os._exit(1)")
            with pytest.raises(EnvironmentUnavailableError):
                await b.environment.restore(RestorePlan(), contents, ended_otherwise)
            await b.environment.close()
    finally:
        zygote.close()
        zygote.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= children


async def test_a_zygote_that_cannot_start_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(EnvironmentUnavailableError):
        Zygote.spawn()


async def test_a_zygote_that_dies_at_once_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    zygote = Zygote.spawn()
    try:
        with pytest.raises(EnvironmentUnavailableError):
            async with bench(tmp_path, zygote):
                raise AssertionError
    finally:
        zygote.close()


async def test_spawning_needs_neither_subprocess_nor_the_async_library(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "import engine.runtime.zygote\n"
        "print(sorted({'subprocess', 'anyio', 'asyncio', 'msgspec', 'pydantic', 'ctypes'} & set(sys.modules)))"
    )
    with anyio.fail_after(PATIENCE):
        done = await anyio.run_process([sys.executable, "-S", "-c", script], cwd=tmp_path)
    assert done.stdout == b"[]\n"


async def test_a_worker_holds_nothing_of_the_host(b: WorkerBench) -> None:
    forbidden = "{'engine', 'acp_adapter', 'anyio', 'asyncio', 'subprocess', 'pydantic', 'sqlite3', 'jsonrpcserver'}"
    assert await b.value(f"import sys; sorted({forbidden} & set(sys.modules))") == "[]"
    mark = "_rewindow."
    loaded = await b.value(f"sorted(m.removeprefix('{mark}') for m in sys.modules if m.startswith('{mark}'))")
    packages = {f"{package}.{name}" for package, names in LOADED.items() for name in names.split()}
    assert ast.literal_eval(loaded or "") == sorted({*LOADED, *packages})


HELD = """
with open("/proc/self/smaps_rollup") as file:
    held = next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
held
"""
"""KB of memory of its own and of its parent's that a worker has before it has done anything."""


async def test_a_worker_starts_with_little_more_than_the_ranks(b: WorkerBench) -> None:
    assert int(await b.value(HELD) or "") < MOST_HELD


MOST_HELD = 68_000
"""63 MB are usual (with Python 3.14 66), 43 of them tiktoken's encoder; what reading the ranks takes for a moment would
be 11 more."""
LOADED = {
    "context": "",
    "context.tail": "section_parts sections timeline",
    "core": "clock diff domain durable encodings errors execution ids levels libpq_files links mcp_servers pictures "
    "plain_data python_source store_address text toolbox",
    "core.tokens": "counter ranks",
    "files": (
        "buffers changes disk document filling git_configuration globs group group_summary installation looks "
        "manifest node outlines overview paging pins protected protected_names rendered revision safe_open shell_words "
        "sources spellings tails ticks view"
    ),
    "files.detail": " ".join(sorted(module.name for module in iter_modules(detail.__path__))),
    "files.outline": "fallbacks languages model parser_messages",
    "files.search": "globs ignore_files",
    "log": "comparison past statements",
    "log.events": "base codec conversation execution going_back nodes session",
    "runtime": "results",
    "runtime.sandbox": "entering landlock mounts seatbelt seccomp sockets",
    "runtime.system": "brands descriptors kernel own_process passing process_table processes quiet_fork waiting",
    "runtime.worker": (
        "boot channel former_names framing interpreter interrupts names names_used namespace protocol sharing"
    ),
    "runtime.worker.contents": "forms instances walk",
    "runtime.worker.forking": "checkpoint child forked outlining realm zygote",
    "runtime.worker.guarding": "guard origins outside routes",
    "runtime.worker.handles": "board live_nodes outlines states trees",
    "runtime.worker.keeping": "constructors naming pickler reasons value_keeper writing",
    "runtime.worker.processes": "ending memory program",
    "runtime.worker.statements": "effects executor output rich",
    "runtime.worker.writes": "advice opening staging touching tree",
}
"""Packages with the modules that zygote and worker have loaded: every worker of every session pays for one more."""


async def test_nonsense_on_the_control_channel_ends_one_worker(b: WorkerBench) -> None:
    for junk in (b"\xff" * 8, b"\x03\0\0\0abc"):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            shared_zygote().fork([theirs.fileno()] * 4)
            ours.sendall(junk)
            ours.settimeout(PATIENCE)
            assert b"control channel" in ours.recv(1000)
    assert await b.value("1") == "1"


async def test_cancelled_statement_ends_what_it_started_alone(b: WorkerBench) -> None:
    start = "subprocess.Popen(['sleep', '600'])"
    await b.run(f"import subprocess\nserver = {start}")
    b.on_output = b.environment.interrupt
    more = "more = subprocess.Popen('sleep 600 & sleep 600', shell=True, start_new_session=True)"
    outcome = await b.run(f"child = {start}\n{more}\nprint('go', flush=True)\nwhile True: pass")
    b.on_output = None
    assert outcome.status == "cancelled"
    assert b.environment.pid is not None
    worker = psutil.Process(b.environment.pid)
    await until(lambda: sum(running(each.pid) for each in worker.children(recursive=True)) == 1)
    assert await b.value("server.poll() is None") == "True"
    assert await b.value("child.wait()") == "-9"


async def test_replaced_library_functions_do_not_prevent_writes(b: WorkerBench) -> None:
    asked: list[object] = []

    async def answer(effect: EffectRequest) -> EffectAnswer:
        asked.append(effect.arguments["text"])
        return EffectAnswer(value={})

    source = "import os\nf = open('a', 'w'); n = f.write('x')\nos.fstat = os.pread = os.getpid = None"
    assert (await b.run(source, effects=answer)).status == "ok"
    assert asked == [b"x"]
