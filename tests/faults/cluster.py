"""`python -m tests.faults.cluster`: kills parts of a Ray cluster while sessions run on it, and judges what is left.

A cluster of two nodes, two servers and one PostgreSQL database have the sessions of some users. Each session has a
client that runs statements, writes files, loses its connection and comes back, at either server. Meanwhile parts are
killed at random. Then all is left in peace, and each session is judged by its log, its files and its variables
(`cluster_judge`). A seed fixes the faults and the acts, not when processes get there.
"""

from __future__ import annotations

import argparse
import os
import pwd
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import psutil
import psycopg
import websockets
from anyio.abc import TaskGroup

from tests.faults.cluster_judge import Act, audit, read_book, violations
from tests.support import postgresql, ray_nodes
from tests.support.memory import Client
from tests.support.remote import OWN, PROGRAM, Server, add_token, over_websocket, python_for_all
from tests.support.transcripts import NoAnswerError

ACCOUNTS: Final = ("games", "daemon", "bin", "sys")
"""Accounts that every system has; only root can use them."""
SECONDS: Final = 60.0
"""The longest wait for an answer while parts are killed."""
PEACE_SECONDS: Final = 240.0
"""The longest wait for a session when nothing is killed any more."""
_NODES: Final = 2
_SIZE: Final = 4_000
_SHOW: Final = "print('NAMES', sorted((k, v) for k, v in globals().items() if k[:1] == 'v' and k[1:].isdigit()))"
_LOST: Final = (OSError, TimeoutError, NoAnswerError, websockets.WebSocketException, EOFError)
"""How a client sees that its server, its agent or its network is gone."""


@dataclass
class Story:
    """One session: its client's acts, and how they ended."""

    user: str
    work: Path
    random: random.Random
    session: str = ""
    acts: list[Act] = field(default_factory=list[Act])
    wrong: list[str] = field(default_factory=list[str])
    loads: int = 0

    def draw(self) -> Act:
        """The next act: a variable that is made from an earlier one, or a file that is written or edited."""
        number = len(self.acts)
        names = [act.name for act in self.acts if act.is_acknowledged and act.name]
        if self.random.random() < 0.5:
            source = f"{self.random.choice(names)} + {number}" if names else str(number)
            act = Act(f"v{number} = {source}", name=f"v{number}")
        else:
            path = f"f{self.random.randrange(3)}.txt"
            act = Act(f"write({path!r}, '{number} ' * {_SIZE})", path=path, content=f"{number} " * _SIZE)
        self.acts.append(act)
        return act


class World:
    """All parts, which can be killed."""

    def __init__(self, folder: Path, database: postgresql.Server, cluster: ray_nodes.Cluster, users: int) -> None:
        self.folder = folder
        self.database = database
        self.cluster = cluster
        self.address = database.new_database()
        self.prefix = python_for_all() if users > 1 else ()
        accounts = ACCOUNTS[:users] if users > 1 else (OWN,)
        self.accounts = {f"user{number}": account for number, account in enumerate(accounts)}
        self.tokens = {user: add_token(folder / "state", user, account) for user, account in self.accounts.items()}
        self.servers: list[Server] = []
        audit(self.address)

    def add_server(self) -> None:
        options = ("--cluster", self.cluster.address, "--cluster-cpus", "0.2", "--idle", "0.2")
        options += ("--state-dir", str(self.folder / "state"))
        process = subprocess.Popen(
            [PROGRAM, "--listen", "127.0.0.1:0", "--store", self.address, *options],
            stdout=subprocess.DEVNULL,  # of Ray
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.cluster.environ},
            start_new_session=True,
        )
        assert process.stderr is not None
        line = process.stderr.readline()
        while line and "serving" not in line:
            line = process.stderr.readline()
        server = Server(process, line, [])
        self.servers.append(server)

    def kill_server(self, server: Server) -> None:
        self.servers.remove(server)
        server.process.kill()
        server.process.communicate()

    def replace_servers(self) -> None:
        """Start as many servers as there were before some ended."""
        for server in [*self.servers]:
            if server.process.poll() is not None:
                self.kill_server(server)
        while len(self.servers) < 2:
            self.add_server()

    def close(self) -> None:
        for server in [*self.servers]:
            self.kill_server(server)

    def work(self, user: str, number: int) -> Path:
        """A new directory of that user."""
        account = pwd.getpwnam(self.accounts[user])
        place = self.folder / f"{user}-{number}-{secrets.token_hex(4)}"
        place.mkdir(0o700)
        os.chown(place, account.pw_uid, account.pw_gid)
        return place


