"""A session's surroundings at its first model call: date, system, git, Python and the project's packages, as a text.

Short, because each prompt has it. Packages are those that the project declares itself and has installed. Reads files;
must not know where the text goes. Called by `session.guidance`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Final, cast

from ..core.text import cut_line, legible_line, plural
from .git_state import GitState, git_state
from .project import project_root
from .safe_open import opened_file

MOST_PACKAGES: Final = 12
"""Packages that are named; the others are counted."""
NO_ENVIRONMENT: Final = "no environment of the project"
_BYTES: Final = 1 << 20
_NAME_CHARS: Final = 60
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][\w.-]*)")
_SEPARATORS: Final = re.compile(r"[-_.]+")


def surroundings(directory: str, began: float, python: str, packages: Sequence[str]) -> str:
    """Describe the surroundings of a session in lines of Markdown, about 150 tokens. Blocks.

    Args:
        directory: the session's directory, absolute.
        began: when the session began, in seconds since the epoch.
        python: the version of Python that runs statements.
        packages: `name-version` of the project's installed packages.
    """
    system = os.uname()
    lines = [
        f"At this session's first model call here, on {datetime.fromtimestamp(began).astimezone():%Y-%m-%d (%A)}:",
        f"- system: {system.sysname} {system.release} ({system.machine})",
    ]
    state = git_state(directory)
    if state is not None:
        lines.append(f"- git: {_git(state)}")
    lines.append(f"- Python {legible_line(python)}{_packages(directory, packages)}")
    return "\n".join(lines)


def _git(state: GitState) -> str:
    where = f"branch {_shown(state.branch)}" if state.branch else f"commit {_shown(state.commit)}, on no branch"
    if state.unstaged is None:
        return where
    files = f"{state.unstaged:,} tracked {plural(state.unstaged, 'file')} with unstaged changes"
    if state.is_staged is None:
        return f"{where}, {files}"
    if not state.is_staged:
        return f"{where}, {files}" if state.unstaged else f"{where}, tracked files as committed"
    return f"{where}, staged changes, {files}" if state.unstaged else f"{where}, staged changes"


def _packages(directory: str, packages: Sequence[str]) -> str:
    if not packages:
        return f", {NO_ENVIRONMENT}"
    installed = {_normal(name): (name, version) for name, _, version in (each.partition("-") for each in packages)}
    declared = dict.fromkeys(name for name in map(_normal, _declared(directory)) if name in installed)
    if not declared:
        return ""
    named = [_shown(f"{name.replace('_', '-')} {version}") for name, version in map(installed.__getitem__, declared)]
    rest = len(named) - MOST_PACKAGES
    return f" with {', '.join(named[:MOST_PACKAGES])}" + (f" and {rest:,} more declared" if rest > 0 else "")


def _shown(name: str) -> str:
    return cut_line(legible_line(name), _NAME_CHARS)


def _normal(name: str) -> str:
    """Return a package's name as indexes compare it (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def _declared(directory: str) -> Iterator[str]:
    """Yield the packages that the project names, those that it needs to run first."""
    root = project_root(directory)
    for folder in dict.fromkeys((directory, root)):
        text = _read(os.path.join(folder, "pyproject.toml"), root)
        if text:
            yield from _declared_in(text)
        yield from _names((_read(os.path.join(folder, "requirements.txt"), root)).splitlines())


def _declared_in(pyproject: str) -> Iterator[str]:
    tomllib = import_module("tomllib")  # here, because only a project's first prompt needs it
    try:
        found = cast("Mapping[str, Any]", tomllib.loads(pyproject))
    except (ValueError, RecursionError):
        return
    project, tool = _table(found, "project"), _table(found, "tool")
    poetry = _table(tool, "poetry")
    yield from _names(project.get("dependencies"))
    yield from _table(poetry, "dependencies")
    groups = (_table(project, "optional-dependencies"), _table(found, "dependency-groups"))
    for group in groups:
        for requirements in group.values():
            yield from _names(requirements)
    for group in _table(poetry, "group").values():
        if isinstance(group, Mapping):
            yield from _table(cast("Mapping[str, Any]", group), "dependencies")


def _table(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _names(requirements: object) -> Iterator[str]:
    for each in cast("list[object]", requirements) if isinstance(requirements, list) else ():
        found = _REQUIREMENT.match(each) if isinstance(each, str) else None
        if found is not None:
            yield found[1]


def _read(path: str, root: str) -> str:
    """Return the text of a file in the root; "" if there is none."""
    try:
        with opened_file(path, (os.path.realpath(root),)) as file:
            return file.read(_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ""
