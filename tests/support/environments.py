"""Environments for tests, of either kind and always closed: requests, and what came out of running them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import anyio
import msgspec

from engine.core.errors import StoreError
from engine.core.execution import Ending, ExceptionInfo, ExecutionStatus
from engine.core.ids import BlobDigest, ExecutionId
from engine.core.programs import CommandOutcome, CommandRequest
from engine.files.safe_open import LARGEST
from engine.log.past import (
    Differences,
    Divergence,
    PastAnswer,
    PastExecution,
    PastQuestion,
    PastStep,
    PastValues,
    Preserved,
    Restored,
    RestorePlan,
)
from engine.log.redaction import NO_SECRETS
from engine.log.statements import EffectAnswer, EffectHandler, EffectRequest, RunOutcome, RunRequest
from engine.log.store.schema import digest_of
from engine.runtime.environment import Environment, EnvironmentSpec, Limits
from engine.session.tool_records import file_state

PATIENCE = 30.0
"""Seconds after which a test that waits has failed."""
_numbers = count(1)
E = TypeVar("E", bound=Environment)


def spec_for(cwd: Path, **limits: float) -> EnvironmentSpec:
    return EnvironmentSpec(
        cwd=str(cwd),
        redactor=NO_SECRETS,
        directories=(str(cwd),),
        variables={"PATH": os.environ["PATH"], "HOME": str(cwd)},
        limits=Limits(**limits),
    )


def request(
    source: str,
    time_limit: float | None = 20.0,
    label: str | None = None,
    execution_id: str | None = None,
    plan: bool = False,
    index: int = 0,
    keeps: bool = False,
) -> RunRequest:
    number = next(_numbers)
    return RunRequest(
        execution_id=ExecutionId(execution_id or f"ex_{number}"),
        label=label or f"<statement {number}>",
        source=source,
        round_id=number,
        time_limit=time_limit,
        plan=plan,
        index=index,
        keeps=keeps,
    )


async def refuse(asked: EffectRequest) -> EffectAnswer:
    return EffectAnswer(error=ExceptionInfo(type="PermissionError", message=f"no {asked.operation} here"))


AnyBench: TypeAlias = "Bench[Environment]"
Make: TypeAlias = Callable[[], Environment]


class Touched(NamedTuple):
    """A file that a statement said it was about to write, and what the host found there."""

    path: bytes
    digest: str
    data: bytes | None


class Bench(Generic[E]):
    """An environment with what came out of it."""

    def __init__(self, environment: E, cwd: Path) -> None:
        self.environment = environment
        self.cwd = cwd
        self.output: list[tuple[str, str]] = []
        self.touched: list[Touched] = []
        self.on_output: Callable[[], None] | None = None

    async def run(
        self,
        source: str,
        time_limit: float = 20.0,
        effects: EffectHandler = refuse,
        execution_id: str | None = None,
        plan: bool = False,
        index: int = 0,
        keeps: bool = False,
    ) -> RunOutcome:
        asked = request(source, time_limit, execution_id=execution_id, plan=plan, index=index, keeps=keeps)
        with anyio.fail_after(PATIENCE):
            return await self.environment.run(asked, effects, self.take, self.touch)

    def touch(self, path: bytes, looked: Callable[[], None]) -> None:
        """What the host does when it is told: it looks, and the statement waits for that."""
        found = file_state(os.fsdecode(path), LARGEST)
        self.touched.append(Touched(path, found.digest, found.data))
        looked()

    async def command(self, *argv: str, seconds: float = 20.0, kept: int = 20_000, **how: Any) -> CommandOutcome:
        """Runs a program; a single argument is a command for the shell."""
        argv = argv if len(argv) > 1 else ("/bin/bash", "--noprofile", "--norc", "-c", *argv)
        asked = CommandRequest(argv=argv, **{"cwd": str(self.cwd), "seconds": seconds, "kept_bytes": kept, **how})
        with anyio.fail_after(PATIENCE):
            return await self.environment.command(asked, self.take)

    async def interrupted(self, source: str) -> RunOutcome:
        """Runs the source and interrupts it at its first output."""
        self.on_output = self.environment.interrupt
        try:
            return await self.run(source)
        finally:
            self.on_output = None

    @asynccontextmanager
    async def running(self, source: str) -> AsyncIterator[list[RunOutcome]]:
        """Runs the source meanwhile; its outcome is in the list afterwards."""
        outcomes: list[RunOutcome] = []

        async def run() -> None:
            outcomes.append(await self.run(source))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.lowlevel.checkpoint()
            yield outcomes

    async def value(self, source: str) -> str | None:
        """The displayed value of a statement that has to succeed."""
        outcome = await self.run(source)
        assert outcome.status == "ok", outcome.exception
        return outcome.value

    def take(self, stream: str, text: str) -> None:
        self.output.append((stream, text))
        if self.on_output is not None:
            self.on_output()


@asynccontextmanager
async def opened(environment: E, cwd: Path, **limits: float) -> AsyncIterator[Bench[E]]:
    """The environment, started in `cwd`."""
    try:
        with anyio.fail_after(PATIENCE):
            await environment.start(spec_for(cwd, **limits))
        yield Bench(environment, cwd)
    finally:
        with anyio.CancelScope(shield=True):
            await environment.close()


def past(
    source: str,
    status: ExecutionStatus = "ok",
    answers: Sequence[EffectAnswer | PastAnswer] = (),
    label: str = "<statement 1>",
    time_limit: float = 20.0,
) -> PastExecution:
    """An execution that a history has; one that was stopped does not run again."""
    return PastExecution(
        request=request(source, time_limit, label),
        status=status,
        again=status in ("ok", "error"),
        answers=tuple(past_answer(each) if isinstance(each, EffectAnswer) else each for each in answers),
        record=Ending(status=status),
    )


_KEPT: dict[BlobDigest, bytes] = {}


def past_answer(answer: EffectAnswer, question: PastQuestion | None = None) -> PastAnswer:
    """The answer as it is recorded; `contents` has its value."""
    if answer.error is not None:
        return PastAnswer(error=answer.error, question=question)
    return PastAnswer(content=kept(msgspec.json.encode(answer.value)), question=question)


def kept(data: bytes) -> BlobDigest:
    """Keeps content for `contents`."""
    digest = digest_of(data)
    _KEPT[digest] = data
    return digest


async def contents(digests: Collection[BlobDigest]) -> Mapping[BlobDigest, bytes | StoreError]:
    """`log.past_values.Contents` of what tests keep."""
    return {digest: _KEPT[digest] for digest in digests if digest in _KEPT}


async def restore(b: Bench[E], *steps: PastStep) -> Restored:
    with anyio.fail_after(PATIENCE):
        return await b.environment.restore(RestorePlan(steps=steps), contents, ended_otherwise)


def ended_otherwise(past: PastExecution, outcome: RunOutcome) -> Differences:
    """What is compared where there is no record: how it ended."""
    why = f" ({outcome.exception.type}: {outcome.exception.message})" if outcome.exception else ""
    if outcome.status == past.status:
        return Differences()
    phrase = f"ended with {outcome.status}{why} instead of {past.status}"
    return Differences(divergences=(Divergence("status", past.status, outcome.status, phrase),))


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds; for what other processes and threads do without telling anybody."""
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 -- there is no event of theirs to wait for
            await anyio.sleep(0.005)


async def preserved(b: Bench[E], *, large: bool = False) -> Preserved:
    """What is kept after the latest statement, with what takes longer."""
    with anyio.fail_after(PATIENCE):
        found = latest = await b.environment.preserve(large)
        while latest.pending:
            await anyio.sleep(0.005)
            latest = await b.environment.collect()
            found = Preserved(groups=found.groups + latest.groups, unkept=found.unkept | latest.unkept)
    return found


def lost_step(found: Preserved, label: str = "<statement 1>", *bound: str) -> PastExecution:
    """A stopped statement that bound what was kept, and `bound`."""
    names = {name for group in found.groups for name in group.names}
    return PastExecution(
        request=request("1 / 0", label=label),
        status="cancelled",
        again=False,
        bound=(*sorted(names | found.unkept.keys()), *bound),
        kept=tuple(PastValues(names=group.names, content=kept(group.data)) for group in found.groups),
        unkept=found.unkept,
    )
