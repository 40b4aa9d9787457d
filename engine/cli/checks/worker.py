"""Whether statements can run: the project's environment, what searches, token ranks, and a worker that runs one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import anyio

from ...core.ids import ExecutionId
from ...core.tokens.ranks import encoding
from ...files.search.commands import find_ripgrep
from ...log.secrets import allowed_variables
from ...log.statements import EffectAnswer, EffectRequest, RunRequest
from ...runtime.environment import EnvironmentSpec
from ...runtime.worker.processes.ending import left_behind
from ...runtime.worker.processes.proc import read
from ...runtime.worker_environment import WorkerEnvironment
from ...runtime.zygote import Zygote
from ...session.project import find_project_environment
from ..output.opened import redactor, settings
from ..output.printing import shown
from .finding import Finding

START_SECONDS: Final = 30.0
_SAMPLE: Final = "tokens"


def project() -> Iterable[Finding]:
    found = find_project_environment(str(Path.cwd()), os.environ, settings().python)
    if found.note:
        return [Finding("note", found.note)]
    if not found.import_paths:
        return [Finding("note", "no virtual environment for this directory; statements import what Rewindow can")]
    return [Finding("ok", f"statements import from {', '.join(found.import_paths)}")]


def search() -> Iterable[Finding]:
    found = find_ripgrep(os.environ.get("PATH", ""), (str(Path.cwd()),))
    if found is None:
        return [
            Finding(
                "note",
                "searches use this program's own walk, which takes several times as long in large projects; install"
                " ripgrep: an `rg` on PATH, outside the project, that only you and root can change",
            )
        ]
    return [Finding("ok", f"searches use {found}")]


def tokens() -> Iterable[Finding]:
    started = time.monotonic()
    ranks = encoding()
    if ranks.decode(ranks.encode(_SAMPLE)) != _SAMPLE:
        return [Finding("failed", "the token ranks of this installation are damaged; install it again")]
    return [Finding("ok", f"token ranks loaded in {(time.monotonic() - started) * 1000:.0f} ms")]


def statement() -> Iterable[Finding]:
    started = time.monotonic()
    zygote = Zygote.spawn()
    try:
        value = anyio.run(_first_statement, zygote)
    finally:
        zygote.close()
    if value != "42":
        return [Finding("failed", f"a statement gave {value!r} where 42 was due; report this with the lines above")]
    return [Finding("ok", f"a worker started and ran a statement in {(time.monotonic() - started) * 1000:.0f} ms")]


def left() -> Iterator[Finding]:
    """What agents left that were killed together with the parents of their workers; the end of this command ends it."""
    found = left_behind()
    named = ", ".join(f"{pid} ({shown(read(f'/proc/{pid}/comm').decode(errors='replace').strip())})" for pid in found)
    if found:
        yield Finding("note", f"processes of an agent that was killed still run, and are ended now: {named}")
    else:
        yield Finding("ok", "no process of an agent that was killed still runs")


async def _first_statement(zygote: Zygote) -> str | None:
    async def refuse(_: EffectRequest) -> EffectAnswer:
        return EffectAnswer()

    environment = WorkerEnvironment(zygote)
    with anyio.fail_after(START_SECONDS):
        await environment.start(
            EnvironmentSpec(
                cwd=str(Path.cwd()),
                redactor=redactor(),
                variables=allowed_variables(os.environ, settings().hidden_names),
            )
        )
        request = RunRequest(execution_id=ExecutionId("doctor"), label="<doctor>", source="6 * 7")
        outcome = await environment.run(request, refuse, lambda _stream, _text: None)
    await environment.close()
    return outcome.value
