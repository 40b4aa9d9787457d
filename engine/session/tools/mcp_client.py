"""One connection to an MCP server through the SDK's client: HTTP client, transports, tools, resources and prompts.

What comes from the server leaves here as plain data. Must not know sessions, permissions, or how a program is started.
The SDK takes half a second to import, so this module is loaded with a session's first server. It is long, because no
other module of the engine may import the SDK. Used by `session.servers`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, Literal, TypeVar

import anyio
import httpx2
import msgspec
from mcp import MCPError
from mcp.client import Client, ClientRequestContext, IncomingMessage, Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    PaginatedResult,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    TextContent,
    ToolListChangedNotification,
    jsonrpc_message_adapter,
)
from pydantic import BaseModel, ValidationError

from ...core.mcp_servers import HttpServer
from ...core.plain_data import clean
from ...core.programs import ServerProcess
from ...log.forms import Field, FormAnswer
from .mcp_forms import fields_of, wire_values
from .mcp_listing import Listing, listing
from .mcp_sampling import Sampled, Sampling, sampling_of

# --- HTTP client ------------------------------------------------------------------------------------------------------

LONGEST_ANSWER: Final = 16 << 20
_CONNECT_SECONDS: Final = 20.0
_SILENT_SECONDS: Final = 300.0
"""An HTTP stream without a byte for this long is given up."""
_TOO_LARGE: Final = f"the answer has more than {LONGEST_ANSWER >> 20} MiB"
_COMPRESSED: Final = "the answer is compressed, which was not requested"


class MessageClient(httpx2.AsyncClient):
    """The HTTP client of the SDK's transports for one server: limits answers, and notices undelivered messages.

    The SDK reads a whole JSON answer before anyone can check it, so the limit applies here, during the read. Answers
    must be uncompressed, because a small compressed answer can expand to any size. (The SDK limits each event of an
    event stream.) `lost` is set when a message was not delivered: over SSE the SDK reports that to nobody, and no
    answer will come.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        plain = httpx2.Headers(headers)
        plain["Accept-Encoding"] = "identity"
        super().__init__(headers=plain, timeout=httpx2.Timeout(_CONNECT_SECONDS, read=_SILENT_SECONDS))
        self.lost = anyio.Event()
        self._rate = _Rate()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Raises httpx2.HTTPError. Reading the answer raises that too, and httpx2.StreamError for a refused one."""
        failed = self.lost.set if request.method == "POST" else _ignore
        try:
            response = await super().send(request, **options)
        except httpx2.HTTPError:
            failed()
            raise
        if not response.is_success and not _goes_on(response):
            failed()
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Answer(response, response.stream, failed, self._rate)
        return response


def _ignore() -> None:
    """Do nothing, because the reader of an event stream notices its end."""


def _goes_on(response: httpx2.Response) -> bool:
    """Whether it redirects the same message to the same host."""
    following = response.next_request
    sent = response.request
    return following is not None and (following.method, following.url.host) == (sent.method, sent.url.host)


class _Answer(httpx2.AsyncByteStream):
    """The body of a response, within its limit. An event stream has no end, so its rate is limited."""

    def __init__(
        self, response: httpx2.Response, stream: httpx2.AsyncByteStream, failed: Callable[[], None], rate: _Rate
    ) -> None:
        self._headers = response.headers
        self._stream = stream
        self._failed = failed
        self._rate = rate

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            left = self._most()
            async for piece in self._stream:
                left -= len(piece)
                if left < 0:
                    raise httpx2.StreamError(_TOO_LARGE)
                if math.isinf(left):
                    await self._rate.count(len(piece))
                yield piece
        except (httpx2.HTTPError, httpx2.StreamError):
            self._failed()
            raise

    def _most(self) -> float:
        """The largest accepted size in bytes."""
        if self._headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.StreamError(_COMPRESSED)
        if self._headers.get("content-type", "").lower().startswith("text/event-stream"):
            return math.inf
        if float(self._headers.get("content-length", 0)) > LONGEST_ANSWER:  # h11 has checked that it is a number
            raise httpx2.StreamError(_TOO_LARGE)
        return LONGEST_ANSWER

    async def aclose(self) -> None:
        await self._stream.aclose()


# --- transports: pipes, streamable HTTP, SSE --------------------------------------------------------------------------
#
# A line over pipes has at most LONGEST_LINE bytes. Input is read at a limited rate, so a flood costs a limited part of
# one processor, and its sender waits. Lines that are not messages are dropped, because programs print banners.
#
# The SDK handles each request of a server in a task, which lasts until the transport takes its answer. A server that
# reads no answers can make any number of them, so a connection ends when too many of its requests are unanswered.

LONGEST_LINE: Final = 16 << 20
MOST_MESSAGES: Final = 200
MOST_BYTES: Final = 4 << 20
WINDOW_SECONDS: Final = 0.1
"""At most MOST_MESSAGES or MOST_BYTES are read in this time."""
MOST_UNANSWERED: Final = 100
"""Requests of a server without an answer, at a time."""
MOST_UNANSWERED_BYTES: Final = 32 << 20
TOO_MANY_UNANSWERED: Final = "the server sends requests, and does not accept the answers"
_FLUSH_SECONDS: Final = 0.5

Incoming = SessionMessage | Exception
Streams = tuple[Any, Any]
"""The streams to read and to write messages, as in the SDK's `Transport`."""

