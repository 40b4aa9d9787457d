"""Nothing is left behind: no process, no descriptor, whoever dies first."""

from __future__ import annotations

import ast
import ctypes
import os
import signal
import socket
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from engine.core.errors import EnvironmentUnavailableError
from engine.log.past import RestorePlan
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote
from tests.support.environments import PATIENCE, Bench, contents, ended_otherwise, spec_for, until
from tests.support.workers import bench, gone, running, shared_zygote

pytestmark = pytest.mark.anyio

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
        assert outcome.exception is not None
        assert outcome.exception.type == "WorkerDied"
        await gone(*(int(word) for word in outcome.stdout.text.split() if word.isdigit()))
        assert all(map(running, kept))


@pytest.mark.slow
async def test_a_killed_zygote_is_a_workers_death_and_a_new_one_serves_the_next_start(tmp_path: Path) -> None:
    zygote = Zygote.spawn()
    try:
        async with bench(tmp_path, zygote) as b, bench(tmp_path, zygote) as other:
            pids = [int(word) for word in (await b.run(DAEMONS)).stdout.text.split()]
            first = zygote.pid
            b.on_output = lambda: os.kill(first, signal.SIGKILL)
            outcome = await b.run("print('go')\nwhile True: pass")
            b.on_output = None
            assert outcome.exception is not None
            assert outcome.exception.type == "WorkerDied"
            assert not b.environment.alive
            await gone(*pids)
            with anyio.fail_after(PATIENCE):
                await b.environment.restore(RestorePlan(), contents, ended_otherwise)
            assert zygote.pid != first
            started = anyio.current_time()
            outcome = await other.run("1")
            assert anyio.current_time() - started < 1.5  # a sweep for the new zygote would wait for its death
            assert outcome.exception is not None
            assert "the parent of the worker died" in outcome.exception.message
            assert await b.value("1") == "1"
    finally:
        zygote.close()


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


@pytest.mark.slow
async def test_a_start_that_is_cancelled_while_the_zygote_is_busy_leaves_nothing_and_ends_no_other_worker(
    tmp_path: Path,
) -> None:
    zygote = Zygote.spawn()
    first = zygote.pid
    try:
        # As one that loads on a busy machine: it answers nobody for as long as the test wants.
        os.kill(first, signal.SIGSTOP)
        with anyio.move_on_after(0.05) as scope:
            async with bench(tmp_path, zygote):
                raise AssertionError
        assert scope.cancelled_caught
        assert zygote.alive
        os.kill(first, signal.SIGCONT)
        async with bench(tmp_path, zygote) as b:
            assert await b.value("1") == "1"
            root = psutil.Process(first)
            await until(lambda: len(root.children()) == 1)
        assert zygote.pid == first
    finally:
        zygote.close()


@pytest.mark.slow
async def test_a_zygote_that_was_killed_is_replaced_however_long_its_end_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zygote = Zygote.spawn()
    first = zygote.pid
    try:
        with monkeypatch.context() as patched:
            # The signal is on its way and the process not gone yet.
            patched.setattr(signal, "pidfd_send_signal", lambda *_: None)
            os.kill(first, signal.SIGSTOP)
            zygote.kill()
        assert not zygote.alive
        os.kill(first, signal.SIGKILL)
        async with bench(tmp_path, zygote) as b:
            assert await b.value("1") == "1"
        assert zygote.pid != first
    finally:
        zygote.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
async def test_a_zygote_that_is_stopped_or_killed_before_its_first_worker_is_replaced(
    tmp_path: Path, number: signal.Signals
) -> None:
    zygote = Zygote.spawn()
    first = zygote.pid
    try:
        os.kill(first, signal.SIGSTOP)
        environment = WorkerEnvironment(zygote)
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE):
                tasks.start_soon(environment.start, spec_for(tmp_path))
                await anyio.lowlevel.checkpoint()  # so that the request was made
                os.kill(first, number)
        assert await Bench(environment, tmp_path).value("1") == "1"
        assert zygote.pid != first
        await environment.close()
    finally:
        zygote.close()


