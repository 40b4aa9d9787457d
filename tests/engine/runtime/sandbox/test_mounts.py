"""Mounts that are added to the file tree of another process: real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.runtime.sandbox import mounts

ROOT = Path(__file__).parents[4]
SCRIPT = """
import json, os, resource, sys
from engine.runtime.sandbox import mounts

root, paths = sys.argv[1], json.loads(sys.argv[2])
is_ready, has_entered = os.pipe()
is_held, has_held = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(has_held)
    mounts.leave()
    earlier = os.open(root + "/sub", os.O_RDONLY)
    os.write(has_entered, b"x")
    os.read(is_held, 1)
    kept = []
    for path in [*paths, root + "/free"]:
        try:
            open(path, "r+").close()
        except OSError as error:
            kept.append(os.path.relpath(path, root))
    by_earlier = []
    for name in os.listdir(earlier):
        try:
            os.close(os.open(name, os.O_RDWR, dir_fd=earlier))
        except OSError as error:
            by_earlier.append("sub/" + name)
    print(json.dumps([kept, by_earlier]), flush=True)
    os._exit(0)
os.read(is_ready, 1)
holder = os.fork()
if holder == 0:
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    mounts.hold(pid, [root, root + "/free"], [*paths, root + "/free"], [])
    os._exit(0)
assert os.waitpid(holder, 0)[1] == 0
os.close(has_held)
os.waitpid(pid, 0)
"""


@pytest.mark.skipif(bool(mounts.missing()), reason="this system has no mount namespaces for this user")
def test_many_files_at_and_below_the_top_become_read_only(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    names = ["top", *(f"sub/{number}" for number in range(30))]
    for name in ("free", "sub/free", *names):
        (tmp_path / name).touch()
    paths = [str(tmp_path / name) for name in names]
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), json.dumps(paths)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.stderr == ""
    kept, by_earlier_descriptor = json.loads(run.stdout)
    assert kept == names
    assert sorted(by_earlier_descriptor) == sorted(names[1:])
    (tmp_path / "top").write_text("outside that tree")