# --- clients ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def connected(world: World, story: Story, seconds: float = SECONDS) -> AsyncIterator[Client]:
    """A client that has the session open, at one of the servers; a new session if there is none yet."""
    if not world.servers:
        raise NoAnswerError("there is no server")
    server = story.random.choice(world.servers)
    async with over_websocket(server, world.tokens[story.user], open_timeout=seconds) as client:
        await client.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, seconds)
        params = {"cwd": str(story.work), "mcpServers": []}
        if story.session:
            params["sessionId"] = story.session
        method = "session/load" if story.session else "session/new"
        response = await client.response(await client.begin(method, params), seconds)
        if "error" in response:
            note(story, str(response["error"]["message"]))
            raise NoAnswerError(str(response["error"]))
        story.session = story.session or response["result"]["sessionId"]
        story.loads += 1
        yield client


_EXPECTED_REFUSALS: Final = (
    "is in use by",
    "postgresql://",
    "took it over",
    "not saved",
    "is being opened",
    "is closed; load it again",
    "cannot be",
)


def note(story: Story, message: str) -> None:
    """Remember a refusal that no fault explains."""
    if not any(words in message for words in _EXPECTED_REFUSALS):
        story.wrong.append(f"refused: {message:.300}")


async def perform(client: Client, story: Story, act: Act, seconds: float = SECONDS) -> None:
    params = {"sessionId": story.session, "prompt": [{"type": "text", "text": act.text}]}
    response = await client.response(await client.begin("session/prompt", params), seconds)
    if "error" in response:
        act.refusal = str(response["error"]["message"])
        note(story, act.refusal)
        raise NoAnswerError(act.refusal)
    act.reason = response["result"]["stopReason"]


async def live(world: World, story: Story, over: anyio.Event) -> None:
    """Be the client of a session until it is over."""
    while not over.is_set():
        with suppress(*_LOST):
            async with connected(world, story) as client:
                for _ in range(story.random.randint(1, 8)):
                    if over.is_set():
                        return
                    await perform(client, story, story.draw())
                    await anyio.sleep(story.random.uniform(0, 1.0))
        await anyio.sleep(story.random.uniform(0, 1.0))


async def finish(world: World, story: Story) -> None:
    """Show the variables, when nothing is killed any more."""
    with anyio.move_on_after(PEACE_SECONDS):
        while True:
            with suppress(*_LOST):
                async with connected(world, story) as client:
                    act = Act(_SHOW)
                    story.acts.append(act)
                    await perform(client, story, act, PEACE_SECONDS)
                    return
            await anyio.sleep(1)
    story.wrong.append(f"it does not come back: {story.session or 'no session'}")


# --- faults -----------------------------------------------------------------------------------------------------------


