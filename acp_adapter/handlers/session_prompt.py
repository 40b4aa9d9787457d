"""`session/prompt`: a turn. Accepted when its line is read; answered when its turn has ended and was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from acp_adapter.errors import Code, ProtocolError
from acp_adapter.rpc.methods import Context, Method
from acp_adapter.wire.v1.shapes.prompts import PromptRequest, PromptResponse, StopReason

if TYPE_CHECKING:
    from acp_adapter.connection import Connection
    from acp_adapter.conversation import Conversation
    from engine.events.conversation import StopCause
    from engine.sessions.tickets import Ticket

_REASONS: Final[dict[StopCause, StopReason]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "max_turn_requests": "max_turn_requests",
    "refusal": "refusal",
    "cancelled": "cancelled",
}


class Accepted(Struct, frozen=True):
    """The turn that was registered when the line was read."""

    conversation: Conversation
    ticket: Ticket


def _accept(connection: Connection, params: PromptRequest) -> Accepted:
    from acp_adapter.prompts import read_prompt, wanted_kind  # loads the engine's events

    connection.require_initialized()
    conversation = connection.conversation(params.session_id)
    text, attachments = read_prompt(params.prompt)
    return Accepted(conversation, conversation.accept(text, attachments, wanted_kind(params.meta)))


async def _handle(context: Context[Connection, Accepted], params: PromptRequest) -> PromptResponse:
    accepted = context.accepted
    end = await accepted.conversation.ended(accepted.ticket)
    reason = _REASONS.get(end.cause)
    if reason is None:
        raise ProtocolError(Code.INTERNAL_ERROR, end.detail or "the turn failed")
    return PromptResponse(stop_reason=reason)


METHOD: Final = Method("session/prompt", PromptRequest, _accept, _handle)
