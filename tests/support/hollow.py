"""An Environment without a namespace, for tests of what goes on around one: all statements succeed and say nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Literal

import anyio.lowlevel

from engine.core.domain import Layer
from engine.core.ids import ExecutionId
from engine.core.programs import CommandOutcome, CommandRequest
from engine.files.sources import Buffers
from engine.files.tails import FeedItem, Looked, News, ProjectionPart
from engine.log.past import CheckpointNews, Comparison, Contents, PastExecution, Preserved, Restored, RestorePlan
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
from engine.runtime.environment import EnvironmentSpec

Moment = Literal["start", "restore", "run", "command", "tick", "project"]
MOMENTS: tuple[Moment, ...] = ("start", "restore", "tick", "project", "run")
"""In the order in which a turn comes to them."""


async def nothing(moment: Moment) -> None:
    await anyio.lowlevel.checkpoint()


class HollowEnvironment:
    """Awaits `meanwhile` in every request, and keeps in `requests` what was asked of it. Lost by setting `alive`."""

    def __init__(self, meanwhile: Callable[[Moment], Awaitable[None]] = nothing) -> None:
        self.alive = False
        self.layers: Sequence[Layer] = ()
        self.lost_by: str | None = None
        self.rerunning: ExecutionId | None = None
        self.meanwhile = meanwhile
        self.requests: list[Moment] = []
        self.ran: list[str] = []
        self.restored: list[str] = []
        self.interrupts = 0

    async def _take(self, moment: Moment) -> None:
        self.requests.append(moment)
        await self.meanwhile(moment)

    @property
    def idle(self) -> bool:
        return self.alive

    async def loss(self) -> str | None:
        return self.lost_by

    async def start(self, spec: EnvironmentSpec) -> None:
        await self._take("start")
        self.alive = True

    hides_all: bool = True
    finds_sockets: bool = False
    has_programs: bool = False

    def end_programs(self) -> None:
        self.alive = False

    async def hold(self, places: Sequence[str]) -> None:
        self.held = places

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        self.alive = False
        await self._take("restore")
        self.alive = True
        self.restored = [step.request.source for step in plan.steps if isinstance(step, PastExecution)]
        return Restored(executions=len(self.restored))

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        if begun is not None:
            begun()
        self.ran.append(request.source)
        before = self.interrupts
        await self._take("run")
        return RunOutcome(status="ok" if self.interrupts == before else "cancelled")

    def interrupt(self) -> None:
        self.interrupts += 1

    async def command(self, request: CommandRequest, output: OutputSink) -> CommandOutcome:
        await self._take("command")
        return CommandOutcome(code=0)

    async def tick(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickOutcome:
        await self._take("tick")
        return TickOutcome()

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        await self._take("project")
        return ProjectionPart(tail="", tail_tokens=0, text_tokens=tuple(len(text) // 4 for text in texts))

    async def look(self, names: Collection[str] = (), tokens: int | None = None, *, at_sources: bool = False) -> Looked:
        return Looked()

    async def foresee(self, round_id: int, now: float) -> Sequence[FeedItem]:
        return ()

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
        self.alive = False

    async def close(self) -> None:
        self.alive = False
