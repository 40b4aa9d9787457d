"""Workers of the engine that this interpreter has, free or `held` by a domain: seconds of a start and of a statement.

Run as `python sandbox.py free|held`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from statistics import median
from time import perf_counter

from anyio.from_thread import start_blocking_portal
from serving import serve

from engine.core.domain import Domain
from engine.core.ids import ExecutionId
from engine.log.redaction import NO_SECRETS
from engine.log.statements import EffectAnswer, EffectRequest, RunRequest
from engine.runtime.environment import EnvironmentSpec
from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote


class Workers:
    """Ends with `stack`."""

    def __init__(self, stack: ExitStack, *, is_held: bool) -> None:
        folder = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory()))
        domain = Domain(scratch=folder, hidden=(os.path.join(folder, "state"),)) if is_held else None
        os.mkdir(os.path.join(folder, "state"))
        self._spec = EnvironmentSpec(
            cwd=folder, redactor=NO_SECRETS, variables={"PATH": os.environ["PATH"]}, domain=domain
        )
        self._zygote = Zygote.spawn()
        self._environment = WorkerEnvironment(self._zygote)
        self._portal = stack.enter_context(start_blocking_portal())
        self._portal.call(self._environment.start, self._spec)
        stack.callback(self._portal.call, self._environment.close)
        assert bool(self._environment.layers) == is_held

    def start(self) -> float:
        environment = WorkerEnvironment(self._zygote)
        started = perf_counter()
        self._portal.call(environment.start, self._spec)
        took = perf_counter() - started
        self._portal.call(environment.close)  # which takes down what it mounted
        return took

    def statement(self, count: int) -> float:
        return self._portal.call(self._statements, count)

    async def _statements(self, count: int) -> float:
        async def refuse(_: EffectRequest) -> EffectAnswer:
            return EffectAnswer()

        found: list[float] = []
        for _ in range(count):
            request = RunRequest(execution_id=ExecutionId("e"), label="<statement>", source="6 * 7")
            started = perf_counter()
            await self._environment.run(request, refuse, lambda _stream, _text: None)
            found.append(perf_counter() - started)
        return median(found)


with ExitStack() as stack:
    workers = Workers(stack, is_held=sys.argv[1] == "held")
    serve({"start": workers.start, "statement": workers.statement})
