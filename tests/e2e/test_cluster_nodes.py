"""Several nodes of a Ray cluster and several servers on it, with one PostgreSQL store, and what is lost with each."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import psutil
import pytest

from acp_adapter.listening.placement import NO_HEAD
from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.store.postgresql.store import PostgresqlStore
from tests.support import ray_nodes
from tests.support.git_origins import Origin, state_of
from tests.support.memory import Client
from tests.support.postgresql import Server as Database
from tests.support.remote import Server, add_token, bearer, forget_connections, over_http, over_websocket, serving
from tests.support.scripts import runs as begins
from tests.support.transcripts import NoAnswerError

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.anyio, pytest.mark.slow]
forgotten = pytest.fixture(autouse=True)(forget_connections)
SECONDS = 120.0
"""The longest wait for a takeover: Ray notices, the lease runs out, and a host starts."""
TURN = ("user_message", "execution_finished", "run_stop")
POST = {"jsonrpc": "2.0", "id": 5, "method": "session/list", "params": {}}


class World:
    """A cluster of two nodes, a store, two servers and a token."""

    def __init__(self, folder: Path, cluster: ray_nodes.Cluster, address: str) -> None:
        self.folder = folder
        self.origin = Origin(folder.parent / "origin")
        self.place = folder.parent / "clones"
        self.cluster = cluster
        self.address = address
        self.token = add_token(folder)
        self.stack = ExitStack()
        self.servers = [self.serve(self.stack), self.serve(self.stack)]

    def serve(self, stack: ExitStack, code: int = 130) -> Server:
        """One more server, which closes sessions soon after their clients have left."""
        options = ("--cluster", self.cluster.address, "--cluster-cpus", "1", "--store", self.address, "--idle", "0.1")
        options += ("--workspaces", f"{self.place}={self.origin.path}")
        environ = self.cluster.environ
        return stack.enter_context(serving(self.folder, *options, environ=environ, code=code))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgresql: Callable[[str], Database]) -> Iterator[World]:
    address = postgresql("18").new_database()
    with ray_nodes.running(2) as cluster:
        found = World(tmp_path_factory.mktemp("nodes") / "state", cluster, address)
        with found.stack:
            yield found


@asynccontextmanager
async def loaded(server: Server, token: str, session: str, work: Path) -> AsyncIterator[Client]:
    """A client that has loaded the session, as soon as that can be had."""
    with anyio.fail_after(SECONDS):
        while True:
            with suppress(TimeoutError, NoAnswerError, OSError, httpx.HTTPError):
                async with over_websocket(server, token, open_timeout=SECONDS) as client:
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
    async with (
        over_websocket(one, world.token, open_timeout=SECONDS) as client,
        over_websocket(other, world.token, open_timeout=SECONDS) as second,
    ):
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
    async with over_websocket(world.servers[0], world.token, open_timeout=SECONDS) as client:
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
    async with over_websocket(server, world.token, open_timeout=SECONDS) as client:
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


async def test_a_clone_is_made_again_on_another_node(world: World) -> None:
    server = world.servers[0]
    async with over_websocket(server, world.token, open_timeout=SECONDS) as client:
        session = await client.open(world.place)
        clone = world.place / session
        await client.prompt(session, "x = 42; w = write('a.txt', 'two'), write('new.txt', 'new')")
        before = state_of(clone)
        (host,) = world.cluster.hosts()
        await anyio.to_thread.run_sync(world.cluster.kill, world.cluster.node_of(host))
    shutil.rmtree(clone)  # another machine does not have it
    async with loaded(server, world.token, session, world.place) as again:
        assert state_of(clone) == before
        assert await again.prompt(session, "x + 1", seconds=SECONDS) == "end_turn"
        assert again.text().endswith("43")
    await anyio.to_thread.run_sync(world.cluster.add)


async def test_a_host_that_was_stopped_is_replaced_and_writes_nothing(world: World, tmp_path: Path) -> None:
    async with over_websocket(world.servers[0], world.token, open_timeout=SECONDS) as sleeper:
        session = await sleeper.open(tmp_path)
        await sleeper.prompt(session, "x = 42")
        (host,) = world.cluster.hosts()
        with stopped([host, *host.children(recursive=True)]) as processes:
            async with loaded(world.servers[1], world.token, session, tmp_path) as again:
                await takes_over(world, processes, again, session)


async def test_a_node_that_was_stopped_writes_nothing_and_leaves_nothing(world: World, tmp_path: Path) -> None:
    async with over_websocket(world.servers[0], world.token, open_timeout=SECONDS) as sleeper:
        session = await sleeper.open(tmp_path)
        await sleeper.prompt(session, "x = 42")
        await sleeper.begin_prompt(session, "import time; time.sleep(1); x = 0")
        await sleeper.until(begins)
        (host,) = world.cluster.hosts()
        node = world.cluster.node_of(host)
        with stopped([psutil.Process(node.process.pid), *node.family()]) as processes:
            async with loaded(world.servers[1], world.token, session, tmp_path) as again:
                await takes_over(world, processes, again, session)
    await anyio.to_thread.run_sync(world.cluster.wait, node)
    await anyio.to_thread.run_sync(world.cluster.add)


@contextmanager
def stopped(processes: Sequence[psutil.Process]) -> Iterator[Sequence[psutil.Process]]:
    for each in processes:
        each.suspend()
    try:
        yield processes
    finally:
        resume(processes)


def resume(processes: Sequence[psutil.Process]) -> None:
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.resume()


async def takes_over(world: World, sleepers: Sequence[psutil.Process], client: Client, session: str) -> None:
    """The session goes on here, and its old processes wake up, write nothing and end."""
    assert await client.prompt(session, "x + 1", seconds=SECONDS) == "end_turn"
    assert client.text().endswith("43")
    before = stored(world.address, session)
    resume(sleepers)
    with anyio.fail_after(SECONDS):
        while any(map(is_alive, sleepers)):  # noqa: ASYNC110 -- they tell nobody
            await anyio.sleep(0.05)
    assert stored(world.address, session) == before
    assert await client.prompt(session, "x + 2") == "end_turn"
    assert client.text().endswith("44")


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def stored(address: str, session: str) -> list[tuple[str, str]]:
    """Kinds and ids of what a turn stores."""
    with closing(PostgresqlStore(address, SystemClock())) as store:
        events = store.load(SessionId(session))
        return [(each.kind, each.event_id) for each in events if each.kind in TURN]


async def test_an_agent_that_nobody_uses_ends_and_comes_back(world: World, tmp_path: Path) -> None:
    async with over_websocket(world.servers[0], world.token, open_timeout=SECONDS) as client:
        session = await client.open(tmp_path)
        await client.prompt(session, "x = 42")
    with anyio.fail_after(SECONDS):
        while actors(world):  # noqa: ASYNC110 -- they tell nobody
            await anyio.sleep(0.1)
    async with loaded(world.servers[0], world.token, session, tmp_path) as again:
        assert await again.prompt(session, "x + 1", seconds=SECONDS) == "end_turn"
        assert again.text().endswith("43")
        assert len(actors(world)) == 2


def is_actor(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("HostActor" in word for word in process.cmdline())
    return False


def actors(world: World) -> list[psutil.Process]:
    """The processes of actors and hosts."""
    found = [each for node in world.cluster.nodes for each in node.family()]
    return [each for each in found if ray_nodes.is_host(each) or is_actor(each)]


async def test_sessions_outlive_the_cluster_of_a_lost_head(world: World, tmp_path: Path) -> None:
    world.stack.close()
    with ExitStack() as stack:
        server = world.serve(stack, code=1)
        async with over_websocket(server, world.token, open_timeout=SECONDS) as client:
            session = await client.open(tmp_path)
            await client.prompt(session, "x = 42")
            await anyio.to_thread.run_sync(world.cluster.head.kill)
            assert await client.prompt(session, "x + 1") == "end_turn"
            await anyio.to_thread.run_sync(server.process.wait, SECONDS)
        for node in [*world.cluster.nodes]:
            await anyio.to_thread.run_sync(world.cluster.wait, node)
    assert any(NO_HEAD in line for line in server.log)
    await anyio.to_thread.run_sync(world.cluster.start_head)
    await anyio.to_thread.run_sync(world.cluster.add, 1)
    with ExitStack() as stack:
        server = world.serve(stack)
        async with loaded(server, world.token, session, tmp_path) as again:
            assert await again.prompt(session, "x + 2", seconds=SECONDS) == "end_turn"
            assert again.text().endswith("44")
