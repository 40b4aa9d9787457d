"""The routes of a served page: its shell and bundle, the sessions, one session, its live stream, and actions.

Requests and responses are JSON; `docs/session-page.md` describes them. Must not know who may ask (`guard`), nor how the
server runs (`server`).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.core.errors import EngineError, InvalidRequestError, SessionNotFoundError
from engine.log.redaction import Redactor
from session_page.access import Access
from session_page.actions import Actions, action_of
from session_page.assembly import SCRIPT, SHELL, STYLE, bundle
from session_page.feed import Feed
from session_page.guard import TICKETS, json_response, refusal

logger = logging.getLogger(__name__)

MOST_STREAMS: Final = 120
SLOW_SECONDS: Final = 20.0
"""How long a reader may take for one message of a stream."""
MAX_BODY: Final = 1_000_000
_MOST_FOUND: Final = 200
_MOST_SLOW: Final = 1_000
_MOST_WORD: Final = 100
TOO_MANY: Final = f"This page is open in more than {MOST_STREAMS} tabs that are shown. Close some."
TOO_LONG: Final = f"The request has more than {MAX_BODY:,} bytes."
NOT_JSON: Final = "An action is JSON: Content-Type must be application/json."
USED_TICKET: Final = (
    "This address was used already, or is too old: it is good for one use, within a minute. Use the address that"
    " `rewindow page` printed, or ask for a new one with /page."
)
NO_SUCH: Final = "There is nothing at this address."
NO_CONTENT: Final = "The session has no such content."
FAILED: Final = "The server of this page failed at that. What it could say is in the terminal where it runs."
WAS_SLOW: Final = "This page was disconnected because it did not read for a while. It is up to date again."


class SessionFields(Struct, frozen=True, kw_only=True):
    """A session in the list."""

    session_id: str
    cwd: str
    title: str
    created_at: float
    updated_at: float
    events: int
    size: int
    archived: bool
    is_held: bool


class Sessions:
    """What the routes need of the sessions: their list, and the feed of each."""

    def __init__(
        self, rows: Callable[[], Awaitable[list[SessionFields]]], feed: Callable[[str], Awaitable[Feed]]
    ) -> None:
        self.rows = rows
        """Lists the sessions, most recently used first."""
        self.feed = feed
        """Returns the feed of a session; raises SessionNotFoundError, StoreError."""


class PageApp:
    """The ASGI application behind the guard."""

    def __init__(self, access: Access, sessions: Sessions, actions: Actions, hidden: Redactor) -> None:
        self._access = access
        self._sessions = sessions
        self._actions = actions
        self._hidden = hidden
        self._streams = 0
        self._slow: OrderedDict[str, None] = OrderedDict()
        """The readers that were too slow, by the word that each chose."""
        one = "/api/sessions/{session}"
        routes = [
            Route("/", self._shell, methods=["GET"]),
            Route(f"/{SCRIPT}", self._script, methods=["GET"]),
            Route(f"/{STYLE}", self._style, methods=["GET"]),
            Route(TICKETS, self._handled(self._token), methods=["POST"]),
            Route("/api/sessions", self._handled(self._list), methods=["GET"]),
            Route(one, self._handled(self._session), methods=["GET"]),
            Route(f"{one}/contents/{{digest}}", self._handled(self._content), methods=["GET"]),
            Route(f"{one}/search", self._handled(self._search), methods=["GET"]),
            Route(f"{one}/compare", self._handled(self._compare), methods=["GET"]),
            Route(f"{one}/live", self._handled(self._live), methods=["GET"]),
            Route(f"{one}/actions", self._handled(self._act), methods=["POST"]),
        ]
        self._router = Router(routes, redirect_slashes=False, default=_nothing_here)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)

    def _handled(self, handle: Callable[[Request], Awaitable[ASGIApp]]) -> Callable[[Request], Awaitable[ASGIApp]]:
        """The one place where an error becomes a response."""

        async def handled(request: Request) -> ASGIApp:
            try:
                return await handle(request)
            except SessionNotFoundError as error:
                return self._refusal(404, error)
            except _TooLongError:
                return refusal(413, TOO_LONG)
            except _WrongRequestError as error:
                return self._refusal(400, error)
            except EngineError as error:
                return self._refusal(409, error)
            except ClientDisconnect:
                return refusal(400, NO_SUCH)  # nobody reads it
            except Exception:
                logger.exception("a request to the page failed")
                return refusal(500, FAILED)

        return handled

    def _refusal(self, status: int, error: Exception) -> Response:
        text = self._hidden.redact(str(error))
        return refusal(status, text[:1].upper() + text[1:])

    # --- the page itself ----------------------------------------------------------------------------------------------

    async def _shell(self, _: Request) -> Response:
        return Response(SHELL, media_type="text/html")

    async def _script(self, _: Request) -> Response:
        return Response(bundle().script, media_type="text/javascript")

    async def _style(self, _: Request) -> Response:
        return Response(bundle().style, media_type="text/css")

    async def _token(self, request: Request) -> Response:
        given = _object(await _body(request)).get("ticket")
        token = self._access.redeem(given) if isinstance(given, str) else None
        return refusal(403, USED_TICKET) if token is None else json_response({"token": token})

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def _list(self, _: Request) -> Response:
        return json_response({"sessions": await self._sessions.rows()})

    async def _feed(self, request: Request) -> Feed:
        return await self._sessions.feed(request.path_params["session"])

    async def _session(self, request: Request) -> Response:
        return Response(await (await self._feed(request)).whole(), media_type="application/json")

    async def _content(self, request: Request) -> Response:
        content = await (await self._feed(request)).content(request.path_params["digest"])
        return refusal(404, NO_CONTENT) if content is None else json_response(content)

    async def _search(self, request: Request) -> Response:
        text = request.query_params.get("q", "")
        if not text.strip():
            raise _WrongRequestError("there is nothing to search for")
        found = await (await self._feed(request)).search(text, _MOST_FOUND)
        return json_response({"found": found, "is_cut": len(found) == _MOST_FOUND})

    async def _compare(self, request: Request) -> Response:
        names = request.query_params
        comparison = await (await self._feed(request)).comparison(names.get("left", ""), names.get("right", ""))
        return json_response(comparison)

    async def _act(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return refusal(400, NOT_JSON)
        data = await _body(request)
        feed = await self._feed(request)
        try:
            action = action_of(data)
        except InvalidRequestError as error:
            raise _WrongRequestError(str(error)) from None
        return json_response(await self._actions.perform(action, feed))

    # --- the live stream ----------------------------------------------------------------------------------------------

    async def _live(self, request: Request) -> ASGIApp:
        after = request.query_params.get("after", "")
        client = request.query_params.get("client", "")[:_MOST_WORD]
        if not (after.isascii() and after.isdigit() and len(after) <= len(str(1 << 62))):
            raise _WrongRequestError("`after` must be a number of events")
        if self._streams >= MOST_STREAMS:
            return refusal(503, TOO_MANY)
        return _Stream(self, await self._feed(request), int(after), client)

    def begin_stream(self, client: str) -> bool:
        """Count a stream; return whether this reader was too slow before."""
        self._streams += 1
        return bool(client) and self._slow.pop(client, 0) is None

    def end_stream(self, client: str, *, is_slow: bool) -> None:
        """Count a stream that has ended, and note a reader that was too slow."""
        self._streams -= 1
        if is_slow and client:
            self._slow[client] = None
            while len(self._slow) > _MOST_SLOW:
                self._slow.popitem(last=False)


class _Stream:
    """The response of a live stream. It ends when the reader leaves, or does not take a message in time."""

    def __init__(self, app: PageApp, feed: Feed, after: int, client: str) -> None:
        self._app = app
        self._feed = feed
        self._after = after
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        was_slow = self._app.begin_stream(self._client)
        is_slow = False
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"application/x-ndjson")],
                }
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_disconnect, receive, tasks.cancel_scope)
                is_slow = not await self._send_all(send, was_slow)
                tasks.cancel_scope.cancel()
            if not is_slow:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._app.end_stream(self._client, is_slow=is_slow)

    async def _send_all(self, send: Send, was_slow: bool) -> bool:
        """Send every message; return whether the reader took them all in time."""
        lines = self._feed.messages(self._after)
        try:
            is_first = True
            async for line in lines:
                text = line
                if is_first and was_slow:
                    text += msgspec.json.encode({"type": "notice", "text": WAS_SLOW}) + b"\n"
                is_first = False
                with anyio.move_on_after(SLOW_SECONDS) as waiting:
                    await send({"type": "http.response.body", "body": text, "more_body": True})
                if waiting.cancelled_caught:
                    return False
            return True
        finally:
            await lines.aclose()


async def _until_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


class _WrongRequestError(Exception):
    """A request that no session could answer; the message says why."""


class _TooLongError(Exception):
    """A request with more than MAX_BODY bytes."""


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY:
            raise _TooLongError
    return bytes(data)


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise _WrongRequestError("the request is not a JSON object") from None


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    await refusal(404, NO_SUCH)(scope, receive, send)
