"""A copy of the tree on disk, with an environment of its own, where mutants are tried one after another.

Every process that a test starts imports the copy: programs, zygotes and workers too. Processes that a mutant leaves
behind are found because the process that tries mutants is the subreaper of all that it starts.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import psutil

Ending = Literal["passed", "failed", "timed out"]

_PYTEST: Final = ("-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line")
_OPTION_SUBREAPER: Final = 36
_KEPT_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "TERM")


class Tree:
    """A copy at `path` of the tree at `root`."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path
        for name in _files(root):
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target, follow_symlinks=False)
        _copy_environment(Path(sys.prefix), path / ".venv", path)
        self._time = int(time.time())

    def write(self, module: str, source: bytes) -> None:
        """Write a module with a new time, in seconds: compiled files are compared by it and by the size alone."""
        self._time += 2
        (self.path / module).write_bytes(source)
        os.utime(self.path / module, (self._time, self._time))

    def run(
        self, tests: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None
    ) -> tuple[Ending, float]:
        """Run tests until one fails, in a fresh home and with fresh temporary files.

        With `variables` for the recording, run all of them and record. Return also how many seconds that took.
        """
        # Made in /tmp, because the path of a socket is short.
        with tempfile.TemporaryDirectory(prefix="m", ignore_cleanup_errors=True) as home:
            Path(home).chmod(0o755)  # because some tests of root use files as another user
            chosen = Path(home) / "tests"
            chosen.write_text("\n".join(tests), "utf-8")
            kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
            environment = {**kept, "HOME": home, "TMPDIR": home, **(variables or {})}
            mode = ("-p", "tests.mutants.recording") if variables else ("-x",)
            command = [str(self.path / ".venv/bin/python"), *_PYTEST, *mode, f"@{chosen}"]
            with (self.path / "output.txt").open("wb") as output:
                begun = time.monotonic()
                process = subprocess.Popen(
                    command, cwd=self.path, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
                try:
                    code = process.wait(seconds)
                except subprocess.TimeoutExpired:
                    return "timed out", time.monotonic() - begun
                finally:
                    _end_all()
        return "passed" if code == 0 else "failed", time.monotonic() - begun

    @property
    def output(self) -> str:
        """The output of the last run."""
        return (self.path / "output.txt").read_text("utf-8", "replace")


def adopt_orphans() -> None:
    """Become the parent of all processes whose parent ends, so that `run` can end them."""
    ctypes.CDLL(None, use_errno=True).prctl(_OPTION_SUBREAPER, 1, 0, 0, 0)


def _files(root: Path) -> list[str]:
    """Return the files of the tree, also those that are not committed yet."""
    listing = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, check=True, capture_output=True).stdout.decode().split("\0")
    return [name for name in names if name and (root / name).is_file()]


def _copy_environment(source: Path, target: Path, root: Path) -> None:
    """Make an environment with the same packages, by links, where the project is the copy.

    Its programs name the copy's interpreter. Workers get the import path of their parent, which has the copy's paths.
    """
    packages = Path(*next((source / "lib").glob("python*")).parts[-2:]) / "site-packages"
    (target / packages).mkdir(parents=True)
    shutil.copy2(source / "pyvenv.cfg", target)
    for entry in (source / packages).iterdir():
        if not entry.name.startswith("_editable_impl_"):
            (target / packages / entry.name).symlink_to(entry)
    (target / packages / "_copy.pth").write_text(f"{root}\n", "utf-8")
    (target / "bin").mkdir()
    for program in (source / "bin").iterdir():
        copy = target / "bin" / program.name
        content = b"" if program.is_symlink() or program.stat().st_size > 1 << 16 else program.read_bytes()
        if content.startswith(b"#!" + os.fsencode(source)):
            copy.write_bytes(content.replace(os.fsencode(source), os.fsencode(target)))
            copy.chmod(0o755)
        else:
            copy.symlink_to(program.readlink() if program.is_symlink() else program)


def _end_all() -> None:
    """Kill every process below this one, until none is left."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGKILL)
        psutil.wait_procs(children, timeout=5)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
