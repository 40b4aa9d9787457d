"""Contract: an environment says why there is no namespace any more, where nobody else has said it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine.runtime.environment import Environment
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.environments import PATIENCE, Bench, spec_for, until

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
    if not isinstance(b.environment, WorkerEnvironment):
        return  # no thread of ours ends by itself
    await b.run("import os, threading; threading.Timer(0.05, os._exit, (7,)).start()")
    with anyio.fail_after(PATIENCE):
        await until(lambda: not b.environment.alive)
    assert await b.environment.loss() == "the worker exited with code 7"
    assert await b.environment.loss() == "the worker exited with code 7"
