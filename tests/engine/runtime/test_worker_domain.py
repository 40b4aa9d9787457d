"""A worker in a domain: what it says and holds, and the ordinary work that goes on in it."""

from __future__ import annotations

import os
import resource
import socket
import sys
import tempfile
from ast import literal_eval
from collections.abc import AsyncGenerator, Collection
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import combinations
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.domain import LAYERS, PARTS, Domain, Layer
from engine.core.errors import EnvironmentUnavailableError
from engine.log.past import RestorePlan
from engine.runtime.environment import EnvironmentSpec
from engine.runtime.realm import MOST_BEGUN, MOST_OF_ALL, MOST_VIEWS, Holding
from engine.runtime.sandbox import landlock, mounts
from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote
from tests.support.environments import PATIENCE, Bench, contents, ended_otherwise, past, refuse, spec_for, until
from tests.support.workers import shared_zygote

TRY = """
import ctypes, os, socket
c = ctypes.CDLL(None, use_errno=True)
def tried(act, *arguments):
    try:
        act(*arguments)
    except OSError as error:
        return error.errno
def write(path):
    made = c.open(os.fsencode(path), os.O_WRONLY | os.O_CREAT, 0o600)
    if made < 0:
        raise OSError(ctypes.get_errno(), "refused")
    c.close(made)
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


def open_descriptors() -> list[str]:
    """Those of this process, without the one that lists them."""
    return [each for each in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{each}")]


async def test_directories_that_are_held_from_the_start_are_kept_open_for_the_current_worker_only(
    tmp_path: Path,
) -> None:
    places = [tmp_path / "project" / f"d{number}" / ".envrc" for number in range(MOST_BEGUN + 5)]
    for place in places:
        place.parent.mkdir(parents=True)
        place.touch()
    spec = spec_in(tmp_path, writable=(str(tmp_path / "project"),))
    assert spec.domain is not None
    spec = replace(spec, domain=replace(spec.domain, read_only=tuple(map(str, places))))

    directories = {(found.st_dev, found.st_ino) for found in (place.parent.stat() for place in places)}

    def kept() -> list[tuple[int, int]]:
        opened = [os.open(f"/proc/self/fd/{each}", os.O_PATH) for each in open_descriptors()]
        found = [os.fstat(each) for each in opened]
        for each in opened:
            os.close(each)
        return [each for state in found if (each := (state.st_dev, state.st_ino)) in directories]

    async with held(spec) as b:
        assert len(kept()) == len(set(kept())) == MOST_BEGUN
        await b.environment.start(spec)
        assert len(kept()) == MOST_BEGUN
    assert kept() == []


async def test_a_worker_with_too_many_directories_that_are_held_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    before = len(open_descriptors())
    async with held(spec_in(tmp_path, writable=(str(folder),))) as b:
        places = [folder / f"d{number}" / ".envrc" for number in range(MOST_VIEWS // 2 + 1)]
        for place in places:
            place.parent.mkdir()
            place.touch()
        await b.environment.hold([*map(str, places[:5])])
        assert len(open_descriptors()) > before + 10
        with pytest.raises(EnvironmentUnavailableError, match="too many directories"):
            await b.environment.hold([*map(str, places)])
        await b.environment.end()
    assert len(open_descriptors()) <= before + 5


async def test_all_workers_together_keep_only_part_of_the_open_files(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    folders = [tmp_path / name for name in ("one", "other")]
    async with AsyncExitStack() as stack:
        workers: list[Bench[WorkerEnvironment]] = []
        for folder in folders:
            folder.mkdir()
            workers.append(await stack.enter_async_context(held(spec_in(folder, writable=(str(folder),)))))
        places = [[folder / f"d{number}" / ".envrc" for number in range(30)] for folder in folders]
        for place in (*places[0], *places[1]):
            place.parent.mkdir()
            place.touch()
        resource.setrlimit(resource.RLIMIT_NOFILE, (90 * MOST_OF_ALL, limits[1]))
        try:
            await workers[0].environment.hold([*map(str, places[0])])
            with pytest.raises(EnvironmentUnavailableError, match="too many directories"):
                await workers[1].environment.hold([*map(str, places[1])])
            await workers[0].environment.end()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_nothing_is_mounted_for_a_process_in_the_own_file_tree(tmp_path: Path) -> None:
    place = tmp_path / ".envrc"
    place.touch()
    spec = spec_in(tmp_path, writable=(str(tmp_path),))
    assert spec.domain is not None
    with pytest.raises(EnvironmentUnavailableError, match="no file tree of its own"):
        await Holding().hold(os.getpid(), spec.domain, [str(place)])
    place.write_text("writable")


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
async def test_confined_worker_reaches_neither_zygote_nor_host(tmp_path: Path) -> None:
    async with held(spec_in(tmp_path)) as b:
        await b.run(REACH)
        for pid in (shared_zygote().pid, os.getpid()):
            assert await b.value(f"reached({pid})") == "[]"
        assert await b.value("sorted(set(reached(os.getpid())) - {'limits'})") != "[]"


@pytest.mark.slow
async def test_confined_worker_has_no_descriptor_that_leads_out(tmp_path: Path) -> None:
    # Without the one by which they are listed.
    source = (
        "import os; links = [f'/proc/self/fd/{name}' for name in os.listdir('/proc/self/fd')]\n"
        "[os.readlink(link) for link in links if os.path.islink(link)]"
    )
    async with held(spec_in(tmp_path)) as b:
        places = literal_eval(str(await b.value(source)))
    known = ("socket:", "pipe:", "anon_inode:", "/memfd:", "/dev/null")
    assert [place for place in places if not place.startswith(known)] == []


async def test_checkpoint_of_a_confined_worker_is_confined(tmp_path: Path) -> None:
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


CONNECT = """
import socket
def connects(path):
    try:
        socket.socket(socket.AF_UNIX).connect(path)
    except OSError:
        return False
    return True
