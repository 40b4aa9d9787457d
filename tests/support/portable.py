"""Runs the program on Linux as on another system: a switch for the whole interpreter.

`switch_on` makes this process, and the zygotes that it starts with all their workers, load every module that asks for
the system as another system does (`other_system`), and hides /proc from the modules of the program. The tests
themselves, and the stand-ins, see everything. `tests/conftest.py` calls it if REWINDOW_PORTABLE is set, before any test
imports the engine.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from tests.support.other_system import ASKS, as_elsewhere

VARIABLE: Final = "REWINDOW_PORTABLE"
SANDBOX_EXEC: Final = "REWINDOW_SANDBOX_EXEC"
"""Names a stand-in for `sandbox-exec` (`tests.support.seatbelt.make_program`); without it there is no sandbox."""
BOOT: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "portable_boot.py")
_SANDBOX: Final = "it is about Landlock, seccomp, mounts or process namespaces"
_PROC: Final = "it is about /proc, or a statement reads it"
_BRANDS: Final = "it is about brands, which processes inherit on Linux alone"
_ORPHANS: Final = "processes in sessions of their own are found by subreapers alone"
_COPIES: Final = "it is about copies of workers, and forks that make no signal"
_BOTH: Final = "it runs over both implementations anyway"
_MEMORY: Final = "the memory of a tree is counted with /proc"
_STAGED: Final = "not yet: the file in TMPDIR behind `open` counts as a file that the statement writes"
_UNKNOWN: Final = "not yet: it fails, and the cause is unknown"
NOT_ELSEWHERE: Final = {
    "tests/engine/files/test_pins.py": _BOTH,
    "tests/engine/files/test_safe_open.py::test_a_descriptor_is_judged_by_its_open_file": _PROC,
    "tests/engine/files/test_safe_open.py::test_procfs_is_refused_by_its_type": _PROC,
    "tests/engine/runtime/sandbox": _SANDBOX,
    "tests/engine/runtime/system": _BOTH,
    "tests/engine/runtime/test_checkpoint_hindrances.py": _COPIES,
    "tests/engine/runtime/test_checkpoints.py": _COPIES,
    "tests/engine/runtime/test_contract_checkpoints.py": _COPIES,
    "tests/engine/runtime/test_contract_writes.py::test_a_replay_takes_the_recorded_answer": _STAGED,
    "tests/engine/runtime/test_contract_writes.py::test_each_way_to_write_is_noticed": _STAGED,
    "tests/engine/runtime/test_contract_writes.py::test_host_writes_are_acts_but_not_noticed": _STAGED,
    "tests/engine/runtime/test_ending.py": _ORPHANS,
    "tests/engine/runtime/test_realms.py": _SANDBOX,
    "tests/engine/runtime/test_worker_commands.py": _UNKNOWN,
    "tests/engine/runtime/test_worker_deaths.py::test_a_statement_whose_processes_hold_too_much_memory": _MEMORY,
    "tests/engine/runtime/test_worker_domain.py": _SANDBOX,
    "tests/engine/runtime/test_worker_environment.py::test_a_projects_own_engine_package": "its name is that of ours",
    "tests/engine/runtime/test_worker_environment.py::test_ordinary_work_of_a_worker": _SANDBOX,
    "tests/engine/runtime/test_worker_environment.py::test_the_environment_is_the_specs": _PROC,
    "tests/engine/runtime/test_worker_environment.py::test_worker_and_children_cannot_read": _SANDBOX,
    "tests/engine/runtime/test_worker_environment.py::test_worker_of_root_has_lost": _SANDBOX,
    "tests/engine/runtime/test_worker_keeping.py::test_a_statement_that_closes_all_descriptors": _COPIES,
    "tests/engine/runtime/test_worker_keeping.py::test_code_that_breaks_its_process": _COPIES,
    "tests/engine/runtime/test_worker_keeping.py::test_statement_waits_for_its_own_children_alone": _COPIES,
    "tests/engine/runtime/test_worker_processes.py": _ORPHANS,
    "tests/engine/runtime/worker/test_processes.py": _BRANDS,
    "tests/engine/runtime/worker/test_opening.py::test_later_writes_of_a_program": _PROC,
    "tests/engine/session/test_editing.py::test_different_write_is_stopped": _STAGED,
    "tests/engine/session/test_editing.py::test_reopened_files_and_repeated_writes": _STAGED,
    "tests/engine/session/test_kept_values.py": _COPIES,
    "tests/engine/session/test_model_choice.py::test_statements_of_a_chosen_model_are_sandboxed": _SANDBOX,
    "tests/engine/session/test_own_writes.py": _STAGED,
}
"""Tests that do not hold on another system, by the beginnings of their names, each with the reason."""
_PACKAGES: Final = ("engine", "_rewindow")
_HIDDEN: Final = "/proc"
_HIDING: Final = ("open", "listdir", "readlink", "stat", "lstat", "scandir", "access", "chmod")
"""The functions of `os` that find nothing in /proc."""


def switch_on() -> None:
    """Load the program's modules as another system does, from now on. Once in a process."""
    loaded = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
    assert not loaded, f"loaded before the switch: {loaded}"
    sys.meta_path.insert(0, _Finder())
    for name in _HIDING:
        setattr(os, name, _hidden(getattr(os, name)))
    builtins.open = io.open = _hidden(builtins.open)


def reason(test: str) -> str:
    """Why a test does not hold on another system; empty if it does."""
    return next((why for name, why in NOT_ELSEWHERE.items() if test.startswith(name)), "")


def _start_elsewhere(zygote: Any) -> None:
    zygote._BOOT = BOOT
    zygote.KEPT_VARIABLES = (*zygote.KEPT_VARIABLES, SANDBOX_EXEC)


def _use_program(seatbelt: Any) -> None:
    seatbelt.PROGRAM = os.environ.get(SANDBOX_EXEC, seatbelt.PROGRAM)


_CHANGED: Final[dict[str, Callable[[Any], None]]] = {
    "engine.runtime.zygote": _start_elsewhere,
    "engine.runtime.sandbox.seatbelt": _use_program,
}
"""Modules that are changed after they were executed, and how."""


class _Finder(MetaPathFinder):
    """Finds the modules that ask for the system, and those that are changed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        name = f"engine.{rest}"
        if package not in _PACKAGES or name not in (*ASKS, *_CHANGED):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.loader is not None
        spec.loader = _Elsewhere(spec.loader, _CHANGED.get(name))
        return spec


class _Elsewhere(Loader):
    def __init__(self, loader: Loader, change: Callable[[Any], None] | None) -> None:
        self._loader = loader
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if self._change is not None:
            self._loader.exec_module(module)
            self._change(module)
            return
        with as_elsewhere():
            self._loader.exec_module(module)


def _hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which tells modules of the program that there is no /proc."""

    def call(path: Any = ".", *arguments: Any, **more: Any) -> Any:
        if _is_hidden(path) and sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *arguments, **more)

    call.__name__ = function.__name__
    return call


def _is_hidden(path: Any) -> bool:
    if not isinstance(path, str | bytes):
        return False
    text = os.fsdecode(path)
    return text == _HIDDEN or text.startswith(f"{_HIDDEN}/")
