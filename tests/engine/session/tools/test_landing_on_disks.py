"""Changes of files on real disks that are full or mounted read-only, and by a user who may not write.

Each runs in a process of its own, which mounts a small file system that nobody else sees, or becomes another user.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[3]
PRELUDE: Final = """
import json, os, resource, signal, sys
from engine.session.tools import OPERATIONS, Workspace, land
root = sys.argv[1]
workspace = Workspace(root, records=sys.argv[2])

def tried(tool, path, *arguments):
    operation = OPERATIONS[tool]
    names = [field for field in operation.arguments.__struct_fields__]
    try:
        land(workspace, operation.perform(workspace, operation.arguments(**dict(zip(names, (path, *arguments))))))
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror}"
    return "landed"

def tell(*told):
    left = {name: os.path.getsize(os.path.join(root, name)) for name in sorted(os.listdir(root))}
    print(json.dumps([told, left, os.listdir(sys.argv[2]) if os.path.exists(sys.argv[2]) else []]))
"""
FULL: Final = """
first = tried("write", "a", b"first" * 40_000)
tell(first, tried("write", "a", b"x" * 3_000_000), tried("write", "new/b", b"x" * 3_000_000),
     tried("edit", "a", "first", "longer than it was", None), tried("edit", "a", "first", "", None))
"""


def can_mount() -> bool:
    probe = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True).returncode == 0


def done(tmp_path: Path, script: str, *before: str) -> Any:
    """What a process told that ran the script in the directory `project`, after a shell command."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    inner = [sys.executable, "-c", PRELUDE + script, str(project), str(tmp_path / "records")]
    command = [*before, *inner]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def mounting(project: Path, options: str) -> list[str]:
    return ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o {options} none "{project}" && exec "$@"', "sh"]


def test_full_disk_during_a_write_keeps_the_old_file(tmp_path: Path) -> None:
    if can_mount():
        told, left, records = done(tmp_path, FULL, *mounting(tmp_path / "project", "size=700k"))
        sentence = "OSError: No space left on device; nothing was written"
    else:  # a limit on the size of files fills no disk, but ends a write in the middle as well
        limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))\n"
        told, left, records = done(tmp_path, limit + FULL)
        sentence = "OSError: File too large; nothing was written"
    assert told == ["landed", sentence, sentence, sentence, "landed"]
    assert left == {"a": 0}
    assert records == []


def test_read_only_disk_is_named_before_anybody_is_asked(tmp_path: Path) -> None:
    if not can_mount():
        return  # a directory that is not writable is refused in the same place, below
    script = "operation = OPERATIONS['write']\n" + "tell(tried('write', 'a', b'x'), tried('write', 'new/b', b'x'))"
    told, left, records = done(tmp_path, script, *mounting(tmp_path / "project", "ro"))
    assert told == ["OSError: the file system is mounted read-only"] * 2
    assert (left, records) == ({}, [])


def test_unwritable_file_or_directory_is_named(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "closed").mkdir(parents=True)
    for name in ("read-only", "closed/file"):
        (project / name).write_text("x")
        (project / name).chmod(0o666)
    (project / "read-only").chmod(0o444)
    (project / "unreadable").write_text("x")
    (project / "unreadable").chmod(0o222)
    project.chmod(0o777)
    (project / "closed").chmod(0o555)
    script = (
        "tell(*(tried('write', name, b'new') for name in ('read-only', 'closed/file', 'closed/new', 'unreadable')))"
    )
    for folder in (tmp_path, *tmp_path.parents):
        if not os.stat(folder).st_mode & 0o001:  # a directory of pytest's, which keeps other users out
            folder.chmod(0o711)
    become = "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    told, left, _ = done(tmp_path, become + script)
    closed = f"PermissionError: its directory {os.path.realpath(project)}/closed is not writable"
    assert told[:3] == ["PermissionError: the file is not writable", closed, closed]
    assert told[3].startswith("PermissionError: ")
    assert left["read-only"] == 1
