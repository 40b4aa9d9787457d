"""A worker in a domain: what it says, what it holds, what is left of ordinary life around it."""

from __future__ import annotations

import os
import signal
from ast import literal_eval
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path

import anyio
import psutil
import pytest
from msgspec.structs import replace

from engine.core.domain import LAYERS, PARTS, Domain, Layer
from engine.log.past import RestorePlan
from engine.runtime.environment import EnvironmentSpec
from engine.runtime.sandbox import landlock
from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote
from tests.support.environments import PATIENCE, Bench, contents, ended_otherwise, past, refuse, spec_for, until
from tests.support.workers import gone, shared_zygote

pytestmark = pytest.mark.anyio

TRY = """
import posix, socket
def tried(act, *arguments):
    try:
        act(*arguments)
    except OSError as error:
        return error.errno
def write(path):
    posix.close(posix.open(path, posix.O_WRONLY | posix.O_CREAT))
"""


def spec_in(folder: Path, *, without: tuple[Layer, ...] = (), writable: tuple[str, ...] = ()) -> EnvironmentSpec:
    """Statements in `folder` that may write in `folder/scratch`, and `writable`."""
    (folder / "scratch").mkdir(exist_ok=True)
    return replace(spec_for(folder), domain=Domain(scratch=str(folder / "scratch"), writable=writable, without=without))


@asynccontextmanager
async def held(spec: EnvironmentSpec, zygote: Zygote | None = None) -> AsyncGenerator[Bench[WorkerEnvironment]]:
    environment = WorkerEnvironment(zygote or shared_zygote())
    try:
        with anyio.fail_after(PATIENCE):
            await environment.start(spec)
        yield Bench(environment, Path(spec.cwd))
    finally:
        with anyio.CancelScope(shield=True):
            await environment.close()


def there(without: Collection[Layer]) -> tuple[Layer, ...]:
    """The layers that a worker has, and the parts of Landlock that this kernel has, but for some."""
    later = {part for part, since in landlock.SINCE.items() if "landlock" in without or landlock.version() < since}
    every: tuple[Layer, ...] = (*LAYERS, *PARTS)
    return tuple(layer for layer in every if layer not in without and layer not in later)


@pytest.mark.parametrize("part", PARTS)
async def test_a_worker_says_which_parts_of_landlock_it_has(tmp_path: Path, part: Layer) -> None:
    async with held(spec_in(tmp_path, without=(part,))) as b:
        assert b.environment.layers == there((part,))


@pytest.mark.parametrize("without", [each for count in range(4) for each in combinations(LAYERS, count)], ids="-".join)
@pytest.mark.slow
async def test_a_worker_says_which_layers_hold_it(tmp_path: Path, without: tuple[Layer, ...]) -> None:
    async with held(spec_in(tmp_path, without=without)) as b:
        assert b.environment.layers == there(without)
        await b.run(TRY)
        assert await b.value(f"tried(write, {str(tmp_path / 'scratch/file')!r})") is None
        refused = await b.value("tried(write, 'file') is not None")
        assert refused == str(not {"landlock", "mounts"} <= set(without))
        assert await b.value("tried(socket.socket) is not None") == str("seccomp" not in without)


REACH = """
import ctypes, os, signal
def reached(pid):
    acts = {
        "signal": lambda: os.kill(pid, 0),
        "group": lambda: os.killpg(os.getpgid(pid), 0),
        "environment": lambda: open(f"/proc/{pid}/environ", "rb").read(1),
        "memory": lambda: open(f"/proc/{pid}/mem", "rb"),
        "write memory": lambda: os.open(f"/proc/{pid}/mem", os.O_WRONLY),
        "descriptors": lambda: os.listdir(f"/proc/{pid}/fd") and os.readlink(f"/proc/{pid}/fd/0"),
        "root": lambda: os.stat(f"/proc/{pid}/root/"),
        "trace": lambda: checked(ctypes.CDLL(None, use_errno=True).ptrace(0x4206, pid, 0, 0)),
        "limits": lambda: __import__("resource").prlimit(pid, 7, (64, 64)),
        "pidfd": lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0),
    }
    found = []
    for name, act in acts.items():
        try:
            act()
            found.append(name)
        except OSError:
            pass
    return found
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
"""


