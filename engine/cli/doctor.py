"""`rewindow doctor`: tries everything that a session needs, and says what to do about what is missing."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import anyio
import typer

from ..errors import EngineError
from ..ids import ExecutionId
from ..models import make_model
from ..ports import EffectAnswer, EffectRequest, EnvironmentSpec, RunRequest
from ..runtime.project import allowed_variables, find_project_environment
from ..runtime.settings import config_path
from ..runtime.supervisor import WorkerEnvironment, Zygote
from .opened import settings, store

Grade = Literal["ok", "note", "failed"]
START_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    grade: Grade
    text: str


def doctor() -> None:
    """Check that sessions can be kept and statements can run here."""
    findings = [_checked(check) for check in CHECKS]
    for finding in findings:
        colour = {"ok": typer.colors.GREEN, "note": typer.colors.YELLOW, "failed": typer.colors.RED}[finding.grade]
        typer.echo(f"{typer.style(f'{finding.grade:>6}', fg=colour)}  {finding.text}")
    if any(finding.grade == "failed" for finding in findings):
        raise typer.Exit(1)


def _checked(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except (EngineError, OSError) as error:
        return Finding("failed", str(error))


def _python() -> Finding:
    return Finding(
        "ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {sys.prefix}"
    )


def _configuration() -> Finding:
    path = config_path(os.environ)
    origin = str(path) if path.exists() else f"defaults (no {path})"
    return Finding("ok", f"configuration: {origin}; context budget {settings().context_budget:,} tokens")


def _model() -> Finding:
    model = make_model(settings().model)
    if model.name == "direct":
        return Finding("note", "no language model is configured: what you type runs as Python (model `direct`)")
    return Finding("ok", f"model {settings().model}")


def _store() -> Finding:
    with store() as opened:
        rows = opened.rows()
    size = sum(path.stat().st_size for path in Path(settings().state_dir).rglob("*") if path.is_file())
    return Finding("ok", f"{len(rows)} sessions, {size / 1e6:.1f} MB in {settings().state_dir}")


def _project() -> Finding:
    project = find_project_environment(str(Path.cwd()), os.environ, settings().python)
    if project.note:
        return Finding("note", project.note)
    if not project.import_paths:
        return Finding("note", "no virtual environment for this directory; statements import what Rewindow can")
    return Finding("ok", f"statements import from {', '.join(project.import_paths)}")


def _worker() -> Finding:
    started = time.monotonic()
    zygote = Zygote.spawn()
    value = anyio.run(_first_statement, zygote)
    if value != "42":
        return Finding("failed", f"a statement gave {value!r} where 42 was due; report this with the lines above")
    return Finding("ok", f"a worker started and ran a statement in {(time.monotonic() - started) * 1000:.0f} ms")


async def _first_statement(zygote: Zygote) -> str | None:
    async def refuse(_: EffectRequest) -> EffectAnswer:
        return EffectAnswer()

    environment = WorkerEnvironment(zygote)
    with anyio.fail_after(START_SECONDS):
        await environment.start(EnvironmentSpec(cwd=str(Path.cwd()), variables=allowed_variables(os.environ)))
        request = RunRequest(execution_id=ExecutionId("doctor"), label="<doctor>", source="6 * 7")
        outcome = await environment.run(request, refuse, lambda _stream, _text: None)
    await environment.close()
    return outcome.value


CHECKS: Final = (_python, _configuration, _model, _project, _store, _worker)
