"""The environment variables of workers and of programs: what leads them to the scratch directory, and what keeps
programs from asking, paging or running what a statement has left.

Pure. Used by `worker_connection`, `forked_program` and `host_program`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Final

from ..core.domain import Domain
from ..core.programs import CommandRequest
from ..files.safe_open import search_path
from .environment import EnvironmentSpec

_UNATTENDED: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "echo nobody is there to edit: give the text in the command, or set GIT_EDITOR=true >&2; false",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
"""So that programs do not ask, page, edit or draw: nobody sits in front of them."""
_SOURCED: Final = ("BASH_ENV", "ENV")
"""Name files that shells run before anything else."""
_IN_SCRATCH: Final = {
    "TMPDIR": (),
    "TMP": (),
    "TEMP": (),
    "PYTHONPYCACHEPREFIX": ("pycache",),
    "XDG_CACHE_HOME": ("cache",),
    "MPLCONFIGDIR": ("matplotlib",),
    "IPYTHONDIR": ("ipython",),
    "JUPYTER_RUNTIME_DIR": ("jupyter",),
    "NUMBA_CACHE_DIR": ("numba",),
    "RUFF_CACHE_DIR": ("ruff",),
    "MYPY_CACHE_DIR": ("mypy",),
    "HYPOTHESIS_STORAGE_DIRECTORY": ("hypothesis",),
    "COVERAGE_FILE": ("coverage",),
    "npm_config_cache": ("npm",),
}
"""Where programs keep what nobody misses, by the variables that say so; the others follow XDG_CACHE_HOME."""
_OF_PYTEST: Final = "PYTEST_ADDOPTS"


def worker_variables(spec: EnvironmentSpec) -> dict[str, str]:
    """Those of a worker. In a domain, caches and temporary files are in its scratch directory."""
    return {**spec.variables, **_in_scratch(spec.domain, spec.variables)}


def program_variables(spec: EnvironmentSpec, request: CommandRequest) -> dict[str, str]:
    """Those of a program. In a domain they are as a worker's; outside of one nothing is where a statement can write."""
    variables = {**spec.variables, **_in_scratch(request.domain, spec.variables)}
    kept = {name: value for name, value in variables.items() if name not in _SOURCED}
    return {**kept, **_path(kept, request.distrusted), **_UNATTENDED}


def _in_scratch(domain: Domain | None, given: Mapping[str, str]) -> Mapping[str, str]:
    if domain is None:
        return {}
    # An option is all that says where pytest keeps its cache; without one it warns, which a project may make an error.
    cache = shlex.join(("-o", f"cache_dir={os.path.join(domain.scratch, 'pytest')}"))
    return {
        **{name: os.path.join(domain.scratch, *place) for name, place in _IN_SCRATCH.items()},
        _OF_PYTEST: " ".join(filter(None, (given.get(_OF_PYTEST), cache))),
    }


def _path(variables: Mapping[str, str], distrusted: tuple[str, ...]) -> Mapping[str, str]:
    """The PATH without places in which a statement may have left a program; empty where there is none."""
    if not distrusted or "PATH" not in variables:
        return {}
    return {"PATH": search_path(variables["PATH"], distrusted)}
