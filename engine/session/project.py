"""What a project brings along: its Python environment, the variables statements may see, and secrets to hide.

Reads directories and `pyvenv.cfg` only; starts no process. Must not know sessions. Called by `sessions` when one is
opened, and by `doctor`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

_OURS: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_ROOT_MARKS: Final = (".git", ".hg", ".svn")
"""A directory with one of these is the root of a workspace; no environment is looked for above it."""
_VERSION_KEYS: Final = ("version_info", "version")


class ProjectEnvironment(Struct, frozen=True, kw_only=True):
    """Absolute import paths, the Python version statements run under, `name-version` of its packages, what to say.

    `note` is one sentence for `doctor` and the first reply where the project's environment cannot be used, else "".
    """

    import_paths: tuple[str, ...] = ()
    python: str = ".".join(map(str, sys.version_info[:3]))
    packages: tuple[str, ...] = ()
    note: str = ""


def find_project_environment(cwd: str, variables: Mapping[str, str], chosen: str | None) -> ProjectEnvironment:
    """The environment that `import` in statements should find packages in.

    Args:
        cwd: absolute directory of the session.
        variables: the host's environment variables, for VIRTUAL_ENV.
        chosen: an interpreter or an environment's directory that the user named, or None. It wins over VIRTUAL_ENV,
            which wins over `.venv` in `cwd` or a parent up to the workspace's root. A VIRTUAL_ENV that is this
            program's own comes last: it says how the host was started, not what the project needs.

    Never raises for what is or is not there; `note` says it.
    """
    if chosen:
        root = _root_of(chosen, cwd)
        return _examine(root) if root else ProjectEnvironment(note=f"--python {chosen} is in no virtual environment.")
    active = Path(variables["VIRTUAL_ENV"]) if variables.get("VIRTUAL_ENV") else None
    if active is not None and str(active) != sys.prefix:
        return _examine(active)
    root = _nearest(Path(cwd)) or active
    return _examine(root) if root else ProjectEnvironment()


def _root_of(chosen: str, cwd: str) -> Path | None:
    path = Path(cwd, chosen).expanduser()
    # The interpreter itself is a link out of the environment, so the path is taken as it is written.
    for root in (path, path.parent.parent):
        if _is_file(root / "pyvenv.cfg"):
            return root.resolve()
    return None


def _nearest(cwd: Path) -> Path | None:
    for directory in (cwd, *cwd.parents):
        if _is_file(directory / ".venv" / "pyvenv.cfg"):
            return directory / ".venv"
        if any(_exists(directory / mark) for mark in _ROOT_MARKS):
            return None
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _examine(root: Path) -> ProjectEnvironment:
    version = _version(root)
    if version is None:
        return ProjectEnvironment(note=f"{root} is no virtual environment that can be read; its packages are not used.")
    if version.split(".")[:2] != _OURS.split("."):
        return ProjectEnvironment(
            note=f"{root} is for Python {version} but statements run under {_OURS}; its packages are not used."
        )
    site = root / "lib" / f"python{_OURS}" / "site-packages"
    packages = _packages(site)
    if packages is None:
        return ProjectEnvironment(note=f"{site} cannot be read; its packages are not used.")
    return ProjectEnvironment(import_paths=(str(site),), packages=packages)


def _version(root: Path) -> str | None:
    try:
        text = (root / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    values = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in text.splitlines())}
    found = next((values[key] for key in _VERSION_KEYS if values.get(key)), None)
    return found if found and re.match(r"\d+\.\d+", found) else None


def _packages(site: Path) -> tuple[str, ...] | None:
    try:
        names = [entry.name for entry in site.iterdir() if entry.suffix == ".dist-info"]
    except OSError:
        return None
    return tuple(sorted(name.removesuffix(".dist-info") for name in names))
