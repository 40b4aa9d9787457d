"""Workers whose writes go to the host, and a host that does what it is asked for without asking anybody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from engine.core.domain import Domain, Layer
from engine.core.execution import ExceptionInfo
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime.worker_environment import WorkerEnvironment
from engine.session.tool_records import error_answer
from engine.session.tools import OPERATIONS, Change, TreeAct, Workspace, land
from tests.support.environments import PATIENCE, Bench, spec_for
from tests.support.workers import shared_zygote


class RoutedBench(Bench[WorkerEnvironment]):
    """`asked` are the operations that came, each with its path; with `refusal` every one is refused."""

    def __init__(self, environment: WorkerEnvironment, cwd: Path) -> None:
        super().__init__(environment, cwd)
        self.asked: list[tuple[str, object]] = []
        self.refusal = ""
        self._workspace = Workspace(str(cwd), (str(cwd),))

    async def effects(self, request: EffectRequest) -> EffectAnswer:
        path = request.arguments.get("path", request.arguments.get("source"))
        self.asked.append((request.operation, path))
        if self.refusal:
            return EffectAnswer(error=ExceptionInfo(type="PermissionError", message=self.refusal))
        operation = OPERATIONS[request.operation]
        try:
            arguments = msgspec.convert(request.arguments, operation.arguments)
            found = operation.perform(self._workspace, arguments)
            if isinstance(found, TreeAct):
                found.do()
                return EffectAnswer()
            if isinstance(found, Change):
                land(self._workspace, found)
                return EffectAnswer(value=found.value)
            return EffectAnswer(value=found)
        except (OSError, ValueError, TypeError) as error:
            return error_answer(error)


@asynccontextmanager
async def routed(
    tmp_path: Path, *, writable: tuple[str, ...] = (), without: tuple[Layer, ...] = ()
) -> AsyncIterator[RoutedBench]:
    """A worker in the directory `project` of the given one, with `scratch` beside it, but for the layers `without`."""
    project, scratch = tmp_path / "project", tmp_path / "scratch"
    project.mkdir(exist_ok=True)
    scratch.mkdir(exist_ok=True)
    environment = WorkerEnvironment(shared_zygote())
    spec = spec_for(project)
    variables = {**spec.variables, "TMPDIR": str(scratch), "MPLCONFIGDIR": str(scratch)}
    domain = Domain(scratch=str(scratch), writable=writable, without=without)
    try:
        with anyio.fail_after(PATIENCE):
            await environment.start(replace(spec, variables=variables, domain=domain))
        yield RoutedBench(environment, project)
    finally:
        with anyio.CancelScope(shield=True):
            await environment.close()
