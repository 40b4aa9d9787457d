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
from contextlib import nullcontext
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from tests.support.other_system import ASKS, LINUX_ONLY, as_elsewhere, is_linux_only

VARIABLE: Final = "REWINDOW_PORTABLE"
SANDBOX_EXEC: Final = "REWINDOW_SANDBOX_EXEC"
"""Names a stand-in for `sandbox-exec` (`tests.support.seatbelt.make_program`); without it there is no sandbox."""
SPAWNING: Final = "spawn"
"""The value with which workers are spawned, as on another system. With others they are forked, which is faster."""
BOOT: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "portable_boot.py")
_START: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "portable_start")
_OF_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(BOOT))), "engine", "files", "pins.py")
_SANDBOX: Final = "it is about Landlock, seccomp, mounts or process namespaces"
_ASKED: Final = "a model's statement asks first, and has a card of its own, where there is no sandbox"
_PROC: Final = "it is about /proc, or a statement reads it"
_BRANDS: Final = "it is about brands, which processes inherit on Linux alone"
_ORPHANS: Final = "processes in sessions of their own are found by subreapers alone"
_COPIES: Final = "it is about copies of workers, and forks that make no signal"
_BOTH: Final = "it runs over both implementations anyway"
_CAPABILITIES: Final = "as root it gives up capabilities, which Linux alone has"
_SCHEDULERS: Final = "statements choose processors or a scheduler"
_BOUND: Final = "it replaces a function of `os` that the other implementation has its own copy of"
_MEMORY: Final = "the memory of a tree is counted with /proc"
NOT_ELSEWHERE: Final = {
    "tests/engine/files/test_pins.py": _BOTH,
    "tests/e2e/test_cards.py::test_deletion_and_rename": _ASKED,
    "tests/e2e/test_cards.py::test_error_that_is_caught": _ASKED,
    "tests/e2e/test_cards.py::test_rejected": _ASKED,
    "tests/e2e/test_cards.py::test_sandbox_is_told": _SANDBOX,
    "tests/e2e/test_cards.py::test_statement_of_several_acts": _ASKED,
    "tests/e2e/test_cards.py::test_statement_that_is_one_act": _ASKED,
    "tests/e2e/test_changed_files.py::test_git_works_in_the_sandbox": _SANDBOX,
    "tests/e2e/test_plans.py::test_plan_is_told_as_a_whole": _ASKED,
    "tests/e2e/test_plans.py::test_terminal_shows_the_plan": _ASKED,
    "tests/e2e/test_process_secrets.py": _PROC,
    "tests/e2e/test_searches.py::test_a_sandboxed_statement": _SANDBOX,
    "tests/e2e/test_whole_task.py": _ASKED,
    "tests/engine/cli/test_doctor.py::test_missing_sandbox_layer": _SANDBOX,
    "tests/engine/cli/test_doctor.py::test_the_memory_for_checkpoints": _COPIES,
    "tests/engine/cli/test_doctor.py::test_stored_keys_are_named": _BRANDS,
    "tests/engine/files/test_protected.py::test_a_directory_that_may_not_be_listed": _CAPABILITIES,
    "tests/engine/files/test_protected.py::test_a_part_of_a_repository_that_its_owner": _CAPABILITIES,
    "tests/engine/files/test_safe_open.py::test_a_descriptor_is_judged_by_its_open_file": _PROC,
    "tests/engine/files/test_safe_open.py::test_procfs_is_refused_by_its_type": _PROC,
    "tests/engine/runtime/sandbox": _SANDBOX,
    "tests/engine/runtime/system": _BOTH,
    "tests/engine/runtime/test_checkpoint_hindrances.py": _COPIES,
    "tests/engine/runtime/test_checkpoints.py": _COPIES,
    "tests/engine/runtime/test_contract_checkpoints.py": _COPIES,
    "tests/engine/runtime/test_ending.py": _ORPHANS,
    "tests/engine/runtime/test_realms.py": _SANDBOX,
    "tests/engine/runtime/test_worker_commands.py::test_what_left_a_program_ends": _ORPHANS,
    "tests/engine/runtime/test_worker_commands.py::test_daemons_end_with_their_program": _ORPHANS,
    "tests/engine/runtime/test_worker_commands.py::test_program_has_our_limits": _PROC,
    "tests/engine/runtime/test_worker_commands.py::test_a_program_reads_no_environment": _PROC,
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
    "tests/engine/runtime/test_worker_restore.py::test_replay_acts_by_no_unaudited_route": _SCHEDULERS,
    "tests/engine/runtime/test_worker_restore.py::test_a_replay_may_rank_and_place": _SCHEDULERS,
    "tests/engine/session/tools/test_restoring.py::test_a_change_that_comes_right_before": _BOUND,
    "tests/engine/session/test_kept_values.py": _COPIES,
    "tests/engine/session/test_own_writes.py::test_forged_notice": _SANDBOX,
    "tests/engine/session/test_own_writes.py::test_host_reads_the_file_that_a_notice": _SANDBOX,
    "tests/engine/session/test_model_choice.py::test_statements_of_a_chosen_model_are_sandboxed": _SANDBOX,
}
"""Tests that do not hold on another system, by the beginnings of their names, each with the reason."""
_PACKAGES: Final = ("engine", "_rewindow", "acp_adapter", "mcp_tools")
_FORGOTTEN: Final = ("selectors", "shutil", "tests")
"""Modules that are imported again: these look for names of Linux, and a project may have a package `tests`."""
_HIDDEN: Final = "/proc"
_HIDING: Final = ("open", "listdir", "readlink", "stat", "lstat", "scandir", "access", "chmod")
"""The functions of `os` that find nothing in /proc."""


