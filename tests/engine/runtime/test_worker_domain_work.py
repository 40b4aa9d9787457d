"""Ordinary work within a domain: what needs processes, terminals, locks, files and sockets of its own."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.engine.runtime.test_worker_domain import held, spec_in

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

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


@pytest.mark.parametrize("work", WORK)
async def test_ordinary_work_goes_on(tmp_path: Path, work: str) -> None:
    source, value = WORK[work]
    async with held(spec_in(tmp_path)) as b:
        (tmp_path / "scratch/squares.py").write_text(MODULE)
        await b.run(f"SCRATCH = {str(tmp_path / 'scratch')!r}")
        outcome = await b.run(source)
        assert (outcome.value, outcome.exception) == (value, None)


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


async def test_git_commits_in_a_workspace_and_neither_its_configuration_nor_its_hooks_change(tmp_path: Path) -> None:
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


async def test_the_tests_of_a_project_run_in_a_workspace_and_in_one_that_is_not_theirs_to_write(tmp_path: Path) -> None:
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
