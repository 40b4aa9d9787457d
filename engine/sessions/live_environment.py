"""A session's environment, started when it is first needed and rebuilt when it was lost.

Owns the difference between "no worker yet", "worker there" and "worker died": whoever asks gets a living one, and one
that is lost before it did anything is replaced. Must not know what runs in it. Used by the agent loop, `statements` and
the session's commands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec
import xxhash
from msgspec.structs import replace

from ..cutting import more
from ..errors import EnvironmentUnavailableError
from ..events.execution import ExecutionFinished
from ..events.session import EnvironmentRestored
from ..log import EventLog
from ..ports import Comparison, EffectAnswer, Environment, EnvironmentSpec, PastExecution, RunOutcome, RunRequest
from ..timeline.divergence import differences
from ..timeline.index import Cell, Timeline
from .cancellation import Cancellation
from .directories import gone

T = TypeVar("T")
_KEPT_SENTENCES: Final = 100
"""On statements that did not run again, in one report."""


class LiveEnvironment:
    """One session's namespace, behind `ports.Environment`, which `make` makes when it is first needed.

    Args:
        make: an environment that has not been started.
        spec: what each is started with.
        log: takes EnvironmentRestored.
        timeline: what a rebuilt namespace has to have run.
        answers: the recorded answers to the effects of one of its cells.
    """

    def __init__(
        self,
        make: Callable[[], Environment],
        spec: EnvironmentSpec,
        log: EventLog,
        timeline: Timeline,
        answers: Callable[[Cell], Sequence[EffectAnswer]],
    ) -> None:
        self._make = make
        self._environment: Environment | None = None
        self._spec = spec
        self._log = log
        self._timeline = timeline
        self._answers = answers
        self._meta = msgspec.json.encode((spec.cwd, spec.import_paths))

    async def ready(self) -> Environment:
        """The living environment; started, or rebuilt from the timeline, if it has to be.

        Raises:
            EnvironmentUnavailableError: no worker can be started.
        """
        if self._environment is None:
            self._environment = self._make()
        environment = self._environment
        if not environment.alive:
            try:
                await environment.start(self._spec)
            except EnvironmentUnavailableError as error:
                raise gone(self._spec.cwd) or error from None
            completed = self._timeline.completed
            again = [cell for cell in completed if not cell.statement.withheld]
            if completed:
                restored = await environment.restore(list(self._past(again)), self._comparison(again))
                others = [*self._withheld(), *self._left_out()]
                rest = [more(len(others) - _KEPT_SENTENCES, "sentence")] if len(others) > _KEPT_SENTENCES else []
                divergences = (*restored.divergences, *others[:_KEPT_SENTENCES], *rest)
                self._log.append(EnvironmentRestored(executions=restored.executions, divergences=divergences))
        return environment

    async def use(self, act: Callable[[Environment], Awaitable[T]], cancellation: Cancellation | None = None) -> T:
        """What `act` makes of the living environment; once more with a rebuilt one if it turns out to have died idle.

        A cancel cuts only the rebuilding short: a worker that is left in the middle of an answer has to be replaced.

        Raises:
            EnvironmentUnavailableError: no worker can be started, or the next one was lost too.
            WorkCancelledError: a cancel came before `act` began.
        """
        cancellation = cancellation or Cancellation()
        environment = await cancellation.guard(self.ready)
        try:
            return await act(environment)
        except EnvironmentUnavailableError:
            if environment.alive:
                raise
        return await act(await cancellation.guard(self.ready))

    async def rest(self) -> None:
        """Ends the worker; whoever uses it next gets a rebuilt one."""
        environment, self._environment = self._environment, None
        if environment is not None:
            await environment.close()

    async def close(self) -> None:
        if self._environment is not None:
            await self._environment.close()

    def fingerprint(self, source: str) -> str:
        """xxh3 hex over a statement's source and the facts of its environment."""
        return xxhash.xxh3_64_hexdigest(source.encode("utf-8", "replace") + b"\0" + self._meta)

    def _withheld(self) -> list[str]:
        """One sentence for each statement that cannot run again, because a secret was in its source."""
        return [
            f"{cell.statement.label} held a secret in its source, which is not kept, so it was not run again"
            for cell in self._timeline.completed
            if cell.statement.withheld
        ]

    def _comparison(self, again: Sequence[Cell]) -> Comparison:
        """Compares what ran again with the record, as both are on the log: without secrets."""
        records = {record.execution_id: record for cell in again if (record := cell.finished) is not None}
        others = [cell.finished for cell in self._timeline.cells if cell.finished is not None]
        missing = [other.diff for other in others if other.execution_id not in records]
        uncertain = {name for diff in missing for name in (*diff.added, *diff.changed, *diff.deleted)}

        def compare(past: PastExecution, outcome: RunOutcome) -> Sequence[str]:
            before = records[past.request.execution_id]
            after = self._log.redacted(_recorded(outcome, before))
            assert isinstance(after, ExecutionFinished)
            return differences(before, after, uncertain)

        return compare

    def _left_out(self) -> list[str]:
        """One sentence for each statement that the user left out, or that was stopped with names changed by then."""
        omitted = [cell.statement.label for cell in self._timeline.cells if cell.omitted]
        return [*(f"{label} is left out, as the user asked" for label in omitted), *self._stopped()]

    def _stopped(self) -> list[str]:
        return [
            f"{cell.statement.label} was stopped ({cell.finished.status}); what it had changed by then is lost"
            for cell in self._timeline.cells
            if cell.finished is not None and cell.finished.status in ("cancelled", "timeout") and cell.finished.diff
        ]

    def _past(self, cells: Sequence[Cell]) -> Iterator[PastExecution]:
        calls = 0
        for cell in cells:
            assert cell.finished is not None
            request = RunRequest(
                execution_id=cell.finished.execution_id,
                label=cell.statement.label,
                source=cell.statement.source,
                time_limit=self._spec.limits.statement_seconds,
                after_reading=cell.calls > calls,
            )
            calls = cell.calls
            yield PastExecution(request=request, status=cell.finished.status, answers=tuple(self._answers(cell)))


def _recorded(outcome: RunOutcome, before: ExecutionFinished) -> ExecutionFinished:
    """The record of an execution, as it would be if this were its outcome."""
    return replace(
        before,
        status=outcome.status,
        value=outcome.value,
        exception=outcome.exception,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        displays=outcome.displays,
        diff=outcome.diff,
    )
