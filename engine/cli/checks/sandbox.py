"""Which layers hold statements here, what is missing for the others, and what that leaves open."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from ...core.domain import LAYERS, PARTS, Domain, Layer, is_held
from ...log.secrets import allowed_variables
from ...runtime.environment import EnvironmentSpec
from ...runtime.sandbox import landlock
from ...runtime.sandbox.entering import MISSING
from ...runtime.worker.processes.memory import MOST_PROCESSES, most_tasks
from ...runtime.worker.processes.privileges import hides_processes
from ...runtime.worker.processes.proc import read
from ...runtime.worker_environment import WorkerEnvironment
from ...runtime.zygote import Zygote
from ..output.opened import redactor, settings
from .finding import Finding
from .worker import START_SECONDS

_OPEN: Final[Mapping[Layer, str]] = {
    "landlock": "change every file that you may",
    "seccomp": "use the network",
    "mounts": (
        "change modes, owners and times of your files, read the state of sessions, and write into your terminals and"
        " the shared memory of your programs"
    ),
}
"""What a statement may do without a layer, with all others in force."""
_EACH: Final = "they may do whatever you may, so in the mode ask each one of a model asks"


def sandbox() -> Iterator[Finding]:
    entered = _entered()
    yield from said_of(entered.layers, settings().sandbox or "off")
    if is_held(entered.layers):
        yield processes_of(entered.is_apart)


def processes_of(is_apart: bool) -> Finding:
    """How the number of a model statement's processes is bounded: in a process namespace, or by counting."""
    if is_apart:
        return Finding(
            "ok",
            f"sandbox, processes: the kernel allows a model's statements {most_tasks():,} processes and threads at a"
            " time, and ends them with their session",
        )
    return Finding(
        "note",
        "sandbox, processes: this system permits no process namespace, so they are counted four times a second; a"
        f" statement that starts many at once has more than {MOST_PROCESSES:,} for a moment",
    )


def said_of(layers: Sequence[Layer], rule: str = "auto") -> Iterator[Finding]:
    """The findings where these layers, and parts of them, hold a worker, and the setting `sandbox` is `rule`."""
    yield _in_short(is_held(layers), rule)
    for layer in LAYERS:
        if layer in layers:
            yield Finding("ok", f"sandbox, layer {layer}: in force")
        else:
            reason = MISSING[layer]() or "it could not be entered"
            yield Finding("note", f"sandbox, layer {layer}: {reason}; without it statements may {_OPEN[layer]}")
    if "landlock" in layers:
        for part, what in PARTS.items():
            if part not in layers:
                since = landlock.SINCE[part]
                yield Finding("note", f"sandbox: before version {since} of Landlock statements may {what}")


def _in_short(can_hold: bool, rule: str) -> Finding:
    """What that means for whoever works with a model."""
    if rule == "off":
        can = "could" if can_hold else "cannot"
        return Finding("note", f"no sandbox, as the setting says (the kernel {can} hold statements): {_EACH}")
    if can_hold:
        return Finding(
            "ok", "a model's statements run in a sandbox: in the mode ask, what they change asks, and no more"
        )
    if rule == "required":
        return Finding("failed", "the kernel cannot hold statements, and the setting sandbox = required runs none then")
    return Finding("note", f"no sandbox, because the kernel cannot hold statements: {_EACH}")


def others() -> Iterator[Finding]:
    """Whether statements that no domain holds see other processes."""
    if settings().allow_sudo:
        yield Finding(
            "note", "statements can read your other processes, as allow_sudo says; only Rewindow's are hidden"
        )
    elif not hides_processes():
        missing = "this kernel has no Landlock (Linux 5.19 or later)"
        yield Finding(
            "note", f"statements can read your other processes, because {missing}; only Rewindow's are hidden"
        )
    else:
        yield Finding("ok", "statements cannot read other processes, such as the program that started Rewindow")


class _Entered(NamedTuple):
    """The layers of a worker, and whether it is in a process namespace below this one."""

    layers: tuple[Layer, ...]
    is_apart: bool


def _entered() -> _Entered:
    """What holds a worker that was started to find out."""
    zygote = Zygote.spawn()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            return anyio.run(_layers, zygote, os.path.realpath(scratch))
    finally:
        zygote.close()


async def _layers(zygote: Zygote, scratch: str) -> _Entered:
    environment = WorkerEnvironment(zygote)
    variables = allowed_variables(os.environ, settings().hidden_names)
    try:
        with anyio.fail_after(START_SECONDS):
            domain = Domain(scratch=scratch)
            spec = EnvironmentSpec(cwd=str(Path.cwd()), redactor=redactor(), variables=variables, domain=domain)
            await environment.start(spec)
        return _Entered(tuple(environment.layers), _depth(environment.pid or "self") > _depth("self"))
    finally:
        await environment.close()


def _depth(pid: int | str) -> int:
    """How many process namespaces a process has a number in, from that of /proc on."""
    lines = read(f"/proc/{pid}/status").splitlines()
    return next((len(line.split()) for line in lines if line.startswith(b"NSpid:")), 0)
