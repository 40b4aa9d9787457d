"""A handle is gone when the namespace reaches it no more, not when Python gets to know that, in any environment."""

from __future__ import annotations

import pytest

from engine.runtime.environment import Environment
from tests.support.environments import Bench

pytestmark = pytest.mark.anyio
AnyBench = Bench[Environment]
IN_CYCLES = {
    "list": "held = [view(text='some')]; held.append(held)",
    "function": "def held(n=view(text='some')): return held\nheld.itself = held",
    "class": "class held:\n    view = view(text='some')",
}
"""Statements that leave a handle where only the collection of garbage finds that nothing reaches it."""
IN_AN_ERROR = """
def fail():
    at = view(text='some')
    try: 1 / 0
    except ZeroDivisionError as error: seen = error
    return seen
held = fail()
"""
NONE = "no handles; view(path) makes one"


async def handles(b: AnyBench) -> list[str]:
    """What a model is shown."""
    return [row.obj_id for row in (await b.environment.project((), 1000)).handles]


@pytest.mark.slow
@pytest.mark.parametrize("source", IN_CYCLES.values(), ids=IN_CYCLES)
async def test_a_handle_in_a_cycle_is_gone_with_the_statement_that_deletes_it(b: AnyBench, source: str) -> None:
    assert (await b.run(source, index=1)).status == "ok"
    assert await handles(b) == ["view-1.1"]
    assert (await b.run("del held")).status == "ok"
    assert await handles(b) == []


@pytest.mark.parametrize("source", [*IN_CYCLES.values(), IN_AN_ERROR], ids=[*IN_CYCLES, "error"])
async def test_a_handle_in_a_cycle_is_gone_with_the_statement_that_made_it(b: AnyBench, source: str) -> None:
    assert (await b.run(f"{source}\ndel held", index=1)).status == "ok"
    assert await handles(b) == []


@pytest.mark.slow
async def test_a_statement_lists_no_handle_that_it_has_let_go_before(b: AnyBench) -> None:
    assert (await b.run(IN_CYCLES["list"])).status == "ok"
    assert await b.value("del held\nls()") == NONE


@pytest.mark.slow
async def test_a_handle_that_no_name_holds_but_something_else_lives_on(b: AnyBench) -> None:
    source = "import sys\n__kept = view(text='some')\nsys.kept = [view(text='more')]\nx = view(text='last')"
    assert (await b.run(source, index=1)).status == "ok"
    assert (await b.run("del x")).status == "ok"
    try:
        assert await handles(b) == ["view-1.1", "view-1.2"]
    finally:
        assert (await b.run("del sys.kept")).status == "ok"
