"""A program: a host in portable mode whose sandbox is a stand-in of `sandbox-exec`; prints JSON of what happened.

Arguments: a directory with `scratch` and `work`. Run as a process of its own, because modules of the engine ask for the
system when they are loaded, so the switch comes first. Used by `tests/engine/runtime/sandbox/test_sandbox_exec.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from tests.support import portable

if __name__ == "__main__":
    portable.switch_on()  # before anything of the program is imported

from msgspec.structs import replace

from engine.core.domain import Domain
from engine.core.errors import EnvironmentUnavailableError
from engine.core.programs import CommandRequest
from engine.runtime.sandbox.entering import cannot_hold
from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote
from tests.support.environments import request, spec_for

SOURCES = ("6 * 7", "import os; os.getpid()", "while True: pass")
SECONDS = 20.0
SHORT = 0.5


async def main(folder: Path) -> dict[str, Any]:
    """Run statements and programs in a domain, and ask for more read-only paths."""
    zygote = Zygote.spawn()
    environment = WorkerEnvironment(zygote)
    work = folder / "work"
    domain = Domain(scratch=str(folder / "scratch"), writable=(str(work),), read_only=(str(work / "held"),))
    found: dict[str, Any] = {"cannot_hold": cannot_hold()}
    try:
        await environment.start(replace(spec_for(work), domain=domain))
        found["layers"], found["worker"] = list(environment.layers), environment.pid
        found["programs"] = [await command(environment, domain, folder, name) for name in ("/bin/echo", "gone", "text")]
        found["held"] = [await is_held(environment, folder / name) for name in ("work/held/x", "work/new", "elsewhere")]
        found["statements"] = []
        for source, seconds in zip(SOURCES, (SECONDS, SECONDS, SHORT), strict=True):
            outcome = await environment.run(request(source, seconds), refuse, print_nothing)
            found["statements"].append([outcome.status, outcome.value])
    finally:
        await environment.close()
        zygote.close()
    return found


async def command(environment: WorkerEnvironment, domain: Domain, folder: Path, name: str) -> str:
    """The output of a program with one argument, or the error of its start."""
    argv = (str(folder / name), "a b")
    wanted = CommandRequest(argv=argv, cwd=str(folder), seconds=SECONDS, kept_bytes=1000, domain=domain)
    try:
        return (await environment.command(wanted, print_nothing)).stdout.text
    except OSError as error:
        return type(error).__name__


async def is_held(environment: WorkerEnvironment, path: Path) -> bool:
    try:
        await environment.hold([str(path)])
    except EnvironmentUnavailableError:
        return False
    return True


async def refuse(_request: object) -> NoReturn:
    raise AssertionError("statements here ask for nothing")


def print_nothing(_stream: object, _text: object) -> None:
    """Ignore output."""


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
