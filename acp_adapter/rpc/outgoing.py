"""Requests to the client: their ids, and which answer belongs to which.

Must not know how messages travel. The peer puts a request on the wire under the id it gets here, and passes every
response on; nothing that a client answers can do more than end one wait.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import anyio

from acp_adapter.rpc.errors import ConnectionClosedError, InvalidResultError, RemoteError, one_sentence
from acp_adapter.rpc.messages import Response

_log = logging.getLogger(__name__)
_ABANDONED = 1024


class PendingRequest:
    """One request that waits for its answer."""

    __slots__ = ("_answered", "_error", "_result", "method")

    def __init__(self, method: str) -> None:
        self.method = method
        self._answered = anyio.Event()
        self._result: object = None
        self._error: Exception | None = None

    async def answer(self) -> object:
        """The result; raises RemoteError, InvalidResultError or ConnectionClosedError."""
        await self._answered.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def resolve(self, result: object) -> None:
        self._result = result
        self._answered.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._answered.set()


class OutgoingRequests:
    """All requests that wait for an answer, by id: 1, 2, 3 ..."""

    def __init__(self) -> None:
        self._pending: dict[int, PendingRequest] = {}
        self._abandoned: dict[int, None] = {}
        self._last = 0
        self._closed = False

    @property
    def next_id(self) -> int:
        return self._last + 1

    def open(self, method: str) -> tuple[int, PendingRequest]:
        """A new id and the wait for its answer. Raises ConnectionClosedError when no answer can come any more."""
        if self._closed:
            raise ConnectionClosedError(method)
        self._last = self.next_id
        pending = self._pending[self._last] = PendingRequest(method)
        return self._last, pending

    def abandon(self, request_id: int) -> bool:
        """Stops waiting; False if the answer has come already. A late answer is then dropped without a word."""
        if self._pending.pop(request_id, None) is None:
            return False
        self._abandoned[request_id] = None
        if len(self._abandoned) > _ABANDONED:
            self._abandoned.pop(next(iter(self._abandoned)))
        return True

    def resolve(self, response: Response) -> None:
        """Gives a response to whoever waits for it; one that nobody waits for costs a line of the log."""
        # because True and 1.0 would find the request 1, and a list would raise
        request_id = response.id if type(response.id) is int else 0
        pending = self._pending.pop(request_id, None)
        if pending is None:
            if self._abandoned.pop(request_id, self) is self:
                _log.warning("Ignored a response that answers no open request")
        elif response.error is None:
            pending.resolve(response.result)
        else:
            pending.fail(_remote_error(pending.method, response.error))

    def close(self) -> None:
        """Ends every wait with ConnectionClosedError."""
        self._closed = True
        for pending in self._pending.values():
            pending.fail(ConnectionClosedError(pending.method))
        self._pending.clear()


def _remote_error(method: str, error: object) -> Exception:
    fields: dict[str, Any] = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    code, message = fields.get("code"), fields.get("message")
    if not isinstance(code, int) or not isinstance(message, str):
        return InvalidResultError(method, "its error has no code and message")
    return RemoteError(method, code, one_sentence(message), fields.get("data"))
