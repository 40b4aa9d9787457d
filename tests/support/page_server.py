"""A served page in this process, and a client of it that sends what a browser would, or what an attacker would."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2

from engine import Host, Model, Settings, Store
from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.redaction import Redactor
from engine.log.store.memory import MemoryStore
from engine.runtime.system.peers import Endpoint, Peer
from session_page.guard import FindPeer
from session_page.server import PageServer, listen
from tests.support.fixed import CountingEntropy
from tests.support.in_process import InProcessEnvironment
from tests.support.sessions import LentStore
from tests.support.workers import PATIENCE

SCRIPT = "document.getElementById('page').textContent = 'a page';"
STYLE = "#page { color: green }"
Message = dict[str, Any]


async def stranger(_server: Endpoint, _client: Endpoint) -> Peer:
    """Every client is a browser, although these tests run in this process."""
    return Peer.STRANGER


class Client:
    """Speaks with a served page."""

    def __init__(self, server: PageServer, http: httpx2.AsyncClient) -> None:
        self.server = server
        self.http = http
        self.token = server.access.token
        self.base = f"http://127.0.0.1:{server.access.port}"

    def headers(self, **more: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.token}",
            **{name.replace("_", "-"): value for name, value in more.items()},
        }

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.http.get(self.base + path, headers=self.headers(**headers))

    async def json(self, path: str) -> Any:
        response = await self.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    async def act(self, session: str, action: str, **fields: object) -> httpx2.Response:
        return await self.http.post(
            f"{self.base}/api/sessions/{session}/actions", headers=self.headers(), json={"action": action, **fields}
        )

    async def done(self, session: str, action: str, **fields: object) -> Any:
        response = await self.act(session, action, **fields)
        assert response.status_code == 200, response.text
        return response.json()

    async def document(self, session: str) -> Any:
        return (await self.json(f"/api/sessions/{session}"))["document"]

    @asynccontextmanager
    async def live(self, session: str, after: int, client: str = "tab") -> AsyncIterator[AsyncIterator[Message]]:
        """The messages of the live stream."""
        path = f"{self.base}/api/sessions/{session}/live?after={after}&client={client}"
        async with self.http.stream("GET", path, headers=self.headers()) as response:
            assert response.status_code == 200, await response.aread()
            yield _messages(response)


async def _messages(response: httpx2.Response) -> AsyncIterator[Message]:
    async for line in response.aiter_lines():
        yield json.loads(line)


async def until(messages: AsyncIterator[Message], is_it: Callable[[Message], bool]) -> list[Message]:
    """Read messages up to the one that is wanted."""
    found: list[Message] = []
    with anyio.fail_after(PATIENCE):
        async for message in messages:
            found.append(message)
            if is_it(message):
                return found
    raise AssertionError(f"the stream ended: {found[-3:]}")


@asynccontextmanager
async def served(
    state: Path,
    store: Store | None = None,
    *,
    model: Model | None = None,
    hidden: Redactor | None = None,
    find_peer: FindPeer = stranger,
    environments: Callable[[], Any] | None = InProcessEnvironment,
    **settings: Any,
) -> AsyncIterator[tuple[Client, Host]]:
    """A page over `store`, whose sessions run in this process unless told otherwise."""
    with anyio.fail_after(PATIENCE * 3):
        opened = store or MemoryStore(SystemClock())
        host = Host(
            Settings(state_dir=state, **settings),
            {},
            environments=environments,
            models=None if model is None else (lambda: model),
            store=LentStore(opened),  # pyright: ignore - it passes on everything but `close`
            entropy=CountingEntropy(),
        )
        async with host:
            server = PageServer(host, opened, hidden or host.redactor, listen(), find_peer=find_peer)
            stop = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, stop)
                limits = httpx2.Limits(max_connections=300)
                async with httpx2.AsyncClient(timeout=PATIENCE, limits=limits) as http:
                    yield Client(server, http), host
                stop.set()


async def session_of(host: Host, place: Path, *sources: str) -> SessionId:
    """A session that ran these statements and was closed."""
    session = await host.sessions.create(str(place))
    for source in sources:
        await session.cell(source)
    await host.sessions.close(session.session_id)
    return session.session_id
