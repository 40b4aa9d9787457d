"""Searches for tests: the tools that search, run without a session."""

from __future__ import annotations

import random
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from engine.core.programs import CommandOutcome, CommandOutput, CommandRequest
from engine.session.tools import OPERATIONS, Workspace
from engine.session.tools.bash import Program

RIPGREP = str(Path(sysconfig.get_path("scripts"), "rg"))


SLOW = r"a(?:\w{1,3}){600}\d"
"""An expression for which ripgrep takes three seconds for each megabyte of `slow_text`."""


def slow_text(megabytes: int) -> str:
    """Lines that an expression like `SLOW` does not match, but nearly."""
    chance = random.Random(1)
    block = "\n".join("".join(chance.choices("ab", k=1_023)) for _ in range(64)) + "\n"
    return block * (megabytes * 16)


def workspace(directory: Path, *more: Path, ripgrep: str | None = RIPGREP) -> Workspace:
    return Workspace(str(directory), tuple(map(str, more)), ripgrep=ripgrep)


def outcome_of(request: CommandRequest, user: int | None = None) -> CommandOutcome:
    """What becomes of a program, without an environment. `user`: whose rights it has."""
    try:
        done = subprocess.run(
            request.argv,
            cwd=request.cwd,
            input=request.stdin,
            capture_output=True,
            timeout=request.seconds,
            user=user,
            extra_groups=None if user is None else [],
        )
    except subprocess.TimeoutExpired as error:
        return CommandOutcome(timed_out=True, stdout=_output(error.stdout or b""))
    if request.stop_at is not None and len(done.stdout) >= request.stop_at:
        return CommandOutcome(stopped=True, stdout=_output(done.stdout[: request.stop_at]))
    code, signal = (done.returncode, None) if done.returncode >= 0 else (None, -done.returncode)
    return CommandOutcome(code=code, signal=signal, stdout=_output(done.stdout), stderr=_output(done.stderr))


def _output(data: bytes) -> CommandOutput:
    return CommandOutput(head=data, total=len(data))


def program(where: Workspace, tool: str, **arguments: Any) -> Program:
    """What a tool would run. Raises what the statement would see."""
    operation = OPERATIONS[tool]
    made = operation.perform(where, operation.arguments(**arguments))
    assert isinstance(made, Program)
    return made


def answer(where: Workspace, tool: str, **arguments: Any) -> Any:
    """The plain answer of a tool that runs a program. Raises what the statement would see."""
    made = program(where, tool, **arguments)
    return made.answer(outcome_of(made.request))


def files(directory: Path, contents: dict[str, str | bytes]) -> None:
    """Makes files with the directories above them."""
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
