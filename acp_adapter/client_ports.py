"""What the editor does for the engine: for now, it asks the user for permission.

Whatever is not a clear approval is none: an unknown option, an error, a client that does not know the method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from acp_adapter.errors import ConnectionClosedError, InvalidResultError, RemoteError
from acp_adapter.rpc.peer import Peer
from acp_adapter.wire.v1.shapes.client import (
    PermissionKind,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedOutcome,
)
from acp_adapter.wire.v1.shapes.tools import ToolCallPatch
from engine.ids import Seq
from engine.ports import PermissionAnswer, PermissionQuestion

_ANSWERS: Final[dict[PermissionKind, tuple[str, PermissionAnswer]]] = {
    "allow_once": ("Run it", PermissionAnswer(outcome="allowed")),
    "allow_always": (
        "Run this and all later statements of this session",
        PermissionAnswer(outcome="allowed", remember=True),
    ),
    "reject_once": ("Do not run it", PermissionAnswer(outcome="rejected")),
    "reject_always": ("Reject all statements of this session", PermissionAnswer(outcome="rejected", remember=True)),
}
"""Option id, which is also its kind, to its label and what it means."""


class EditorPermissions:
    """Asks through `session/request_permission`, after everything before the question was shown."""

    def __init__(self, session_id: str, peer: Peer[Any], shown: Callable[[Seq], Awaitable[None]]) -> None:
        self._session_id = session_id
        self._peer = peer
        self._shown = shown

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """The user's answer. Cancelling the wait withdraws the question."""
        await self._shown(question.seq)
        request = RequestPermissionRequest(
            session_id=self._session_id,
            tool_call=ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=question.title,
                kind="execute",
                status="pending",
                raw_input={"source": question.source},
            ),
            options=[PermissionOption(option_id=kind, name=label, kind=kind) for kind, (label, _) in _ANSWERS.items()],
        )
        try:
            response = await self._peer.request("session/request_permission", request, RequestPermissionResponse)
        except (RemoteError, InvalidResultError, ConnectionClosedError):
            return PermissionAnswer(outcome="rejected")
        if not isinstance(response.outcome, SelectedOutcome):
            return PermissionAnswer(outcome="cancelled")
        chosen = [answer for kind, (_, answer) in _ANSWERS.items() if kind == response.outcome.option_id]
        return chosen[0] if chosen else PermissionAnswer(outcome="rejected")
