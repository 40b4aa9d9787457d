"""What a worker gives up, that its children inherit it, and that ordinary work goes on as before."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tests.support.workers import bench, shared_zygote

pytestmark = pytest.mark.anyio

READ = """
def read(pid, what):
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(1) != b""
    except OSError as error:
        return type(error).__name__
"""

ORDINARY = """
import io, os, shutil, socket, subprocess, sys, tempfile
os.makedirs("one/two"); os.makedirs("three")
io.open("one/two/file", "w").write("text")
os.rename("one/two/file", "three/file")
os.link("three/file", "one/linked"); os.symlink("three/file", "pointer")
os.rename("one/two", "three/two")
shutil.move("three/file", tempfile.mkdtemp())
os.chdir("three"); os.chdir("..")
os.mkfifo("pipe"); os.chmod("pipe", 0o600)
server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname())
near, far = socket.socketpair(); near.send(b"x"); far.recv(1)
local = socket.socket(socket.AF_UNIX); local.bind("socket"); local.listen()
socket.socket(socket.AF_UNIX).connect("socket")
child = subprocess.Popen(["sleep", "100"])
child_seen = read(child.pid, "maps")
child.send_signal(9); child.wait()
with open("/proc/self/maps") as maps: own = bool(maps.read())
moved = subprocess.run("mkdir a b && echo x > a/f && mv a/f b/f && cat b/f", shell=True, capture_output=True).stdout
[child_seen, own, moved, subprocess.run([sys.executable, "-c", "print(7 * 6)"], capture_output=True).stdout]
"""


async def test_ordinary_work_of_a_worker_goes_on_within_its_domain(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert await b.value(READ + ORDINARY) == repr([True, True, b"x\n", b"42\n"])


async def test_a_worker_and_its_children_read_neither_the_zygote_nor_the_host_nor_what_is_above(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        pids = [shared_zygote().pid, os.getpid(), os.getppid()]
        assert await b.value(f"{READ}[read(pid, 'environ') for pid in {pids}]") == repr(["PermissionError"] * 3)
        tried = f"import subprocess\nsubprocess.run('cat /proc/{pids[0]}/environ /proc/{pids[1]}/environ', shell=True)"
        outcome = await b.run(f"{tried}.returncode")
        assert (outcome.value, outcome.stdout.text) == ("1", "")


async def test_the_memory_of_a_worker_is_readable_from_outside(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert b.environment.pid is not None
        assert psutil.Process(b.environment.pid).memory_full_info().pss > 0


@pytest.mark.parametrize("user", ["root"] if os.geteuid() == 0 else [])
async def test_a_worker_of_root_and_its_children_have_lost_what_reads_memory(tmp_path: Path, user: str) -> None:
    lost = 1 << 17 | 1 << 19 | 1 << 21 | 1 << 38
    async with bench(tmp_path) as b:
        status = (await b.run("import os\nos.system('cat /proc/self/status')")).stdout.text
        sets = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Cap"))
        assert [int(sets[name], 16) & lost for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
        assert int(sets["CapEff"], 16) & 1  # the others are as before