class Faults:
    """What can be lost. Each method kills one thing, and starts what must be there again."""

    def __init__(
        self, world: World, seed: int, stories: Sequence[Story], tasks: TaskGroup, log: Callable[[str], None]
    ) -> None:
        """New nodes start in `tasks`."""
        self._world = world
        self._tasks = tasks
        self._changing = anyio.Lock()
        """Held while the cluster's head or its number of nodes changes."""
        self._log = log
        self.random = random.Random(seed)
        self._stories = stories
        self.counts = Counter[str]()
        self._table: Mapping[Callable[[], Awaitable[None]], int] = {
            self.host: 25,
            self.worker: 15,
            self.connections: 15,
            self.takeover: 12,
            self.sleeper: 8,
            self.server: 8,
            self.rivals: 6,
            self.database: 6,
            self.supervisor: 5,
            self.raylet: 3,
            self.node: 3,
            self.head: 2,
        }

    async def one(self) -> None:
        """Kill something, or things that belong together."""
        fault = self.random.choices([*self._table], [*self._table.values()])[0]
        self._log(fault.__name__)
        await fault()
        await anyio.to_thread.run_sync(self._world.replace_servers)

    def _host(self) -> psutil.Process | None:
        hosts = self._world.cluster.hosts()
        return self.random.choice(sorted(hosts, key=lambda each: each.pid)) if hosts else None

    def _kill(self, kind: str, process: psutil.Process | None) -> None:
        if process is not None:
            with suppress(psutil.NoSuchProcess):
                process.kill()
                self.counts[kind] += 1

    async def host(self) -> None:
        self._kill("host", self._host())

    async def worker(self) -> None:
        if (host := self._host()) is not None:
            with suppress(psutil.NoSuchProcess):
                below = host.children(recursive=True)
                self._kill("worker", self.random.choice(below) if below else None)

    async def supervisor(self) -> None:
        if (host := self._host()) is not None:
            with suppress(psutil.NoSuchProcess):
                self._kill("supervisor", host.parent())

    async def server(self) -> None:
        self._world.kill_server(self.random.choice(self._world.servers))
        self.counts["server"] += 1

    async def raylet(self) -> None:
        node = self.random.choice(self._world.cluster.nodes)
        self._kill("raylet", next((each for each in node.family() if each.name() == "raylet"), None))
        await anyio.sleep(self.random.uniform(0, 5))
        await self._replace(node)

    async def node(self) -> None:
        self.counts["node"] += 1
        await self._replace(self.random.choice(self._world.cluster.nodes))

    async def _replace(self, node: ray_nodes.Node) -> None:
        """Kill a node, and start another one, for which only the loss of the last node waits."""
        await anyio.to_thread.run_sync(self._world.cluster.kill, node)
        self._tasks.start_soon(self._add_nodes)
        while not self._world.cluster.nodes:  # noqa: ASYNC110 -- a thread adds them
            await anyio.sleep(0.1)

    async def _add_nodes(self) -> None:
        async with self._changing:
            lacking = _NODES - len(self._world.cluster.nodes)
            await anyio.to_thread.run_sync(self._world.cluster.add, lacking)

    async def head(self) -> None:
        """The head, and then all that cannot live without it, as Ray does it: sometimes before, sometimes itself."""
        cluster = self._world.cluster
        async with self._changing:
            await anyio.to_thread.run_sync(cluster.head.kill)
            self.counts["head"] += 1
            await anyio.sleep(self.random.uniform(0, 1.5 * ray_nodes.RECONNECT_SECONDS))
            for node in [*cluster.nodes]:
                await anyio.to_thread.run_sync(cluster.kill, node)
            for server in [*self._world.servers]:
                await anyio.to_thread.run_sync(self._world.kill_server, server)
            await anyio.to_thread.run_sync(cluster.start_head)
        await self._add_nodes()

    async def connections(self) -> None:
        """One connection to the database, or all."""
        which = "" if self.random.random() < 0.3 else " ORDER BY random() LIMIT 1"
        await self._sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rewindow'" + which
        )
        self.counts["connection"] += 1

    async def _sql(self, statement: str) -> None:
        def run() -> None:
            with psycopg.connect(self._world.address, autocommit=True) as connection:
                connection.execute(statement.encode())

        await anyio.to_thread.run_sync(run)

    async def database(self) -> None:
        how = self.random.choice([signal.SIGINT, signal.SIGQUIT])
        await anyio.to_thread.run_sync(self._world.database.stop, how)
        self.counts["database"] += 1
        await anyio.sleep(self.random.uniform(0, 4))
        await anyio.to_thread.run_sync(self._world.database.start)

    async def sleeper(self) -> None:
        """A host and its processes stop for shorter or longer than a lease, and go on."""
        if (host := self._host()) is None:
            return
        family = [host]
        with suppress(psutil.NoSuchProcess):
            family += host.children(recursive=True)
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        self.counts["sleep"] += 1
        await anyio.sleep(self.random.choice([2, 14, 40]))
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.resume()

    async def takeover(self) -> None:
        """A host, and something more while another host takes its sessions over."""
        await self.host()
        await anyio.sleep(self.random.uniform(0, 14))
        await self.random.choice([self.host, self.worker, self.connections, self.supervisor, self.database])()

    async def rivals(self) -> None:
        """A host, and then two clients that want the same session at two servers at once."""
        open_stories = [story for story in self._stories if story.session]
        if not open_stories:
            return
        story = self.random.choice(open_stories)
        await self.host()

        async def load(server: Server) -> None:
            with suppress(*_LOST):
                async with over_websocket(server, self._world.tokens[story.user], open_timeout=SECONDS) as client:
                    await client.initialize()
                    params = {"sessionId": story.session, "cwd": str(story.work), "mcpServers": []}
                    await client.response(await client.begin("session/load", params), SECONDS)

        with anyio.move_on_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                for server in self._world.servers:
                    tasks.start_soon(load, server)
        self.counts["rivals"] += 1


