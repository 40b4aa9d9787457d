"""What clients are told beside replies, as messages of MCP's logging: that a namespace was rebuilt, or work stopped.

A model reads the same in `tick`; this is for the person who watches the host's log. Clients of the handshake era set a
level, which is kept for as long as they are connected; those of the newer one name it in each request that is to be
answered with messages too, and else get none. Deprecated in the newer version of the protocol, so nothing else depends
on it. Called by `requests`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, get_args

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine.log.events import Event

Context = ServerRequestContext[Any, Any]
_LEVELS: Final[tuple[types.LoggingLevel, ...]] = get_args(types.LoggingLevel)
"""From the least severe on."""
_UNSET: Final = "info"
"""Of a client of the handshake era that has set none; which one is the server's choice then."""
MOST_CLIENTS: Final = 256


class Logs:
    """The levels that clients of the handshake era have set, and the messages to all."""

    def __init__(self) -> None:
        self._set: dict[int, tuple[types.InitializeRequestParams | None, types.LoggingLevel]] = {}
        """By the identity of what a client began with, which is held so that no other one has it meanwhile."""

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """For clients of the handshake era."""
        client = ctx.session.client_params
        self._set.pop(id(client), None)
        self._set[id(client)] = client, params.level
        if len(self._set) > MOST_CLIENTS:  # the oldest gets what it had at first
            del self._set[next(iter(self._set))]
        return types.EmptyResult()

    async def tell(self, ctx: Context, events: Iterable[Event]) -> None:
        """Sends what happened to the session, as part of the answer to a request."""
        for level, text in _messages(events):
            if _LEVELS.index(level) >= self._least(ctx):
                message = types.LoggingMessageNotificationParams(level=level, data=text, logger="rewindow")
                await ctx.session.send_notification(
                    types.LoggingMessageNotification(params=message), related_request_id=ctx.request_id
                )

    def _least(self, ctx: Context) -> int:
        """The place in `_LEVELS` from which on the client wants messages; past the end where it wants none."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            wanted = (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)
            return _LEVELS.index(wanted) if wanted in _LEVELS else len(_LEVELS)
        return _LEVELS.index(self._set.get(id(ctx.session.client_params), (None, _UNSET))[1])


def _messages(events: Iterable[Event]) -> Iterable[tuple[types.LoggingLevel, str]]:
    from engine.log.events.session import EnvironmentRestored, WorkStopped  # as above

    for event in events:
        match event:
            case WorkStopped(sentences=sentences):
                for sentence in sentences:
                    yield "warning", sentence
            case EnvironmentRestored(executions=executions, sentences=sentences):
                yield "info", f"the namespace was rebuilt in a new worker: {executions} of its statements ran again"
                for sentence in sentences:
                    yield "warning", sentence
            case _:
                pass
