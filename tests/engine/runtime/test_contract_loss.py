"""Contract: why a namespace is gone, and requests without one."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine.runtime.environment import Environment
from tests.support.environments import PATIENCE, Bench, spec_for, until
from tests.support.in_process import InProcessEnvironment

pytestmark = pytest.mark.anyio


async def test_a_namespace_that_lives_or_was_ended_as_asked_has_no_loss(b: Bench[Environment]) -> None:
    assert await b.environment.loss() is None
    await b.run("x = 1")
    assert await b.environment.loss() is None
    await b.environment.end()
    assert await b.environment.loss() is None


async def test_a_namespace_that_a_request_given_up_cost_is_named_until_the_next_one_begins(
    b: Bench[Environment], tmp_path: Path
) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await b.environment.look()
    assert not b.environment.alive
    assert await b.environment.loss() == "a request to its worker was given up"
    await b.environment.start(spec_for(tmp_path))
    assert await b.environment.loss() is None


async def test_a_namespace_lost_between_statements_is_named_by_how_its_worker_ended(b: Bench[Environment]) -> None:
    if isinstance(b.environment, InProcessEnvironment):
        pytest.skip("`os._exit` would end the test process")
    await b.run("import os, threading; threading.Timer(0.05, os._exit, (7,)).start()")
    with anyio.fail_after(PATIENCE):
        await until(lambda: not b.environment.alive)
    assert await b.environment.loss() == "the worker exited with code 7"
    assert await b.environment.loss() == "the worker exited with code 7"


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