# --- episodes ---------------------------------------------------------------------------------------------------------


@contextmanager
def world_of(users: int) -> Iterator[World]:
    """A world for the block. Every account can reach its directory."""
    folder = Path(tempfile.mkdtemp(prefix="rw-kills-"))
    folder.chmod(0o755)
    try:
        with ExitStack() as stack:
            prefix = python_for_all() if users > 1 else ()
            database = stack.enter_context(postgresql.running("18"))
            database.directory.chmod(0o711)  # its socket is for every account
            world = World(folder, database, stack.enter_context(ray_nodes.running(_NODES, prefix)), users)
            stack.callback(world.close)
            world.replace_servers()
            yield world
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def episode(world: World, seed: int, kills: int, sessions: int) -> tuple[Counter[str], list[str], list[Story]]:
    """Run new sessions and so many kills; return these by kind, what is wrong, and the stories."""
    users = [*world.tokens]
    stories = [
        Story(user, world.work(user, number), random.Random(seed * 1_000 + number))
        for number, user in ((number, users[number % len(users)]) for number in range(sessions))
    ]
    begun = time.monotonic()

    def log(text: str) -> None:
        acts = sum(act.is_acknowledged for story in stories for act in story.acts)
        print(f"    {time.monotonic() - begun:.0f} s, {acts} acts: {text}", flush=True)

    over = anyio.Event()
    async with anyio.create_task_group() as tasks:
        faults = Faults(world, seed, stories, tasks, log)
        for story in stories:
            tasks.start_soon(live, world, story, over)
        with anyio.fail_after(PEACE_SECONDS):
            while not all(story.loads for story in stories):  # noqa: ASYNC110 -- they do not tell
                await anyio.sleep(0.1)
        log("all sessions are open")
        while faults.counts.total() < kills:
            await anyio.sleep(faults.random.uniform(0, 2))
            await faults.one()
        over.set()
        log("wait for clients")
    log("finish")
    async with anyio.create_task_group() as tasks:
        for story in stories:
            tasks.start_soon(finish, world, story)
    wrong: list[str] = []
    for story in stories:
        book = await anyio.to_thread.run_sync(read_book, world.address, story.session)
        found = [*story.wrong, *violations(story.acts, book, story.work)]
        wrong += [f"{story.session}: {each}" for each in found]
    wrong += [f"a process is left: {each}" for each in await anyio.to_thread.run_sync(strays, world)]
    return faults.counts, wrong, stories


def strays(world: World) -> list[str]:
    """Processes that have lost their parent, and do not end."""
    deadline = time.monotonic() + SECONDS
    while True:
        found: list[str] = []
        for each in ray_nodes.processes(world.cluster.mark):
            with suppress(psutil.NoSuchProcess):
                if each.ppid() == 1:
                    found.append(f"{each.pid} {' '.join(each.cmdline()):.100}")
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="of the first episode; drawn without it")
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--each", type=int, default=25, help="kills of an episode, which has new sessions")
    parser.add_argument("--sessions", type=int, default=20)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    users = len(ACCOUNTS) if os.geteuid() == 0 and shutil.which("unshare") else 1
    counts, failed, acts, loads = Counter[str](), 0, 0, 0
    with world_of(users) as world:
        while counts.total() < options.kills:
            begun = time.monotonic()
            print(f"SEED={seed}", flush=True)
            found, wrong, stories = anyio.run(episode, world, seed, options.each, options.sessions)
            counts += found
            failed += bool(wrong)
            acts += sum(act.is_acknowledged for story in stories for act in story.acts)
            loads += sum(story.loads for story in stories)
            print(f"  {dict(found)}, {time.monotonic() - begun:.0f} s, {counts.total()} kills, {acts} acts", flush=True)
            print(*(f"  WRONG {each}" for each in wrong), sep="\n", flush=True)
            seed += 1
    print(f"{dict(counts)}: {counts.total()} kills, {acts} acts, {loads} loads, {failed} episodes failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
