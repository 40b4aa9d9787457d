"""The head of a Ray cluster that keeps its state in Redis is lost, and comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import psutil
import pytest

from tests.support import ray_nodes, redis_server
from tests.support.postgresql import Server as Database
from tests.support.remote import add_token, forget_connections, over_websocket, serving
from tests.support.transcripts import NoAnswerError

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.anyio, pytest.mark.slow]
forgotten = pytest.fixture(autouse=True)(forget_connections)
SECONDS = 240.0


async def test_a_head_with_redis_comes_back_with_its_agents(
    tmp_path: Path, postgresql: Callable[[str], Database]
) -> None:
    state = tmp_path / "state"
    token = add_token(state)
    store = postgresql("18").new_database()
    with redis_server.running(tmp_path) as redis, ray_nodes.running(1, redis=redis) as cluster:
        (node,) = cluster.nodes
        options = ("--cluster", cluster.address, "--cluster-cpus", "1", "--store", store)
        with serving(state, *options, environ=cluster.environ) as server:
            async with over_websocket(server, token, open_timeout=SECONDS) as client:
                session = await client.open(tmp_path)
                await client.prompt(session, "x = 42")
                (host,) = cluster.hosts()
                await anyio.to_thread.run_sync(cluster.head.kill)
                assert await client.prompt(session, "x + 1") == "end_turn"
                await anyio.to_thread.run_sync(cluster.start_head)
                assert await client.prompt(session, "x + 1") == "end_turn"
            kill_actor_of(host)  # which a head without its state does not know, and does not start again
            with anyio.fail_after(SECONDS):
                while True:
                    try:
                        async with over_websocket(server, token, open_timeout=SECONDS) as again:
                            await again.initialize()
                            await again.load(session, tmp_path)
                            assert await again.prompt(session, "x + 2", seconds=SECONDS) == "end_turn"
                            assert again.text().endswith("44")
                            break
                    except (TimeoutError, NoAnswerError, OSError, httpx.HTTPError):
                        await anyio.sleep(0.5)  # the lease of the lost agent
            assert (server.process.poll(), node.process.poll()) == (None, None)
            assert cluster.hosts() != [host]


def kill_actor_of(host: psutil.Process) -> None:
    actor = host.parent()
    assert actor is not None
    actor.kill()