@pytest.mark.slow
async def test_a_worker_in_a_domain_reaches_neither_the_zygote_nor_the_host(tmp_path: Path) -> None:
    async with held(spec_in(tmp_path)) as b:
        await b.run(REACH)
        for pid in (shared_zygote().pid, os.getpid()):
            assert await b.value(f"reached({pid})") == "[]"
        assert await b.value("sorted(set(reached(os.getpid())) - {'limits'})") != "[]"


@pytest.mark.slow
async def test_a_worker_in_a_domain_has_no_descriptor_that_leads_anywhere(tmp_path: Path) -> None:
    # Without the one by which they are listed.
    source = (
        "import os; links = [f'/proc/self/fd/{name}' for name in os.listdir('/proc/self/fd')]\n"
        "[os.readlink(link) for link in links if os.path.islink(link)]"
    )
    async with held(spec_in(tmp_path)) as b:
        places = literal_eval(str(await b.value(source)))
    known = ("socket:", "pipe:", "anon_inode:", "/memfd:", "/dev/null")
    assert [place for place in places if not place.startswith(known)] == []


async def test_a_checkpoint_of_a_worker_in_a_domain_gives_workers_in_it(tmp_path: Path) -> None:
    async with held(spec_in(tmp_path)) as b:
        step = past("kept = 7")
        await b.environment.run(step.request, refuse, b.take)
        assert await b.environment.snapshot(step.request.execution_id)
        await until(lambda: bool(b.environment.checkpoints()))
        with anyio.fail_after(PATIENCE):
            restored = await b.environment.restore(RestorePlan(steps=(step,)), contents, ended_otherwise)
        assert restored.checkpoint == step.request.execution_id
        assert b.environment.layers == there(())
        await b.run(TRY)
        assert await b.value("kept, tried(write, 'file') in (13, 30)") == "(7, True)"


@pytest.mark.slow
async def test_a_worker_in_a_domain_ends_with_the_zygote_and_its_memory_is_counted(tmp_path: Path) -> None:
    zygote = Zygote.spawn()
    try:
        async with held(spec_in(tmp_path), zygote) as b:
            pid = b.environment.pid
            assert pid is not None
            assert psutil.Process(pid).memory_full_info().pss > 0
            os.kill(zygote.pid, signal.SIGKILL)
            await gone(pid)
    finally:
        zygote.close()


@pytest.mark.slow
async def test_a_program_is_held_to_its_domain_or_not_started(tmp_path: Path) -> None:
    domain = spec_in(tmp_path).domain
    assert domain is not None
    async with held(spec_for(tmp_path)) as b:
        there = await b.command("echo x > scratch/file; echo x > file; cat scratch/file", domain=domain)
        assert there.stdout.head.decode().splitlines()[-1] == "x"
        assert not (tmp_path / "file").exists()
        with pytest.raises(PermissionError, match="sandbox"):
            await b.command("true", domain=replace(domain, without=("seccomp",)))
        assert (await b.command("echo x > file")).code == 0


FILL = """
import os, posix, time
def fill(name, megabytes):
    file = posix.open(f"{SCRATCH}/{name}", posix.O_WRONLY | posix.O_CREAT)
    for _ in range(megabytes):
        posix.write(file, b"x" * (1 << 20))
    posix.close(file)
    time.sleep(60 if megabytes > 8 else 0.6)
"""


@pytest.mark.slow
async def test_a_statement_that_fills_the_scratch_directory_is_ended_and_a_later_one_may_empty_it(
    tmp_path: Path,
) -> None:
    spec = spec_in(tmp_path)
    assert spec.domain is not None
    async with held(replace(spec, domain=replace(spec.domain, scratch_bytes=16 << 20))) as b:
        fill = f"SCRATCH = {str(tmp_path / 'scratch')!r}{FILL}"
        await b.run(fill)
        assert (await b.run("fill('little', 8)")).exception is None
        outcome = await b.run("fill('much', 40)")
        assert outcome.exception is not None
        assert "filled the scratch directory beyond the 0.02 GB" in outcome.exception.message
        with anyio.fail_after(PATIENCE):
            await b.environment.restore(RestorePlan(), contents, ended_otherwise)
        await b.run(fill)
        assert (await b.run("posix.unlink(f'{SCRATCH}/little'); time.sleep(0.6)")).exception is None
        assert (await b.run("posix.unlink(f'{SCRATCH}/much'); fill('little', 8)")).exception is None