"""


@pytest.mark.skipif(bool(mounts.missing()), reason="this system has no mount namespaces for this user")
async def test_sockets_that_are_made_later_are_covered_for_a_living_worker() -> None:
    # Not pytest's directory, which is too long for the path of a Unix socket in parallel runs.
    with tempfile.TemporaryDirectory(dir="/tmp") as made, ExitStack() as servers:
        place = Path(made)

        def serve(name: str) -> str:
            server = servers.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(path := str(place / name))
            server.listen()
            return path

        early = serve("early")
        async with held(spec_in(place, without=("sockets",))) as b:
            await b.run(CONNECT)
            assert await b.value(f"connects({early!r})") == "False"
            assert not b.environment.finds_sockets
            own, late = serve("scratch/own"), serve("late")
            assert await b.value(f"connects({own!r}), connects({late!r})") == "(True, True)"
            assert b.environment.finds_sockets
            await b.environment.hold(())
            assert not b.environment.finds_sockets
            os.unlink(early)
            serve("early")
            assert b.environment.finds_sockets
            await b.environment.hold(())
            assert not b.environment.finds_sockets
            connected = f"connects({own!r}), connects({late!r}), connects({early!r})"
            assert await b.value(connected) == "(True, False, False)"


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
async def test_filling_scratch_ends_the_statement_and_is_repairable(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    assert spec.domain is not None
    async with held(replace(spec, domain=replace(spec.domain, scratch_bytes=16 << 20))) as b:
        fill = f"SCRATCH = {str(tmp_path / 'scratch')!r}{FILL}"
        await b.run(fill)
        assert (await b.run("fill('little', 8)")).exception is None
        outcome = await b.run("fill('much', 40)")
        assert "filled the scratch directory beyond its limit of 0.02 GB" in outcome.exception.message
        with anyio.fail_after(PATIENCE):
            await b.environment.restore(RestorePlan(), contents, ended_otherwise)
        await b.run(fill)
        assert (await b.run("posix.unlink(f'{SCRATCH}/little'); time.sleep(0.6)")).exception is None
        assert (await b.run("posix.unlink(f'{SCRATCH}/much'); fill('little', 8)")).exception is None


MODULE = """
import multiprocessing, os
def square(number):
    return number * number
