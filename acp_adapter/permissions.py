"""Asks the user of the editor for permission, on behalf of the engine.

Whatever is not clearly an approval is none: an unknown option, an error, a client that does not know the method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from acp_adapter.facts import Facts
from acp_adapter.rpc.errors import ConnectionClosedError, InvalidResultError, RemoteError
from acp_adapter.rpc.methods import Remote
from acp_adapter.wire.codec import Codec
from engine import PermissionAnswer, PermissionQuestion, Seq

METHOD: Final = "session/request_permission"


class EditorPermissions:
    """Asks after everything before the question was shown, because the user decides by what is on the screen."""

    def __init__(
        self, session_id: str, facts: Facts, peer: Remote, codec: Codec, shown: Callable[[Seq], Awaitable[None]]
    ) -> None:
        """`facts` are the session's; `shown` waits until everything up to an event was sent."""
        self._session_id = session_id
        self._facts = facts
        self._peer = peer
        self._codec = codec
        self._shown = shown

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """The user's answer. Cancelling the wait withdraws the question."""
        await self._shown(question.seq)
        permissions = self._codec.permissions
        params = permissions.write_question(self._session_id, question, self._facts)
        try:
            return await self._peer.request(METHOD, params, permissions.read_answer)
        except (RemoteError, InvalidResultError, ConnectionClosedError):
            return PermissionAnswer(outcome="rejected")
