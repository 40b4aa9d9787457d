"""A session's environment, started when it is first needed and rebuilt when it was lost.

Owns the difference between "no worker yet", "worker there" and "worker died": whoever asks gets a living one. Must not
know what runs in it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import xxhash
from msgspec.structs import replace

from ..events import EnvironmentRestored, ExecutionFinished
from ..log import EventLog
from ..ports import Environment, EnvironmentSpec, PastExecution, RunRequest
from ..timeline.index import Cell, Timeline
from .effects import EffectDesk

Redact = Callable[[str], str]


class LiveEnvironment:
    """One namespace per session, behind `ports.Environment`."""

    def __init__(
        self,
        environment: Environment,
        spec: EnvironmentSpec,
        log: EventLog,
        timeline: Timeline,
        effects: EffectDesk,
        redact: Redact,
    ) -> None:
        self._environment = environment
        self._spec = spec
        self._log = log
        self._timeline = timeline
        self._effects = effects
        self._redact = redact
        self._meta = msgspec.json.encode((spec.cwd, spec.import_paths))

    async def ready(self) -> Environment:
        """The living environment; started, or rebuilt from the timeline, if it has to be.

        Raises:
            EnvironmentUnavailableError: no worker can be started.
        """
        if not self._environment.alive:
            await self._environment.start(self._spec)
            history = [self._past(cell) for cell in self._timeline.completed]
            if history:
                restored = await self._environment.restore(history)
                self._log.append(EnvironmentRestored(executions=restored.executions, divergences=restored.divergences))
        return self._environment

    def interrupt(self) -> None:
        """Ends the statement that is running, if there is one."""
        self._environment.interrupt()

    async def close(self) -> None:
        await self._environment.close()

    def fingerprint(self, source: str) -> str:
        """xxh3 hex over a statement's source and the facts of its environment."""
        return xxhash.xxh3_64_hexdigest(source.encode("utf-8", "replace") + b"\0" + self._meta)

    def redacted(self, finished: ExecutionFinished) -> ExecutionFinished:
        """The record with every known secret replaced in its texts."""
        exception = finished.exception
        return replace(
            finished,
            stdout=replace(finished.stdout, text=self._redact(finished.stdout.text)),
            stderr=replace(finished.stderr, text=self._redact(finished.stderr.text)),
            value=None if finished.value is None else self._redact(finished.value),
            exception=exception
            and replace(
                exception,
                message=self._redact(exception.message),
                traceback=self._redact(exception.traceback),
            ),
            displays=tuple(replace(display, text=self._redact(display.text)) for display in finished.displays),
        )

    def _past(self, cell: Cell) -> PastExecution:
        assert cell.finished is not None
        return PastExecution(
            request=RunRequest(
                execution_id=cell.finished.execution_id,
                label=cell.statement.label,
                source=cell.statement.source,
                time_limit=self._spec.limits.statement_seconds,
            ),
            status=cell.finished.status,
            answers=tuple(self._effects.answers(cell)),
        )
