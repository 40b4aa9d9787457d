"""The domain of Landlock alone, without mounts and the filter of system calls: a real process for each run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.runtime.sandbox import landlock

ROOT = Path(__file__).parents[4]
VERSION_WITH_PORTS = 4
ACTS = {
    "write": "open('file', 'r+').write('x')",
    "truncate": "os.truncate('file', 0)",
    "remove a file": "os.unlink('file')",
    "remove a directory": "os.rmdir('empty')",
    "make a file": "os.mknod('new')",
    "make a directory": "os.mkdir('made')",
    "make a link": "os.symlink('a', 'link')",
    "make a pipe": "os.mkfifo('pipe')",
    "make a socket": "socket.socket(socket.AF_UNIX).bind('socket')",
    "move a file": "os.rename('sub/moved', 'moved')",
}
DEVICES = {
    "make a character device": "os.mknod('zero', stat.S_IFCHR, os.makedev(1, 5))",
    "make a block device": "os.mknod('disk', stat.S_IFBLK, os.makedev(7, 0))",
}
PORTS = {
    "bind a port": "socket.socket().bind(('127.0.0.1', 0))",
    "connect to a port": "socket.socket().connect(('127.0.0.1', 1))",
}
SCRIPT = """
import json, os, socket, stat, sys
from engine.runtime.sandbox import landlock
from engine.runtime.system import kernel

inside, outside, acts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
before = os.listdir("/proc/self/fd")
landlock.enter([inside], network=False)
assert os.listdir("/proc/self/fd") == before
done = []
for place in (inside, outside):
    os.chdir(place)
    for name, act in acts.items():
        try:
            exec(act)
            done.append((os.path.basename(place), name))
        except PermissionError:
            pass
open("/dev/null", "w").write("x")
os.openpty()
open(outside + "/readable").read()
print(json.dumps(done))
"""


@pytest.mark.skipif(bool(landlock.missing()), reason="the kernel has no Landlock, or an old one")
def test_files_change_inside_only(tmp_path: Path) -> None:
    for side in ("inside", "outside"):
        (tmp_path / side / "empty").mkdir(parents=True)
        (tmp_path / side / "sub").mkdir()
        for name in ("file", "readable", "sub/moved"):
            (tmp_path / side / name).write_text("content")
    places = [str(tmp_path / side) for side in ("inside", "outside")]
    denied = DEVICES | (PORTS if landlock.version() >= VERSION_WITH_PORTS else {})
    command = [sys.executable, "-c", SCRIPT, *places, json.dumps(ACTS | denied)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.stderr == ""
    assert [tuple(each) for each in json.loads(run.stdout)] == [("inside", name) for name in ACTS]