# Because the SDK's log messages may contain secrets: URLs, headers, answers.
for _name in ("mcp.client", "mcp.shared", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


@asynccontextmanager
async def over_pipes(process: ServerProcess, ended: anyio.Event) -> AsyncGenerator[Streams]:
    """The streams of a server program, which is stopped at the end. `ended` is set when its output ends.

    Raises:
        OSError: it could not be started; raised when the streams are used.
    """
    incoming_sender, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, outgoing_receiver = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()
    unanswered = _Unanswered()

    async def read() -> None:
        try:
            async with incoming_sender:
                async for line in _lines(process):
                    message = _message(line)
                    if message is not None:
                        unanswered.note(message)
                        await incoming_sender.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the reader is gone
        finally:
            ended.set()

    async def write() -> None:
        try:
            async with outgoing_receiver:
                async for message in outgoing_receiver:
                    await process.send(
                        message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                    )
        except OSError:
            await incoming_sender.aclose()  # because no answer will come
        finally:
            written.set()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            try:
                yield incoming, _Outgoing(outgoing, unanswered)
            finally:
                with anyio.CancelScope(shield=True):
                    incoming.close()
                    outgoing.close()
                    with anyio.move_on_after(_FLUSH_SECONDS):
                        await written.wait()
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await process.stop()


async def _lines(process: ServerProcess) -> AsyncGenerator[bytes]:
    """The lines of its output. Raises ValueError for a line that is too long, and OSError."""
    buffer, rate = bytearray(), _Rate()
    while data := await process.receive():
        looked_at = len(buffer)
        buffer += data
        start = 0
        while (end := buffer.find(b"\n", max(start, looked_at))) >= 0:
            await rate.count(end - start)
            yield bytes(buffer[start:end])
            start = end + 1
        del buffer[:start]
        if len(buffer) > LONGEST_LINE:
            raise ValueError(f"the server sent a line of more than {LONGEST_LINE >> 20} MiB")


class _Rate:
    """Limits the rate of reading."""

    def __init__(self) -> None:
        self._since = anyio.current_time()
        self._messages = self._bytes = 0

    async def count(self, size: int) -> None:
        """Count a message of `size` bytes; wait if the limit is reached."""
        left = self._since + WINDOW_SECONDS - anyio.current_time()
        if left <= 0:
            self._since, self._messages, self._bytes = anyio.current_time(), 0, 0
        elif self._messages >= MOST_MESSAGES or self._bytes >= MOST_BYTES:
            await anyio.sleep(left)
            self._since, self._messages, self._bytes = anyio.current_time(), 0, 0
        self._messages += 1
        self._bytes += size


class _Unanswered:
    """The requests of a server that have no answer yet."""

    def __init__(self) -> None:
        self._sizes: dict[str, list[int]] = {}
        """The bytes of each, by their id as text, because the SDK compares ids so."""

    def note(self, incoming: Incoming) -> None:
        """Note a request, or its cancellation: the SDK ends its task, and sends no answer. Raises ValueError."""
        message = incoming.message if isinstance(incoming, SessionMessage) else None
        if isinstance(message, JSONRPCRequest):
            self._sizes.setdefault(str(message.id), []).append(len(message.model_dump_json()))
            sizes = [size for each in self._sizes.values() for size in each]
            if len(sizes) > MOST_UNANSWERED or sum(sizes) > MOST_UNANSWERED_BYTES:
                raise ValueError(TOO_MANY_UNANSWERED)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = str((message.params or {}).get("requestId"))
            if len(self._sizes.get(cancelled, ())) == 1:  # of several with one id, the SDK ends only the last
                del self._sizes[cancelled]

    def note_answer(self, outgoing: SessionMessage) -> None:
        """Note that the transport has taken a message."""
        message = outgoing.message
        if isinstance(message, JSONRPCResponse | JSONRPCError) and (sizes := self._sizes.get(str(message.id))):
            sizes.pop()
            if not sizes:
                del self._sizes[str(message.id)]


class _Outgoing:
    """The stream of outgoing messages, which notes the answers."""

    def __init__(self, stream: Any, unanswered: _Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    async def send(self, message: SessionMessage, /) -> None:
        await self._stream.send(message)
        self._unanswered.note_answer(message)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _Outgoing:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        await self._stream.__aexit__(*failure)


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


@asynccontextmanager
async def over_http(server: HttpServer, ended: anyio.Event) -> AsyncGenerator[Streams]:
    """The streams of a server at a URL. `ended` is set when it sends no more, or accepts no more."""
    client = MessageClient(server.headers)
    sender, receiver = anyio.create_memory_object_stream[Incoming](0)
    unanswered = _Unanswered()

    async def pass_on(incoming: Any) -> None:
        rate = _Rate()
        try:
            async for message in incoming:
                await rate.count(0)  # `client` counts the bytes
                unanswered.note(message)
                await sender.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the reader is gone
        finally:
            ended.set()
            sender.close()

    async def give_up() -> None:
        await client.lost.wait()
        # Because no answer will come. Over streamable HTTP the SDK answers each failed message.
        ended.set()
        sender.close()

    transport = _sse(server, client) if server.transport == "sse" else _streamable(server, client)
    async with transport as (incoming, outgoing), anyio.create_task_group() as tasks:
        tasks.start_soon(pass_on, incoming)
        if server.transport == "sse":
            tasks.start_soon(give_up)
        yield receiver, _Outgoing(outgoing, unanswered)
        tasks.cancel_scope.cancel()


def _sse(server: HttpServer, client: MessageClient) -> Transport:
    def made(headers: Any = None, timeout: Any = None, auth: Any = None) -> MessageClient:
        del headers, timeout, auth  # which the client already has
        return client

    return sse_client(server.url, httpx_client_factory=made)


@asynccontextmanager
async def _streamable(server: HttpServer, client: MessageClient) -> AsyncGenerator[Streams]:
    async with client, streamable_http_client(server.url, http_client=client) as streams:
        yield streams


# --- connection -------------------------------------------------------------------------------------------------------

ANSWER_BYTES: Final = 16 << 20
"""The largest answer of a tool, as JSON."""
MOST_BLOCKS: Final = 1_000
"""The most parts of an answer. Each is searched for secrets, and shown, by itself."""
_MOST_PAGES: Final = 100
_REQUEST_SECONDS: Final = 30.0
"""The limit of requests that are not calls."""

_FORGOTTEN: Final = (INVALID_REQUEST, "Session terminated")
"""The SDK's error when an HTTP server has forgotten the session."""

_CHANGES: Final = (ToolListChangedNotification, ResourceListChangedNotification, PromptListChangedNotification)
Heard = Callable[[str], None]
"""Receives each line of progress."""


Fill = Callable[[str, Sequence[Field]], Awaitable[FormAnswer]]
"""Asks the user a message with fields. Raises ValueError if the form cannot be shown."""
Sample = Callable[[Sampling], Awaitable[Sampled | None]]
"""Gets a reply of the model; None if the user does not allow it. Raises RuntimeError if there is none."""
MOST_SAMPLES: Final = 5
"""Requests of a server for replies during one call."""
TOO_MANY_SAMPLES: Final = f"a call may ask for at most {MOST_SAMPLES} replies"
REFUSED: Final = "the user did not allow the request"
_REFUSED_CODE: Final = -1
"""As the specification of sampling has it."""
MOST_FORMS: Final = 20
"""Forms of a server during one call."""
NO_CALL: Final = "the user can only be asked during a tool call"
TOO_MANY_FORMS: Final = f"a call may ask the user at most {MOST_FORMS} times"
_ACTIONS: Final[Mapping[str, Literal["accept", "decline", "cancel"]]] = {
    "accepted": "accept",
    "declined": "decline",
    "cancelled": "cancel",
}


T = TypeVar("T")


class _Call:
    """A running call: its time limit without progress, and what its server asks of user and model meanwhile.

    Its requests are handled one after the other. The time limit rests while one waits, and they end with the call.
    """

    def __init__(self, seconds: float, fill: Fill | None, sample: Sample | None = None) -> None:
        self._seconds = seconds
        self._fill = fill
        self._sample = sample
        self._forms = self._samples = 0
        self._open: set[anyio.CancelScope] = set()
        self._turn = anyio.Lock()
        self._is_over = False
        self._idle = anyio.Event()
        self.scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)

    def progressed(self) -> None:
        """Begin the time limit again."""
        if not self._open:
            self.scope.deadline = anyio.current_time() + self._seconds

    async def fill(self, message: str, fields: Sequence[Field]) -> FormAnswer | None:
        """Return the user's answer; None if the call ended first, or has no user or too many forms."""
        if self._fill is None or self._forms >= MOST_FORMS or self._is_over:
            return None
        self._forms += 1
        return await self._beside(partial(self._fill, message, fields))

    async def sample(self, wanted: Sampling) -> Sampled | None:
        """Return the model's reply; None if the user does not allow it, or the call ended first.

        Raises:
            RuntimeError: there is no reply.
        """
        if self._sample is None or self._samples >= MOST_SAMPLES or self._is_over:
            raise RuntimeError(TOO_MANY_SAMPLES)
        self._samples += 1
        return await self._beside(partial(self._sample, wanted))

    async def _beside(self, run: Callable[[], Awaitable[T]]) -> T | None:
        self.scope.deadline = math.inf
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                async with self._turn:
                    return await run()
            finally:
                self._open.discard(scope)
                self.progressed()
                if self._is_over and not self._open:
                    self._idle.set()
        return None

    async def close(self) -> None:
        """End the forms that are still open, because nobody waits for their answers."""
        self._is_over = True
        for scope in self._open:
            scope.cancel()
        if self._open:
            with anyio.CancelScope(shield=True):
                await self._idle.wait()


class Connection:
    """A connected server. `ended` is set when it sends no more; `changed` when its offers change.

    Owns timeouts, progress and cancellation of calls, and the translation of their failures.
    """

    def __init__(self, client: Client, ended: anyio.Event) -> None:
        self._client = client
        self._call: _Call | None = None
        """The last call that has not ended. Statements call one tool at a time."""
        self.ended = ended
        self.changed = anyio.Event()

    async def listing(self) -> Listing:
        """Its current tools, resources and prompts. Raises ConnectionError, TimeoutError."""
        offers = self._client.server_capabilities
        tools = await self._all(self._client.list_tools, "tools") if offers.tools else []
        resources = await self._all(self._client.list_resources, "resources") if offers.resources else []
        prompts: list[Mapping[str, Any]] = []
        if offers.prompts:
            with suppress(RuntimeError):  # because the tools are of use without them
                prompts = await self._all(self._client.list_prompts, "prompts")
        return listing(tools, resources, self._client.instructions, prompts=prompts)

    async def _all(self, ask: Callable[..., Awaitable[PaginatedResult]], field: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        cursor, size = None, 0
        for _ in range(_MOST_PAGES):
            page = await _answered(ask(cursor=cursor))
            added = _plain(getattr(page, field))
            found += added
            size += len(msgspec.json.encode(added))
            cursor = page.next_cursor
            if not cursor or size > ANSWER_BYTES:
                break
        return found

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, object],
        seconds: float,
        heard: Heard,
        fill: Fill | None = None,
        sample: Sample | None = None,
    ) -> object:
        """The answer of a tool, as plain data for `runtime.results`.

        `seconds` is the limit without progress. Cancelling the wait cancels the call at the server. `fill` asks the
        user what the server asks during the call, and `sample` the model; that time does not count.

        Raises:
            RuntimeError: the tool failed (with the server's message), or its answer cannot be used.
            ConnectionError: the connection ended; it is unknown whether the call was performed.
            TimeoutError: it took too long.
        """
        call = self._call = _Call(seconds, fill, sample)

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            call.progressed()
            heard(_progress(progress, total, message))

        try:
            with call.scope:
                return _answer(await self._asked(self._client.call_tool(tool, dict(arguments), progress_callback=hear)))
        finally:
            self._call = None if self._call is call else self._call
            await call.close()
        raise TimeoutError(f"the server did not answer within {seconds:g} s, so the call was cancelled")

    async def read(self, uri: str, seconds: float) -> list[Mapping[str, Any]]:
        """The contents of a resource, each with `text` or `blob`. Raises as `call`."""
        with anyio.move_on_after(seconds):
            return _plain((await self._asked(self._client.read_resource(uri))).contents)
        raise TimeoutError(f"the server did not answer within {seconds:g} s")

    async def prompt(self, name: str, arguments: Mapping[str, str], seconds: float) -> list[Mapping[str, Any]]:
        """The messages of a prompt, each with `role` and `content`. Raises as `call`."""
        with anyio.move_on_after(seconds):
            messages = _plain((await self._asked(self._client.get_prompt(name, dict(arguments)))).messages)
            if (size := len(msgspec.json.encode(messages))) > ANSWER_BYTES:
                raise RuntimeError(f"the prompt has {size:,} bytes; at most {ANSWER_BYTES:,} are accepted")
            return messages
        raise TimeoutError(f"the server did not answer within {seconds:g} s")

    async def _asked(self, asked: Awaitable[Any]) -> Any:
        try:
            return await _answered(asked)
        except ConnectionError:
            self.ended.set()  # because a transport of single requests does not notice it
            raise

    async def elicit(self, asked: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Ask the user what the server asks, and return the checked answer."""
        call = self._call
        if call is None:
            return ErrorData(code=INVALID_REQUEST, message=NO_CALL)
        is_form = isinstance(asked, ElicitRequestFormParams)
        message = asked.message if is_form else f"{asked.message}\n\nOpen this page: {asked.url}"
        try:
            fields = fields_of(message, asked.requested_schema if is_form else {})
            answer = await call.fill(message, fields)
        except ValueError as error:
            return ErrorData(code=INVALID_PARAMS, message=f"the form cannot be shown: {error}")
        if answer is None:
            return ErrorData(code=INVALID_REQUEST, message=TOO_MANY_FORMS)
        content: Any = wire_values(fields, answer.values) if answer.outcome == "accepted" and is_form else None
        return ElicitResult(action=_ACTIONS[answer.outcome], content=content)

    async def sample(self, asked: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """Return a reply of the session's model, if the user allows it."""
        call = self._call
        if call is None:
            return ErrorData(code=INVALID_REQUEST, message=NO_CALL)
        try:
            if asked.tools:
                raise ValueError("requests with tools are not supported")
            wanted = sampling_of(asked.system_prompt, _plain(asked.messages), asked.max_tokens)
        except ValueError as error:
            return ErrorData(code=INVALID_PARAMS, message=f"the request cannot be answered: {error}")
        try:
            reply = await call.sample(wanted)
        except RuntimeError as error:
            return ErrorData(code=INTERNAL_ERROR, message=str(error))
        if reply is None:
            return ErrorData(code=_REFUSED_CODE, message=REFUSED)
        return CreateMessageResult(
            role="assistant",
            content=TextContent(text=reply.text),
            model=reply.model,
            stop_reason="maxTokens" if reply.is_cut else "endTurn",
        )

    async def take(self, message: IncomingMessage) -> None:
        """Receive a message that is not an answer."""
        if isinstance(message, _CHANGES):
            self._note_changed()

    async def follow(self) -> None:
        """Listen to the stream of changes that servers of protocol 2026-07-28 offer, until it ends."""
        offers = self._client.server_capabilities
        tools = bool(offers.tools and offers.tools.list_changed)
        resources = bool(offers.resources and offers.resources.list_changed)
        prompts = bool(offers.prompts and offers.prompts.list_changed)
        if tools or resources or prompts:
            with suppress(MCPError, RuntimeError, TimeoutError, httpx2.HTTPError):
                async with self._client.listen(
                    tools_list_changed=tools, resources_list_changed=resources, prompts_list_changed=prompts
                ) as changes:
                    async for _ in changes:
                        self._note_changed()

    def _note_changed(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


@asynccontextmanager
async def connected(
    server: HttpServer | ServerProcess, version: str, *, samples: bool = False
) -> AsyncGenerator[Connection]:
    """Connect to the server. A program is always stopped at the end. `samples`: it may ask for replies of the model.

    Raises:
        OSError: it could not be started or reached.
        RuntimeError: it violates MCP.
    """
    ended = anyio.Event()
    streams: AbstractAsyncContextManager[Streams]
    streams = over_http(server, ended) if isinstance(server, HttpServer) else over_pipes(server, ended)
    found: list[Connection] = []

    async def take(message: IncomingMessage) -> None:
        for connection in found:
            await connection.take(message)

    async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        del context  # which only names the request
        for connection in found:
            return await connection.elicit(params)
        return ErrorData(code=INVALID_REQUEST, message=NO_CALL)

    async def sample(
        context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        del context  # which only names the request
        for connection in found:
            return await connection.sample(params)
        return ErrorData(code=INVALID_REQUEST, message=NO_CALL)

    client = Client(
        streams,
        read_timeout_seconds=None,
        message_handler=take,
        elicitation_callback=elicit,
        sampling_callback=sample if samples else None,
        client_info=Implementation(name="rewindow", version=version),
        cache=None,
    )
    async with client:
        found.append(Connection(client, ended))
        yield found[0]


async def _answered(asked: Awaitable[Any]) -> Any:
    """The answer; failures are raised as Python's exceptions."""
    try:
        return await asked
    except MCPError as error:
        if error.code == CONNECTION_CLOSED or (error.code, error.message) == _FORGOTTEN:
            raise ConnectionError("the connection to the server ended; the request may have been performed") from None
        if error.code == REQUEST_TIMEOUT:
            raise TimeoutError("the server did not answer in time") from None
        raise RuntimeError(error.message or f"the server answered with the error {error.code}") from None
    except httpx2.HTTPError:
        raise ConnectionError("the server cannot be reached") from None
    except ValidationError:
        raise RuntimeError("the server's answer violates MCP") from None


def _answer(result: CallToolResult) -> object:
    if len(result.content) > MOST_BLOCKS:
        raise RuntimeError(f"the answer has {len(result.content):,} parts; at most {MOST_BLOCKS:,} are accepted")
    answer = {"content": _plain(result.content), "data": clean(result.structured_content)}
    if (size := len(msgspec.json.encode(answer))) > ANSWER_BYTES:
        raise RuntimeError(f"the answer has {size:,} bytes; at most {ANSWER_BYTES:,} are accepted")
    if not result.is_error:
        return answer
    texts = [text for block in answer["content"] if isinstance(text := block.get("text"), str)]
    raise RuntimeError("\n".join(texts) or "the tool failed, and the server gave no reason")


def _plain(models: Sequence[BaseModel]) -> list[Mapping[str, Any]]:
    return [clean(model.model_dump(mode="json", by_alias=True, exclude_none=True)) for model in models]


def _progress(done: float, total: float | None, message: str | None) -> str:
    counted = f"{done:g}" if total is None else f"{done:g}/{total:g}"
    return f"{counted} {message}\n" if message else f"{counted}\n"
