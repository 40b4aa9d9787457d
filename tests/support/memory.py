"""A client of the agent without a process: a real `serve` over byte pipes in memory, in the test's own event loop."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from acp_adapter.jsonrpc.lines import Line, LineDecoder
from acp_adapter.server import serve, serve_client
from acp_adapter.sharing import IDLE_SECONDS, QUESTION_SECONDS, Sharing
from engine import Environment, Host, Settings, Store
from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.events.codec import encode
from engine.log.store.memory import MemoryStore
from tests.support.acp_schema import Coverage
from tests.support.fake_editor import FakeEditor
from tests.support.fixed import CountingEntropy
from tests.support.in_process import InProcessEnvironment
from tests.support.sessions import LentStore
from tests.support.transcripts import (
    Message,
    NoAnswerError,
    Transcript,
    answer_line,
    asks_permission,
    is_response_to,
    selected,
)

SECONDS = 20.0
Wanted = Callable[[Message], bool]


class MemoryTransport:
    """One end of two byte pipes in memory."""

    def __init__(self, source: MemoryObjectReceiveStream[bytes], sink: MemoryObjectSendStream[bytes]) -> None:
        self._source = source
        self._sink = sink

    async def receive(self) -> bytes:
        """What was sent in one go; b"" at the end."""
        try:
            return await self._source.receive()
        except anyio.EndOfStream:
            return b""

    async def send(self, data: bytes) -> None:
        """Waits while the other end has too much to read. Raises BrokenPipeError when nobody reads any more."""
        try:
            await self._sink.send(data)
        except anyio.BrokenResourceError:
            raise BrokenPipeError from None

    @property
    def has_data(self) -> bool:
        """Whether there is something to receive."""
        return self._source.statistics().current_buffer_used > 0

    def stop_sending(self) -> None:
        """The other end has no more to receive."""
        self._sink.close()

    def close(self) -> None:
        """Nobody sends or receives here any more."""
        self._source.close()
        self._sink.close()


def connected_transports(capacity: float = math.inf) -> tuple[MemoryTransport, MemoryTransport]:
    """Two ends that are joined; `capacity` is how many writes a reader may be behind."""
    to_left, from_right = anyio.create_memory_object_stream[bytes](capacity)
    to_right, from_left = anyio.create_memory_object_stream[bytes](capacity)
    return MemoryTransport(from_right, to_right), MemoryTransport(from_left, to_left)


class Client(Transcript):
    """An editor in front of the agent."""

    def __init__(
        self, transport: MemoryTransport, coverage: Coverage | None = None, permission: str | None = "allow_once"
    ) -> None:
        """`permission` is the option chosen whenever the agent asks; None leaves the answer to the test."""
        super().__init__(coverage)
        self.permission = permission
        self.editor: FakeEditor | None = None
        """Answers what the agent asks of files."""
        self.ended = anyio.Event()
        """Set when the agent has ended."""
        self._transport = transport
        self._decoder = LineDecoder()
        self._lines: list[bytes] = []

    # --- sending ------------------------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Raw bytes to the agent."""
        await self._transport.send(data)

    async def begin(self, method: str, params: Any) -> int:
        """Sends a request and returns its id without waiting."""
        request_id = self.next_id()
        await self.write(self.line(method, params, request_id))
        return request_id

    async def notify(self, method: str, params: Any) -> None:
        await self.write(self.line(method, params))

    async def answer(self, request: Message, result: Any) -> None:
        await self.write(answer_line(request, result))

    # --- receiving ----------------------------------------------------------------------------------------------------

    async def next(self, seconds: float = SECONDS) -> Message | None:
        """The next message, None at the end of the stream."""
        with anyio.move_on_after(seconds) as scope:
            while not self._lines:
                data = await self._transport.receive()
                if not data:
                    return None
                self._lines += [frame.data for frame in self._decoder.feed(data) if isinstance(frame, Line)]
        if scope.cancelled_caught:
            raise NoAnswerError(f"nothing for {seconds} s after {self.received[-3:]}")
        message = self.take(self._lines.pop(0))
        if asks_permission(message) and self.permission is not None:
            await self.answer(message, selected(self.permission))
        if self.editor is not None and (line := self.editor.answer(message)) is not None:
            await self.write(line)
        return message

    async def until(self, wanted: Wanted, seconds: float = SECONDS) -> Message:
        """The first message from now on that is wanted."""
        with anyio.move_on_after(seconds):
            while True:
                message = await self.next(seconds)
                if message is None:
                    raise NoAnswerError("the agent has left")
                if wanted(message):
                    return message
        raise NoAnswerError(f"not what was wanted for {seconds} s; the last were {self.received[-3:]}")

    async def seen(self, wanted: Wanted) -> Message:
        """The first message that is wanted, received already or to come; updates may precede a response."""
        received = next((message for message in self.received if wanted(message)), None)
        return await self.until(wanted) if received is None else received

    async def response(self, request_id: int | str | None, seconds: float = SECONDS) -> Message:
        """The response to a request that was begun."""
        return await self.until(lambda message: is_response_to(message, request_id), seconds)

    async def call(self, method: str, params: Any, seconds: float = SECONDS) -> Any:
        """Sends a request and returns its result; an error response fails the test."""
        response = await self.response(await self.begin(method, params), seconds)
        assert "result" in response, response
        return response["result"]

    async def responses(self, ids: Iterable[int | str], seconds: float = SECONDS) -> dict[int | str, Message]:
        """The responses to these requests, in the order in which they came; each comes exactly once."""
        wanted = set(ids)
        found: dict[int | str, Message] = {}
        while wanted - set(found):
            message = await self.until(lambda message: "method" not in message and message.get("id") in wanted, seconds)
            assert message["id"] not in found, message
            found[message["id"]] = message
        return found

    async def error(self, method: str, params: Any) -> Message:
        """Sends a request that must fail and returns its error object."""
        response = await self.response(await self.begin(method, params))
        assert "error" in response, response
        return response["error"]

    async def cancelled(self, *prompts: int | str) -> None:
        """Fails unless all of these prompts end as cancelled and nothing follows."""
        for response in (await self.responses(prompts)).values():
            assert response["result"] == {"stopReason": "cancelled"}, response
        await self.quiet()

    async def settled(self) -> None:
        """Reads until nothing more can happen: every task of the loop waits for something."""
        await anyio.wait_all_tasks_blocked()
        while self._lines or self._transport.has_data:
            await self.next()
            await anyio.wait_all_tasks_blocked()

    async def quiet(self) -> None:
        """Fails if anything arrives before every task of the loop waits for something."""
        await anyio.wait_all_tasks_blocked()
        if self._lines or self._transport.has_data:
            raise AssertionError(f"unexpected: {await self.next()!r}")

    # --- the usual beginning ------------------------------------------------------------------------------------------

    async def initialize(self, **capabilities: Any) -> Message:
        return await self.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})

    async def new_session(self, cwd: Path) -> str:
        return (await self.call("session/new", {"cwd": str(cwd), "mcpServers": []}))["sessionId"]

    async def open(self, cwd: Path) -> str:
        """Initialises and opens a session; returns its id."""
        await self.initialize()
        return await self.new_session(cwd)

    async def prompt(self, session_id: str, text: str, *blocks: Message, seconds: float = SECONDS) -> str:
        """Prompts and returns the stop reason."""
        content = [{"type": "text", "text": text}, *blocks]
        result = await self.call("session/prompt", {"sessionId": session_id, "prompt": content}, seconds)
        return result["stopReason"]

    async def load(self, session_id: str, cwd: Path, method: str = "session/load") -> Message:
        """Loads or resumes a session; what it answers."""
        return await self.call(method, {"sessionId": session_id, "cwd": str(cwd), "mcpServers": []})

    async def begin_prompt(self, session_id: str, text: str) -> int:
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
        return await self.begin("session/prompt", params)

    # --- the end ------------------------------------------------------------------------------------------------------

    def stop_writing(self) -> None:
        """The end of the agent's input; what it sends is still read."""
        self._transport.stop_sending()

    async def close(self, seconds: float = SECONDS) -> None:
        """Leaves, and waits until the agent has ended."""
        self._transport.close()
        with anyio.fail_after(seconds):
            await self.ended.wait()


