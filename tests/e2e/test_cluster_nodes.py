"""Several nodes of a Ray cluster and several servers on it, with one PostgreSQL store, and what is lost with each."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import psutil
import pytest

from tests.support import ray_nodes
from tests.support.environments import until
from tests.support.memory import Client
from tests.support.postgresql import Server as Database
from tests.support.remote import Server, add_token, bearer, forget_connections, over_http, over_websocket, serving
from tests.support.transcripts import NoAnswerError

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.anyio, pytest.mark.slow]
forgotten = pytest.fixture(autouse=True)(forget_connections)
SECONDS = 120.0
"""The longest wait for a takeover: Ray notices, the lease runs out, and a host starts."""
POST = {"jsonrpc": "2.0", "id": 5, "method": "session/list", "params": {}}


class World:
    """A cluster of two nodes, a store, two servers and a token."""

    def __init__(self, folder: Path, cluster: ray_nodes.Cluster, address: str) -> None:
        self.folder = folder
        self.cluster = cluster
        self.address = address
        self.token = add_token(folder)
        self.servers: list[Server] = []

    def serve(self, stack: ExitStack) -> Server:
        server = stack.enter_context(
            serving(
                self.folder, "--cluster", self.cluster.address, "--cluster-cpus", "1", "--store", self.address,
                environ=self.cluster.environ,
            )
        )  # fmt: skip
        self.servers.append(server)
        return server


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgresql: Callable[[str], Database]) -> Iterator[World]:
    address = postgresql("18").new_database()
    with ray_nodes.running(2) as cluster, ExitStack() as stack:
        found = World(tmp_path_factory.mktemp("nodes") / "state", cluster, address)
        found.serve(stack)
        found.serve(stack)
        yield found


@asynccontextmanager
async def loaded(server: Server, token: str, session: str, work: Path) -> AsyncIterator[Client]:
    """A client that has loaded the session, as soon as that can be had."""
    with anyio.fail_after(SECONDS):
        while True:
            with suppress(TimeoutError, NoAnswerError, OSError, httpx.HTTPError):
                async with over_websocket(server, token, open_timeout=30) as client:
                    await client.initialize()
                    params = {"sessionId": session, "cwd": str(work), "mcpServers": []}
                    response = await client.response(await client.begin("session/load", params))
                    if "result" in response:
                        yield client
                        return
                    assert "is in use by process" in str(response), response
            await anyio.sleep(0.5)


async def test_two_servers_reach_one_agent(world: World, tmp_path: Path) -> None:
    one, other = world.servers
    async with over_websocket(one, world.token) as client, over_websocket(other, world.token) as second:
        session = await client.open(tmp_path)
        await client.prompt(session, "x = 42")
        await second.initialize()
        await second.load(session, tmp_path)
        assert await second.prompt(session, "x + 1") == "end_turn"
        assert second.text().endswith("43")
        assert len(world.cluster.hosts()) == 1


async def test_a_connection_of_another_server_is_unknown(world: World) -> None:
    one, other = world.servers
    async with over_http(one, world.token) as (client, transport):
        await client.initialize()
        async with httpx.AsyncClient(headers={**bearer(world.token), **transport.headers}, trust_env=False) as http:
            statuses = [(await http.post(f"http://{each.url}", json=POST)).status_code for each in (other, one)]
        assert statuses == [404, 202]


async def test_two_servers_open_one_session_at_once(world: World, tmp_path: Path) -> None:
    async with over_websocket(world.servers[0], world.token) as client:
        session = await client.open(tmp_path)
        await client.prompt(session, "x = 42")
    (host,) = world.cluster.hosts()
    host.kill()
    texts: list[str] = []

    async def ask(server: Server) -> None:
        async with loaded(server, world.token, session, tmp_path) as client:
            assert await client.prompt(session, "x + 1", seconds=SECONDS) == "end_turn"
            texts.append(client.text())

    async with anyio.create_task_group() as tasks:
        for server in world.servers:
            tasks.start_soon(ask, server)
    assert [text[-2:] for text in texts] == ["43", "43"]
    assert len(world.cluster.hosts()) == 1


async def test_a_session_goes_on_on_another_node(world: World, tmp_path: Path) -> None:
    server = world.servers[0]
    async with over_websocket(server, world.token) as client:
        session = await client.open(tmp_path)
        await client.prompt(session, "x = 42")
        (host,) = world.cluster.hosts()
        lost = world.cluster.node_of(host)
        await anyio.to_thread.run_sync(world.cluster.kill, lost)
    async with loaded(server, world.token, session, tmp_path) as again:
        assert await again.prompt(session, "x + 1", seconds=SECONDS) == "end_turn"
        assert again.text().endswith("43")
        (host,) = world.cluster.hosts()
        assert world.cluster.node_of(host) is not lost
    await anyio.to_thread.run_sync(world.cluster.add)
