"""Environments that hold what they are given to hold, as they say, for tests of who gets which domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.core.domain import LAYERS, PARTS, Domain, Layer
from engine.log.past import Comparison, Contents, PastExecution, Restored, RestorePlan
from engine.log.statements import EffectHandler, OutputSink, RunOutcome, RunRequest, TouchSink, ignore_touched
from engine.runtime.environment import EnvironmentSpec
from tests.support.hollow import HollowEnvironment

HELD: tuple[Layer, ...] = (*LAYERS, *PARTS)


class GuardedEnvironment(HollowEnvironment):
    """In its domain it has `HELD`, or other layers. `during` is awaited with the effects of each statement."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    async def start(self, spec: EnvironmentSpec) -> None:
        await super().start(spec)
        self.layers = () if spec.domain is None else self._kernel.layers
        self._kernel.domains.append(spec.domain)

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        steps = [step for step in plan.steps if isinstance(step, PastExecution)]
        self._kernel.rerun.append([step.request.source for step in steps if step.again])
        self._kernel.loaded += [value.data for step in steps for value in step.kept]
        return await super().restore(plan, contents, compare)

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        outcome = await super().run(request, effects, output, touched, begun)
        self._kernel.ran_in.append((request.source, self._kernel.domains[-1]))
        return outcome


class Kernel:
    """Makes the environments, and notes what became of them: what they were started in, and what ran again there."""

    def __init__(self, layers: Sequence[Layer] = HELD) -> None:
        self.layers = tuple(layers)
        self.domains: list[Domain | None] = []
        self.rerun: list[list[str]] = []
        self.loaded: list[bytes] = []
        self.ran_in: list[tuple[str, Domain | None]] = []

    def environment(self) -> GuardedEnvironment:
        return GuardedEnvironment(self)
