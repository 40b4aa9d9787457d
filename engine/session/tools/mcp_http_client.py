"""The HTTP client that the transports of the SDK send with: bounds answers, and tells of messages that were not taken.

The SDK reads a JSON answer whole before anybody can look at it, so it is bounded here, while it is read; and it has to
come uncompressed, because what is small when compressed may be anything. (Of streams of events the SDK bounds each
event.) And over SSE the SDK tells nobody of a message that the server did not take, though no answer will ever come.
Must not know what is said. Used by `mcp_transports`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import anyio
import httpx2

LONGEST_ANSWER: Final = 16 << 20
_CONNECT_SECONDS: Final = 20.0
_SILENT_SECONDS: Final = 300.0
"""Without a byte, before a stream of HTTP is given up."""
_TOO_LARGE: Final = f"its answer has more than {LONGEST_ANSWER >> 20} MiB"
_COMPRESSED: Final = "its answer is compressed, which nobody asked for"


class MessageClient(httpx2.AsyncClient):
    """A client for one server. `lost` is set when a message was not taken."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        plain = httpx2.Headers(headers)
        plain["Accept-Encoding"] = "identity"
        super().__init__(headers=plain, timeout=httpx2.Timeout(_CONNECT_SECONDS, read=_SILENT_SECONDS))
        self.lost = anyio.Event()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Raises httpx2.HTTPError, as does reading the answer; that raises httpx2.StreamError for what is not taken."""
        failed = self.lost.set if request.method == "POST" else _ignore
        try:
            response = await super().send(request, **options)
        except httpx2.HTTPError:
            failed()
            raise
        if not response.is_success and not _goes_on(response):
            failed()
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Answer(response, response.stream, failed)
        return response


def _ignore() -> None:
    """A stream of events that ends is noticed by who reads it."""


def _goes_on(response: httpx2.Response) -> bool:
    """Whether it leads to where the same message is taken, on the same host."""
    following = response.next_request
    sent = response.request
    return following is not None and (following.method, following.url.host) == (sent.method, sent.url.host)


class _Answer(httpx2.AsyncByteStream):
    """The body of a response, as far as it is taken."""

    def __init__(self, response: httpx2.Response, stream: httpx2.AsyncByteStream, failed: Callable[[], None]) -> None:
        self._headers = response.headers
        self._stream = stream
        self._failed = failed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            left = self._most()
            async for piece in self._stream:
                left -= len(piece)
                if left < 0:
                    raise httpx2.StreamError(_TOO_LARGE)
                yield piece
        except (httpx2.HTTPError, httpx2.StreamError):
            self._failed()
            raise

    def _most(self) -> float:
        """How many bytes are taken."""
        if self._headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.StreamError(_COMPRESSED)
        if self._headers.get("content-type", "").lower().startswith("text/event-stream"):
            return math.inf
        if float(self._headers.get("content-length", 0)) > LONGEST_ANSWER:  # which h11 has checked to be digits
            raise httpx2.StreamError(_TOO_LARGE)
        return LONGEST_ANSWER

    async def aclose(self) -> None:
        await self._stream.aclose()
