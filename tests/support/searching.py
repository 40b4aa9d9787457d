"""Searches for tests: both programs that search, and whoever runs a tool's program and gives its answer."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from engine.core.programs import CommandOutcome, CommandOutput, CommandRequest
from engine.files.search.walk.search import search
from engine.session.tools import OPERATIONS, Workspace
from engine.session.tools.bash import Program

RIPGREP = str(Path(sysconfig.get_path("scripts"), "rg"))
"""Of the development requirement `ripgrep`."""
WAYS = {"ripgrep": RIPGREP, "our own walk": None}
"""By the way to search, the place of ripgrep that a workspace knows."""


def workspace(directory: Path, way: str, *more: Path) -> Workspace:
    return Workspace(str(directory), tuple(map(str, more)), ripgrep=WAYS[way])


def outcome_here(request: CommandRequest) -> CommandOutcome:
    """What becomes of a program: of our own without a process, because starting one takes long."""
    if RIPGREP in request.argv:
        return outcome_of(request)
    output, said, before = io.BytesIO(), list[str](), os.getcwd()
    os.chdir(request.cwd)
    try:
        code = search(json.loads(request.stdin), output, said.append)
    finally:
        os.chdir(before)
    said_bytes = "".join(f"{line}\n" for line in said).encode("utf-8", "surrogateescape")
    return CommandOutcome(code=code, stdout=_output(output.getvalue()), stderr=_output(said_bytes))


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
    return made.answer(outcome_here(made.request))


def files(directory: Path, contents: dict[str, str | bytes]) -> None:
    """Makes files with the directories above them."""
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
