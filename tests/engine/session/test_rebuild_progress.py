"""While a rebuild takes long it is said which statement of how many runs again."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest

from engine.core.ids import ExecutionId, Minter
from engine.log.past import PastExecution
from engine.log.statements import RunRequest
from engine.session.journal import StatementRerun
from engine.session.live_environment import RebuildProgress
from tests.support.environments import PATIENCE, until
from tests.support.fixed import CountingEntropy, FixedClock
from tests.support.hollow import HollowEnvironment

pytestmark = pytest.mark.anyio


def past(number: int) -> PastExecution:
    execution = ExecutionId(f"ex{number}")
    request = RunRequest(execution_id=execution, label=f"<statement {number}>", source="", index=number)
    return PastExecution(request=request, status="ok")


class Rebuild:
    """A rebuild of the statements 3, 5 and 8, and what is said of it."""

    def __init__(self, first_seconds: float = 0.001) -> None:
        self.environment = HollowEnvironment()
        self.said: list[StatementRerun] = []
        minter = Minter(FixedClock(), CountingEntropy())
        self.progress = RebuildProgress(
            self.said.append, minter, self.environment, [past(number) for number in (3, 5, 8)], first_seconds
        )

    async def reach(self, number: int, said: int) -> None:
        """A statement begins, and it is waited until so much was said."""
        self.environment.rerunning = ExecutionId(f"ex{number}")
        with anyio.fail_after(PATIENCE):
            await until(lambda: len(self.said) >= said)

    @property
    def places(self) -> Sequence[tuple[int, int, int, str]]:
        return [(each.statement, each.place, each.total, each.state) for each in self.said]


async def test_each_statement_that_is_found_at_it_is_said_once_and_then_the_end() -> None:
    rebuild = Rebuild()
    async with rebuild.progress.reporting():
        await rebuild.reach(3, 1)
        await rebuild.reach(8, 2)
        await anyio.lowlevel.checkpoint()
    assert rebuild.places == [(3, 1, 3, "begun"), (8, 3, 3, "running"), (8, 3, 3, "over")]
    assert len({each.tool_call_id for each in rebuild.said}) == 1


async def test_a_rebuild_that_is_given_up_is_said_to_be() -> None:
    rebuild = Rebuild()
    with anyio.CancelScope() as scope:
        async with rebuild.progress.reporting():
            await rebuild.reach(5, 1)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert [state for *_, state in rebuild.places] == ["begun", "given_up"]


async def test_what_is_told_of_elsewhere_ends_it() -> None:
    rebuild = Rebuild()
    async with rebuild.progress.reporting():
        await rebuild.reach(5, 1)
        await rebuild.reach(9, 2)
        assert [state for *_, state in rebuild.places] == ["begun", "over"]
    assert len(rebuild.said) == 2


async def test_of_a_short_rebuild_nothing_is_said() -> None:
    rebuild = Rebuild(first_seconds=PATIENCE)
    async with rebuild.progress.reporting():
        rebuild.environment.rerunning = ExecutionId("ex3")
        await anyio.lowlevel.checkpoint()
    assert not rebuild.said
