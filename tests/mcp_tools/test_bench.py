"""What a session is asked for only once: looks between two events, and what a short text costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from engine import BranchId, ExecutionId, Looked, NamespaceDiff, Seq, StatementId
from engine.core.execution import TypeInfo
from engine.log.events import Event
from engine.log.events.execution import ExecutionFinished
from engine.log.events.going_back import HeadMoved
from mcp_tools.bench import Bench

pytestmark = pytest.mark.anyio


class Asked:
    """A session that notes what it is asked; `meanwhile` is what happens during its next look."""

    def __init__(self) -> None:
        self.position = 0
        self.asked: list[object] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def look(self, names: Collection[str], tokens: int | None) -> Looked:
        self.asked.append((tuple(names), tokens))
        found = Looked(stale=(str(len(self.asked)),))
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found

    async def count(self, texts: Sequence[str]) -> list[int]:
        self.asked.append(tuple(texts))
        return [len(text) for text in texts]


async def test_a_look_is_kept_until_something_happens() -> None:
    session = Asked()
    bench = Bench(cast("Any", session))
    first = await bench.look()
    assert await bench.look() is first
    shown = await bench.look(["a"], 5)
    assert await bench.look(["a"], 5) is shown is not first
    assert session.asked == [((), None), (("a",), 5)]
    session.position += 1
    assert await bench.look() is not first


async def test_a_look_that_something_overtakes_is_not_kept() -> None:
    session = Asked()
    bench = Bench(cast("Any", session))

    async def meanwhile() -> None:
        session.position += 1
        await bench.look(["b"])

    session.meanwhile = meanwhile
    overtaken = await bench.look(["a"])
    assert await bench.look(["a"]) is not overtaken


async def test_no_more_looks_are_kept_than_there_is_room_for() -> None:
    session = Asked()
    bench = Bench(cast("Any", session))
    for _ in range(2):
        for number in range(100):
            await bench.look([str(number)])
    assert 100 < len(session.asked) < 200


async def test_what_a_text_costs_is_counted_once() -> None:
    session = Asked()
    bench = Bench(cast("Any", session))
    assert await bench.costs(["a", "bb", "a"]) == [1, 2, 1]
    assert await bench.costs(["bb", "ccc"]) == [2, 3]
    assert await bench.costs([]) == []
    assert session.asked == [("a", "bb"), ("ccc",)]
    for number in range(3_000):
        assert await bench.costs([str(number)]) == [len(str(number))]
    assert await bench.costs(["a"]) == [1]
    assert session.asked[-1] == ("a",)


def stamped(*events: Event) -> list[Event]:
    return [replace(event, seq=Seq(seq)) for seq, event in enumerate(events)]


def test_the_handles_are_those_of_the_branch_that_is_active() -> None:
    def bound(name: str) -> ExecutionFinished:
        diff = NamespaceDiff(added={name: TypeInfo(type_name="ViewHandle", short_repr="")})
        return ExecutionFinished(
            execution_id=ExecutionId(name),
            statement_id=StatementId(name),
            status="ok",
            started_at=1,
            ended_at=1,
            diff=diff,
        )

    class Log:
        events = stamped(bound("a"), bound("b"))
        path = events

        def since(self, position: int) -> Sequence[Event]:
            return self.events[position:]

    log = Log()
    bench = Bench(cast("Any", log))
    assert bench.handles.names() == ["a", "b"]
    log.events = stamped(*log.events, HeadMoved(branch=BranchId("b1"), left=BranchId("main"), statement=1), bound("c"))
    log.path = [log.events[0], *log.events[2:]]
    assert bench.handles.names() == ["a", "c"]
    log.events = log.path = [*log.events, bound("d")]
    assert bench.handles.names() == ["a", "c", "d"]