def trace(pid: int, *requests: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for number in requests:
        assert libc.ptrace(number, pid, None, None) == 0, ctypes.get_errno()


SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17


@pytest.mark.slow
@pytest.mark.parametrize("held", [True] if os.geteuid() == 0 else [])
async def test_a_zygote_that_does_not_answer_but_is_not_stopped_keeps_the_workers_of_others(
    tmp_path: Path, held: bool
) -> None:
    zygote = Zygote.spawn()
    first = zygote.pid
    try:
        async with bench(tmp_path, zygote, grace_seconds=0.05) as b, bench(tmp_path, zygote) as other:
            await other.run("kept = 41")
            worker = b.environment.pid
            assert worker is not None
            trace(first, SEIZE, INTERRUPT)  # which is the nearest to a zygote that has no time
            with anyio.fail_after(PATIENCE):
                await b.environment.close()
            await gone(worker)
            trace(first, DETACH)
            assert await other.value("kept + 1") == "42"
            assert zygote.pid == first
    finally:
        zygote.close()


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


async def test_a_worker_holds_nothing_of_the_host(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        forbidden = (
            "{'engine', 'acp_adapter', 'anyio', 'asyncio', 'subprocess', 'pydantic', 'sqlite3', 'jsonrpcserver'}"
        )
        assert await b.value(f"import sys; sorted({forbidden} & set(sys.modules))") == "[]"
        mark = "_rewindow."
        loaded = await b.value(f"sorted(m.removeprefix('{mark}') for m in sys.modules if m.startswith('{mark}'))")
        assert ast.literal_eval(loaded or "") == LOADED


HELD = """
with open("/proc/self/smaps_rollup") as file:
    held = next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
held
"""
"""KB of memory of its own and of its parent's that a worker has before it has done anything."""


async def test_a_worker_starts_with_little_more_than_the_ranks(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert int(await b.value(HELD) or "") < MOST_HELD


MOST_HELD = 68_000
"""63 MB are usual (with Python 3.14 66), 43 of them tiktoken's encoder; what reading the ranks takes for a moment would
be 11 more."""
LOADED = [
    "context",
    "context.tail",
    "context.tail.section_parts",
    "context.tail.sections",
    "context.tail.timeline",
    "core",
    "core.clock",
    "core.diff",
    "core.domain",
    "core.encodings",
    "core.errors",
    "core.execution",
    "core.ids",
    "core.links",
    "core.mcp_servers",
    "core.plain_data",
    "core.text",
    "core.tokens",
    "core.tokens.counter",
    "core.tokens.ranks",
    "core.toolbox",
    "files",
    "files.buffers",
    "files.changes",
    "files.detail",
    "files.detail.diff",
    "files.detail.raw",
    "files.detail.scene",
    "files.detail.summary",
    "files.detail.symbols",
    "files.disk",
    "files.document",
    "files.filling",
    "files.git_configuration",
    "files.globs",
    "files.group",
    "files.group_summary",
    "files.looks",
    "files.manifest",
    "files.node",
    "files.outline",
    "files.outline.fallbacks",
    "files.outline.languages",
    "files.outline.model",
    "files.outline.parser_messages",
    "files.outlines",
    "files.overview",
    "files.paging",
    "files.protected",
    "files.rendered",
    "files.revision",
    "files.safe_open",
    "files.search",
    "files.search.globs",
    "files.search.ignore_files",
    "files.sources",
    "files.tails",
    "files.ticks",
    "files.view",
    "log",
    "log.comparison",
    "log.events",
    "log.events.base",
    "log.events.codec",
    "log.events.conversation",
    "log.events.execution",
    "log.events.going_back",
    "log.events.nodes",
    "log.events.session",
    "log.past",
    "log.statements",
    "runtime",
    "runtime.results",
    "runtime.sandbox",
    "runtime.sandbox.entering",
    "runtime.sandbox.kernel",
    "runtime.sandbox.landlock",
    "runtime.sandbox.mounts",
    "runtime.sandbox.seccomp",
    "runtime.worker",
    "runtime.worker.channel",
    "runtime.worker.contents",
    "runtime.worker.contents.forms",
    "runtime.worker.contents.instances",
    "runtime.worker.contents.walk",
    "runtime.worker.forking",
    "runtime.worker.forking.checkpoint",
    "runtime.worker.forking.child",
    "runtime.worker.forking.forked",
    "runtime.worker.forking.outlining",
    "runtime.worker.forking.realm",
    "runtime.worker.forking.zygote",
    "runtime.worker.former_names",
    "runtime.worker.framing",
    "runtime.worker.guarding",
    "runtime.worker.guarding.guard",
    "runtime.worker.guarding.origins",
    "runtime.worker.guarding.outside",
    "runtime.worker.guarding.routes",
    "runtime.worker.handles",
    "runtime.worker.handles.board",
    "runtime.worker.handles.live_nodes",
    "runtime.worker.handles.outlines",
    "runtime.worker.handles.states",
    "runtime.worker.handles.trees",
    "runtime.worker.interpreter",
    "runtime.worker.interrupts",
    "runtime.worker.keeping",
    "runtime.worker.keeping.constructors",
    "runtime.worker.keeping.keeper",
    "runtime.worker.keeping.naming",
    "runtime.worker.keeping.pickler",
    "runtime.worker.keeping.reasons",
    "runtime.worker.keeping.writing",
    "runtime.worker.names",
    "runtime.worker.names_used",
    "runtime.worker.namespace",
    "runtime.worker.processes",
    "runtime.worker.processes.brands",
    "runtime.worker.processes.ending",
    "runtime.worker.processes.memory",
    "runtime.worker.processes.program",
    "runtime.worker.processes.quiet_fork",
    "runtime.worker.processes.system",
    "runtime.worker.protocol",
    "runtime.worker.sharing",
    "runtime.worker.statements",
    "runtime.worker.statements.effects",
    "runtime.worker.statements.executor",
    "runtime.worker.statements.output",
    "runtime.worker.writes",
    "runtime.worker.writes.advice",
    "runtime.worker.writes.opening",
    "runtime.worker.writes.staging",
    "runtime.worker.writes.touching",
    "runtime.worker.writes.tree",
]
"""What zygote and worker have loaded of ours: one more module is one that every worker of every session pays for."""


async def test_a_control_channel_that_talks_nonsense_ends_its_worker_and_no_other(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for junk in (b"\xff" * 8, b"\x03\0\0\0abc"):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                shared_zygote().fork([theirs.fileno()] * 4)
                ours.sendall(junk)
                ours.settimeout(PATIENCE)
                assert b"control channel" in ours.recv(1000)
        assert await b.value("1") == "1"


async def test_what_a_cancelled_statement_started_ends_with_it_and_what_was_there_before_stays(tmp_path: Path) -> None:
    start = "subprocess.Popen(['sleep', '600'])"
    async with bench(tmp_path) as b:
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


async def test_what_a_statement_started_in_the_background_outlives_its_end(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run("import subprocess\nserver = subprocess.Popen(['sleep', '600'])")
        assert await b.value("server.poll() is None") == "True"


async def test_what_a_statement_makes_of_the_standard_library_keeps_no_file_from_landing(tmp_path: Path) -> None:
    asked: list[object] = []

    async def answer(effect: EffectRequest) -> EffectAnswer:
        asked.append(effect.arguments["text"])
        return EffectAnswer(value={})

    async with bench(tmp_path) as b:
        source = "import os\nf = open('a', 'w'); n = f.write('x')\nos.fstat = os.pread = os.getpid = None"
        assert (await b.run(source, effects=answer)).status == "ok"
        assert asked == [b"x"]
