"""Histories with their records: what statements came to in a live environment, as steps that run again in stretches."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from engine.core.execution import Ending
from engine.log.comparison import bound_names, differences
from engine.log.past import Differences, PastExecution, PastStep, PastValues, Restored, RestorePlan
from engine.log.statements import RunOutcome
from engine.runtime.environment import Environment
from tests.support.environments import PATIENCE, Bench, contents, kept, past, preserved

AnyBench = Bench[Environment]


def ending(outcome: RunOutcome) -> Ending:
    return Ending(
        status=outcome.status,
        value=outcome.value,
        exception=outcome.exception,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        diff=outcome.diff,
    )


async def lived(b: AnyBench, *sources: str) -> list[PastExecution]:
    """Runs the sources, and what a log would have of them, copies included. The number of each is in its label."""
    steps: list[PastExecution] = []
    for number, source in enumerate(sources, 1):
        outcome = await b.run(source)
        found = await preserved(b, large=outcome.acted)
        step = past(source, outcome.status, label=f"<statement {number}>")
        steps.append(
            replace(
                step,
                record=ending(outcome),
                acted=outcome.acted,
                bound=tuple(bound_names(outcome.diff)),
                unbound=outcome.diff.deleted,
                kept=tuple(
                    PastValues(names=group.names, content=kept(group.data), size=len(group.data))
                    for group in found.groups
                ),
                unkept=found.unkept,
            )
        )
    return steps


class Looked:
    """A comparison that remembers what it was asked about: label, status and what was printed."""

    def __init__(self) -> None:
        self.at: list[tuple[str, str, str]] = []

    @property
    def labels(self) -> list[str]:
        return [label for label, _, _ in self.at]

    def __call__(self, step: PastExecution, outcome: RunOutcome) -> Differences:
        self.at.append((step.request.label, outcome.status, outcome.stdout.text))
        assert step.record is not None
        return differences(step.record, ending(outcome))


async def restored(b: AnyBench, steps: Sequence[PastStep]) -> tuple[Restored, Looked]:
    """Goes through the steps again, with what the host had to look at."""
    looked = Looked()
    with anyio.fail_after(PATIENCE):
        found = await b.environment.restore(RestorePlan(steps=tuple(steps)), contents, looked)
    return found, looked
