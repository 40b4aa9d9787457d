"""Where this program finds its own modules, and programs that it starts by name. Imports the standard library alone.

Statements may write the working directory, those of PYTHONPATH, and those that a `.pth` file adds, such as the `src` of
a project. A module that is imported from there during a session would run outside the sandbox. Used at the start of
each command, and for the parent of the workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/snap/bin"
"""Where libraries in this program find what they start by name. A statement may have written a program into other
directories of the user's PATH, such as that of an activated environment."""
_HOME: Final = Path(__file__).resolve().parents[2]
_NEEDED: Final = (
    *("engine", "acp_adapter", "conformance", "mcp_tools", "session_page"),
    *("PIL", "anyio", "bs4", "cloudpickle", "httpcore2", "httpx2", "jsonrpcserver", "markdownify", "mcp", "msgspec"),
    *("prompt_toolkit", "pydantic", "pygments", "rich", "starlette", "tiktoken", "tree_sitter", "typer", "uvicorn"),
    *("xxhash", "yaml"),
)
"""This program's packages, and those that each installation of it needs. Not optional ones: a statement could add one
that is missing, and its directory would stay on the import path."""


def own_import_path(found: Sequence[str], given: str) -> list[str]:
    """Return the import path `found` without the directories that this program does not need. Takes some 1 ms.

    A directory that Python or an installer made stays, if PYTHONPATH (`given`) does not name it. Another one stays,
    behind these, if packages that this program needs are nowhere else. A checkout of this program stands behind the
    installed packages, because a module beside its own may be one that a statement wrote.
    """
    project = {_absolute(each) for each in ("", *given.split(os.pathsep))}
    standard = [each for each in found if _is_standard(each, project)]
    home = [each for each in found if _absolute(each) == str(_HOME) and each not in standard]
    own = [*standard, *home]
    missing = [name for name in _NEEDED if PathFinder.find_spec(name, own) is None]
    others = [each for each in found if each not in own and any(PathFinder.find_spec(name, [each]) for name in missing)]
    return [*standard, *home, *others]


def _absolute(entry: str) -> str:
    """Return an entry of the import path with its directory; as it is if the working directory was removed."""
    try:
        return os.path.abspath(entry)
    except FileNotFoundError:
        return entry


def _is_standard(entry: str, project: set[str]) -> bool:
    """Return whether Python or an installer made the directory, and nobody named it in PYTHONPATH."""
    if _absolute(entry) in project:
        return False
    prefixes = {os.path.realpath(each) for each in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    libraries = tuple(os.path.join(each, name, "") for each in prefixes for name in ("lib", "lib64"))
    real = os.path.realpath(entry)
    return real.startswith(libraries) or os.path.basename(real) in ("site-packages", "dist-packages")