"""
POOL = """
import sys; sys.path.insert(0, SCRATCH)
import multiprocessing, squares
def pooled(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(squares.square, range(4))
"""
WORK = {
    "a lock and a queue": (
        "import multiprocessing as m; lock, queue = m.Lock(), m.Queue(); lock.acquire(); queue.put(7); queue.get()",
        "7",
    ),
    "shared memory": (
        "from multiprocessing.shared_memory import SharedMemory\n"
        "made = SharedMemory(create=True, size=8); other = SharedMemory(made.name); made.buf[0] = 7\n"
        "found = other.buf[0]; other.close(); made.close(); made.unlink(); found",
        "7",
    ),
    "asyncio with a program": (
        "import asyncio\n"
        "async def run():\n"
        "    child = await asyncio.create_subprocess_exec('echo', '7', stdout=-1)\n"
        "    return (await child.communicate())[0]\n"
        "asyncio.run(run())",
        repr(b"7\n"),
    ),
    "a terminal": (
        "import os, pty\n"
        "pid, master = pty.fork()\n"
        "if pid == 0: os.execvp('sh', ['sh', '-c', 'tty >/dev/tty && test -t 0 && echo yes'])\n"
        "found = b''\n"
        "try:\n"
        "    while chunk := os.read(master, 100): found += chunk\n"
        "except OSError: pass\n"
        "os.waitpid(pid, 0)[1], found.split()[-1]",
        repr((0, b"yes")),
    ),
    "sqlite": (
        "import sqlite3\n"
        "with sqlite3.connect(f'{SCRATCH}/base') as base:\n"
        "    _ = base.execute('pragma journal_mode=wal'); _ = base.execute('create table t(a)')\n"
        "    _ = base.execute('insert into t values(7)')\n"
        "base.execute('select a from t').fetchone()",
        repr((7,)),
    ),
    "a Unix socket": (
        "import socket\n"
        "server = socket.socket(socket.AF_UNIX); server.bind(f'{SCRATCH}/socket'); server.listen()\n"
        "client = socket.socket(socket.AF_UNIX); client.connect(f'{SCRATCH}/socket'); client.sendall(b'7')\n"
        "server.accept()[0].recv(1)",
        repr(b"7"),
    ),
    "moving files": (
        "import os, shutil\n"
        "os.makedirs(f'{SCRATCH}/one/two'); os.close(os.open(f'{SCRATCH}/one/two/file', os.O_CREAT | os.O_WRONLY))\n"
        "os.rename(f'{SCRATCH}/one/two', f'{SCRATCH}/three'); os.link(f'{SCRATCH}/three/file', f'{SCRATCH}/linked')\n"
        "os.symlink('linked', f'{SCRATCH}/pointer'); os.chmod(f'{SCRATCH}/linked', 0o600); os.mkfifo(f'{SCRATCH}/f')\n"
        "shutil.rmtree(f'{SCRATCH}/one'); sorted(os.listdir(SCRATCH))[-4:]",
        "['linked', 'pointer', 'squares.py', 'three']",
    ),
    "threads and their priorities": (
        "import os, threading\n"
        "thread = threading.Thread(target=os.nice, args=(1,)); thread.start(); thread.join()\n"
        "os.sched_setaffinity(0, os.sched_getaffinity(0)); 7",
        "7",
    ),
    "signals to its own": (
        "import signal, subprocess\nchild = subprocess.Popen(['sleep', '100']); child.send_signal(15); child.wait()",
        "-15",
    ),
    "numpy and pandas": (
        "import numpy, pandas\n"
        "pandas.DataFrame({'a': numpy.arange(3)}).to_csv(f'{SCRATCH}/table.csv', index=False)\n"
        "numpy.save(f'{SCRATCH}/array.npy', numpy.eye(2))\n"
        "int(pandas.read_csv(f'{SCRATCH}/table.csv').a.sum() + numpy.load(f'{SCRATCH}/array.npy').sum())",
        "5",
    ),
    "a device": ("open('/dev/null', 'w').write('x'), open('/dev/urandom', 'rb').read(1) != b''", "(1, True)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("work", WORK)
async def test_ordinary_work_goes_on(tmp_path: Path, work: str) -> None:
    source, value = WORK[work]
    async with held(spec_in(tmp_path)) as b:
        (tmp_path / "scratch/squares.py").write_text(MODULE)
        await b.run(f"SCRATCH = {str(tmp_path / 'scratch')!r}")
        outcome = await b.run(source)
        assert (outcome.value, outcome.exception) == (value, None)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_every_start_method_of_processes_works(method: str) -> None:
    # Not pytest's, whose directories of parallel runs are too long for the path of a Unix socket.
    with tempfile.TemporaryDirectory() as place:
        await _starts_processes(Path(place), method)


async def _starts_processes(tmp_path: Path, method: str) -> None:
    spec = spec_in(tmp_path)
    scratch = str(tmp_path / "scratch")
    async with held(replace(spec, variables={**spec.variables, "TMPDIR": scratch})) as b:
        (tmp_path / "scratch/squares.py").write_text(MODULE)
        await b.run(f"SCRATCH = {scratch!r}{POOL}")
        assert await b.value(f"pooled({method!r})") == "[0, 1, 4, 9]"


@pytest.mark.slow
async def test_a_server_on_localhost_works_with_the_network_on(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    assert spec.domain is not None
    source = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0)); client = socket.create_connection(server.getsockname())\n"
        "client.sendall(b'7'); server.accept()[0].recv(1)"
    )
    async with held(replace(spec, domain=replace(spec.domain, network=True))) as b:
        assert await b.value(source) == repr(b"7")


@pytest.mark.slow
async def test_git_commits_and_its_configuration_stays(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    assert spec.domain is not None
    place = tmp_path / "project"
    place.mkdir()
    domain = replace(
        spec.domain, writable=(str(place),), read_only=(str(place / ".git/config"), str(place / ".git/hooks"))
    )
    identity = "git -c user.name=n -c user.email=e@x"
    async with held(spec_in(tmp_path)) as b:
        made = await b.command(f"git init -q {place}")
        assert made.code == 0, made.stdout.text
        (place / "file").write_text("x")
        asked = {"cwd": str(place), "domain": domain}
        done = await b.command(f"{identity} add file && {identity} commit -qm one && git status --short", **asked)
        assert (done.code, done.stdout.text) == (0, "")
        for command in (
            "git config core.fsmonitor x",
            "echo x > .git/hooks/post-commit",
            "mv .git elsewhere",
            "rm -rf .git/hooks",
            "mv .git/hooks .git/others",
            "ln -sf x .git/config",
        ):
            assert (await b.command(command, **asked)).code != 0, command
        assert "fsmonitor" not in (place / ".git/config").read_text()
        assert not (place / ".git/hooks/post-commit").exists()


@pytest.mark.slow
async def test_project_tests_run_in_writable_and_read_only_workspaces(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    assert spec.domain is not None
    place = tmp_path / "project"
    place.mkdir()
    (place / "test_it.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'file').write_text('x')\n")
    (place / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    async with held(replace(spec, variables={**spec.variables, "TMPDIR": str(tmp_path / "scratch")})) as b:
        for writable in ((str(place),), ()):
            domain = replace(spec.domain, writable=writable)
            done = await b.command(f"{sys.executable} -m pytest -q", cwd=str(place), domain=domain)
            assert "1 passed" in done.stdout.text
            assert done.code == 0, done.stderr.text
        assert (tmp_path / "scratch" / "pytest").exists()