def _words(text: str) -> int:
    """A count of tokens that is good enough here; the exact one takes seconds to load."""
    return len(text.split())


@asynccontextmanager
async def in_memory(
    tmp_path: Path,
    *,
    store: Store | None = None,
    environments: Callable[[], Environment] | None = None,
    permission: str | None = "allow_once",
    coverage: Coverage | None = None,
    capacity: float = math.inf,
    when_ready: Callable[[], None] = lambda: None,
    environ: Mapping[str, str] | None = None,
    must_have_model: bool = True,
    seconds: float = 3 * SECONDS,
    **settings: Any,
) -> AsyncIterator[Client]:
    """An agent that is being served and its client; leaving closes the connection and waits for the agent's end.

    `store` outlives the agent; `settings` are the engine's, such as `model`, and `environ` is the environment that it
    is told of. `must_have_model` is the host's. All of it may take so many `seconds`.
    """
    host = Host(
        Settings(state_dir=tmp_path / "state", **settings),
        environ or {},
        environments=environments or (lambda: InProcessEnvironment(_words)),
        store=MemoryStore(SystemClock()) if store is None else LentStore(store),
        entropy=CountingEntropy(),
        must_have_model=must_have_model,
    )
    ours, theirs = connected_transports(capacity)
    client = Client(theirs, coverage, permission)

    async def run() -> None:
        await serve(ours, host, when_ready)
        ours.close()
        client.ended.set()

    try:
        with anyio.fail_after(seconds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                yield client
                await client.close()
    finally:
        ours.close()
        theirs.close()


def logged(store: Store, session: str) -> list[Message]:
    """The session's log, as the store has it."""
    return [json.loads(encode(event)) for event in store.load(SessionId(session))]


@asynccontextmanager
async def shared_host(
    tmp_path: Path,
    *,
    store: Store | None = None,
    question_seconds: float = QUESTION_SECONDS,
    idle_seconds: float = IDLE_SECONDS,
    **settings: Any,
) -> AsyncIterator[Callable[..., Client]]:
    """A host that many connections share; yields what connects one more client. `client.close()` loses its connection.

    Statements run in threads. `settings` are the engine's.
    """
    state = tmp_path / "state"
    store = store or MemoryStore(SystemClock())
    host = Host(
        Settings(state_dir=state, **settings),
        {},
        environments=lambda: InProcessEnvironment(_words),
        store=LentStore(store),
        entropy=CountingEntropy(),
    )
    ends: list[MemoryTransport] = []
    async with host, anyio.create_task_group() as tasks:
        sharing = Sharing(host, tasks, question_seconds=question_seconds, idle_seconds=idle_seconds)

        def connect(permission: str | None = "allow_once") -> Client:
            ours, theirs = connected_transports()
            ends.extend((ours, theirs))
            client = Client(ours, permission=permission)

            async def run() -> None:
                await serve_client(theirs, host, sharing=sharing)
                theirs.close()
                client.ended.set()

            tasks.start_soon(run)
            return client

        try:
            yield connect
        finally:
            tasks.cancel_scope.cancel()
            for end in ends:
                end.close()
