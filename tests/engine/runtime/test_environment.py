"""Implementations of `runtime.environment.Environment`: ours, and one that a program brings for its tests."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import get_type_hints

import pytest

from engine.core.domain import Layer
from engine.core.ids import ExecutionId
from engine.core.programs import CommandOutcome, CommandRequest
from engine.files.sources import Buffers
from engine.files.tails import FeedItem, Looked, News, ProjectionPart
from engine.log.past import CheckpointNews, Comparison, Contents, Preserved, Restored, RestorePlan
from engine.log.statements import (
    EffectHandler,
    OutputSink,
    RunOutcome,
    RunRequest,
    TickOutcome,
    TouchSink,
    UpdatePayload,
    ignore_touched,
)
from engine.runtime.environment import Environment, EnvironmentSpec
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.in_process import InProcessEnvironment
from tests.support.workers import new_worker

MEMBERS = sorted(name for name in vars(Environment) if not name.startswith("_"))


class EchoEnvironment:
    """Displays the source of each statement."""

    def __init__(self) -> None:
        self._alive = False

    @property
    def alive(self) -> bool:
        return self._alive

    @property
    def idle(self) -> bool:
        return False

    async def loss(self) -> str | None:
        return None

    @property
    def layers(self) -> Collection[Layer]:
        return ()

    async def start(self, spec: EnvironmentSpec) -> None:
        self._alive = True

    async def hold(self, places: Sequence[str]) -> None:
        return None

    def stopped(self) -> AbstractAsyncContextManager[bool]:
        return nullcontext(True)

    def acting(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        return RunOutcome(status="ok", value=request.source)

    def interrupt(self) -> None:
        pass

    async def command(self, request: CommandRequest, output: OutputSink) -> CommandOutcome:
        return CommandOutcome(code=0)

    async def tick(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickOutcome:
        return TickOutcome()

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        return ProjectionPart(tail="", tail_tokens=0, text_tokens=tuple(len(text) for text in texts))

    async def look(self, names: Collection[str] = (), tokens: int | None = None, *, at_sources: bool = False) -> Looked:
        return Looked()

    async def foresee(self, round_id: int, now: float) -> Sequence[FeedItem]:
        return ()

    @property
    def rerunning(self) -> ExecutionId | None:
        return None

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        return Restored(executions=len(plan.steps))

    def follow(self, buffers: Buffers | None) -> None:
        pass

    def kept(self) -> Preserved | None:
        return None

    async def preserve(self, large: bool) -> Preserved:
        return Preserved()

    async def collect(self) -> Preserved:
        return Preserved()

    def read(self) -> None:
        pass

    async def snapshot(self, execution_id: ExecutionId) -> bool:
        return False

    def checkpoints(self) -> Sequence[CheckpointNews]:
        return ()

    async def end(self) -> None:
        self._alive = False

    async def close(self) -> None:
        self._alive = False


def shape(kind: type, member: str) -> tuple[object, ...]:
    """What a type checker compares: whether it is awaited, its parameters, and all types."""
    found = inspect.getattr_static(kind, member)
    function = found.fget if isinstance(found, property) else found
    parameters = [(each.name, each.kind) for each in inspect.signature(function).parameters.values()]
    return isinstance(found, property), inspect.iscoroutinefunction(function), parameters, get_type_hints(function)


@pytest.mark.parametrize("kind", [EchoEnvironment, InProcessEnvironment, WorkerEnvironment])
@pytest.mark.parametrize("member", MEMBERS)
def test_environment_has_member_with_its_types(kind: type, member: str) -> None:
    assert shape(kind, member) == shape(Environment, member)


def test_new_environment_starts_no_process() -> None:
    first, second = new_worker(), new_worker()
    assert first is not second
    assert not first.alive
    assert first.pid is None