def switch_on() -> None:
    """Load the program's modules as another system does, from now on, here and in the programs that are started."""
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        return
    loaded = [name for name in sys.modules if name.partition(".")[0] in ("engine", "_rewindow")]
    assert not loaded, f"loaded before the switch: {loaded}"
    sys.meta_path.insert(0, _Finder())
    for name in _HIDING:
        setattr(os, name, _hidden(getattr(os, name)))
    builtins.open = io.open = _hidden(builtins.open)
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([_START, *(each for each in others if each not in ("", _START))])


def become_program() -> None:
    """`switch_on` in a process without tests: nothing in it finds the names of Linux either."""
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        return
    given = os.environ.get("PYTHONPATH")
    switch_on()
    if given is None:
        del os.environ["PYTHONPATH"]
    # An event loop that exists needs its selector.
    for name in LINUX_ONLY.keys() - ({"select"} if "asyncio" in sys.modules else set()):
        module = sys.modules[name]
        for each in [each for each in vars(module) if is_linux_only(name, each)]:
            delattr(module, each)
    for name in [name for name in sys.modules if name.partition(".")[0] in _FORGOTTEN]:
        del sys.modules[name]


def environment() -> dict[str, str]:
    """Variables with which a program of ours runs as on another system, and spawns its workers."""
    return {VARIABLE: SPAWNING, "PYTHONPATH": _START}


def is_on() -> bool:
    """Whether tests run as on another system."""
    return VARIABLE in os.environ


def reason(test: str) -> str:
    """Why a test does not hold on another system; empty if it does."""
    return next((why for name, why in NOT_ELSEWHERE.items() if test.startswith(name)), "")


def _start_elsewhere(zygote: Any) -> None:
    zygote._BOOT = BOOT
    zygote.KEPT_VARIABLES = (*zygote.KEPT_VARIABLES, SANDBOX_EXEC, VARIABLE)


def _use_program(seatbelt: Any) -> None:
    seatbelt.PROGRAM = os.environ.get(SANDBOX_EXEC, seatbelt.PROGRAM)


def _choose_how_workers_start(own_process: Any) -> None:
    # Linux permits forks, and each start of a worker takes half a second without.
    own_process.FORKS_MAY_DO_ANYTHING = os.environ.get(VARIABLE) != SPAWNING


_CHANGED: Final[dict[str, Callable[[Any], None]]] = {
    "engine.runtime.zygote": _start_elsewhere,
    "engine.runtime.sandbox.seatbelt": _use_program,
    "engine.runtime.system.own_process": _choose_how_workers_start,
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
        spec.loader = _Elsewhere(spec.loader, name in ASKS, _CHANGED.get(name))
        return spec


class _Elsewhere(Loader):
    def __init__(self, loader: Loader, asks: bool, change: Callable[[Any], None] | None) -> None:
        self._loader = loader
        self._asks = asks
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        with as_elsewhere() if self._asks else nullcontext():
            self._loader.exec_module(module)
        if self._change is not None:
            self._change(module)


def _hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which tells modules of the program that there is no /proc."""

    def call(path: Any = ".", *arguments: Any, **more: Any) -> Any:
        if _is_hidden(path) and sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *arguments, **more)

    call.__name__ = function.__name__
    # An error that is raised in it counts as raised in the module that calls it.
    call.__code__ = call.__code__.replace(co_filename=_OF_OURS)
    return call


def _is_hidden(path: Any) -> bool:
    if not isinstance(path, str | bytes):
        return False
    text = os.fsdecode(path)
    return text == _HIDDEN or text.startswith(f"{_HIDDEN}/")
