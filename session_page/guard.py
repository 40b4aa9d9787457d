"""What every request to a served page must pass, and what every response says to the browser.

The order is that of the harm: a wrong host name (DNS rebinding), a foreign page's origin, a process that a statement
started or another user's, a missing token. Only the shell and the bundle need no token, and they have nothing to hide.
A refusal says what to do, and nothing about the server.

Must not know what is served. Called by `app`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.core.web_access import Strangers
from engine.runtime.system.peers import Endpoint, Peer
from session_page.access import Access
from session_page.assembly import SERVED_POLICY

API: Final = "/api/"
TICKETS: Final = "/api/token"
"""The only address of the API that needs no token: it gives it for a ticket."""
WRONG_HOST: Final = "This server does not have that host name. Use the address that `rewindow page` printed."
WRONG_ORIGIN: Final = "Another page may not use this server."
STATEMENT: Final = (
    "Statements may not use this page, and this request comes from a process that one started. If it is your browser,"
    " start it yourself."
)
OTHER_USER: Final = "This page is another user's."
NOT_ALLOWED: Final = "The token is missing or wrong. Use the address that `rewindow page` printed."
_PEERS: Final = {Peer.STATEMENT: STATEMENT, Peer.OTHER_USER: OTHER_USER}
_SAME_SITE: Final = (b"same-origin", b"none")
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": SERVED_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""Of every response, refusals too."""

FindPeer = Callable[[Endpoint, Endpoint], Awaitable[Peer]]


def json_response(value: object, status: int = 200) -> Response:
    """Return a response with JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refusal(status: int, sentence: str) -> Response:
    """Return a response that says why there is no other."""
    return json_response({"error": sentence}, status)


class Guard:
    """The ASGI application around the page's own: it answers what must not get there.

    Args:
        find_peer: returns who has the other end of a connection, given the server's end and the client's.
        strangers: the connections that have shown no token.
    """

    def __init__(self, app: ASGIApp, access: Access, find_peer: FindPeer, strangers: Strangers) -> None:
        self._app = app
        self._access = access
        self._find_peer = find_peer
        self._strangers = strangers
        self._peers: dict[Endpoint, Peer] = {}
        """By the client's end, as long as the connection lasts."""

    def forget(self, client: Endpoint) -> None:
        """Forget who had the other end of a connection that has ended: its port may get another owner."""
        self._peers.pop(client, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # there is nothing else to serve

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=_with_list(message))
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = await self._refusal(scope)
        await (refused or self._app)(scope, receive, send_guarded)

    async def _refusal(self, scope: Scope) -> Response | None:
        def given(header: bytes) -> list[bytes]:
            return [value for name, value in scope["headers"] if name == header]

        if not self._access.names.is_host(given(b"host")):
            return refusal(421, WRONG_HOST)
        if not self._access.names.is_origin(given(b"origin")):
            return refusal(403, WRONG_ORIGIN)
        if not scope["path"].startswith(API):
            return None
        if any(site not in _SAME_SITE for site in given(b"sec-fetch-site")):
            return refusal(403, WRONG_ORIGIN)
        if (sentence := _PEERS.get(await self._peer(scope))) is not None:
            return refusal(403, sentence)
        if scope["path"] != TICKETS and not self._access.is_allowed(given(b"authorization")):
            response = refusal(401, NOT_ALLOWED)
            response.headers["WWW-Authenticate"] = 'Bearer realm="rewindow"'
            return response
        if scope["path"] != TICKETS:
            self._strangers.forget(scope["client"])
        return None

    async def _peer(self, scope: Scope) -> Peer:
        if not scope.get("client") or not scope.get("server"):
            return Peer.OTHER_USER  # a connection without ends is none of ours
        client: Endpoint = tuple(scope["client"])
        found = self._peers.get(client)
        if found is None:
            found = await self._find_peer(tuple(scope["server"]), client)
            if found is Peer.STRANGER:
                self._peers[client] = found
        return found


def _with_list(message: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    message["headers"] = list(message.get("headers", ()))
    return message
