"""A user's git repository in a project that a session works in: it stays byte for byte as it is, and runs nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

GUARD: Final = "guarded"
"""A file in `.git`; a test that changes the repository itself removes the directory first."""
_HOSTILE: Final = """
[core]
\tfsmonitor = "touch {marker}; false"
\thooksPath = {hooks}
\tsshCommand = touch {marker}
[filter "hostile"]
\tclean = touch {marker}
\tsmudge = touch {marker}
\tprocess = touch {marker}
\trequired = true
[include]
\tpath = {hooks}/included
[diff]
\texternal = touch {marker}
"""


@contextmanager
def untouched_repository(project: Path) -> Iterator[None]:
    """Make a repository with a configuration that runs programs, and check at the end that nobody has touched it."""
    marker, hooks = project.parent / "hostile-ran", project.parent / "hooks"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    subprocess.run(["git", "-C", str(project), "add", "-A"], check=True)
    hooks.mkdir()
    (hooks / "included").write_text(f"[core]\n\tpager = touch {marker}\n")
    for name in ("pre-commit", "post-checkout", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (hooks / name).chmod(0o755)
    git = project / ".git"
    with (git / "config").open("a") as config:
        config.write(_HOSTILE.format(marker=marker, hooks=hooks))
    (git / "info" / "attributes").write_text("* filter=hostile working-tree-encoding=UTF-16 eol=crlf\n")
    (git / GUARD).touch()
    before = _digest(git)
    yield
    assert not marker.exists(), "the repository's configuration was run"
    if (git / GUARD).exists():
        assert _digest(git) == before
    shutil.rmtree(hooks)


def _digest(git: Path) -> str:
    """A digest of all that is in the directory: names, kinds, permissions, times and contents."""
    found = hashlib.sha256()
    for folder, names, files in sorted(os.walk(git)):
        for name in sorted((*names, *files)):
            path = Path(folder, name)
            state = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found.update(f"{path} {state.st_mode} {state.st_mtime_ns} {len(content)}\0".encode() + content)
    return found.hexdigest()
