"""`session/prompt`: a turn. Accepted when its line is read; answered when its turn has ended and was shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.conversation import Conversation
from acp_adapter.errors import AUTH_REQUIRED
from acp_adapter.prompts import read_prompt, wanted_kind
from acp_adapter.replies import PromptEnded
from acp_adapter.requests import Prompt
from acp_adapter.rpc.errors import Code, ProtocolError
from acp_adapter.rpc.methods import Context, Method
from engine import Ticket


@dataclass(frozen=True, slots=True)
class Accepted:
    """The turn that was registered when the line was read."""

    conversation: Conversation
    ticket: Ticket


def _accept(connection: Connection, params: Prompt) -> Accepted:
    conversation = connection.conversation(params.session_id)
    return Accepted(conversation, conversation.accept(read_prompt(params.content), wanted_kind(params.meta)))


async def _handle(context: Context[Connection, Accepted], params: Prompt) -> PromptEnded:
    end = await context.accepted.conversation.ended(context.accepted.ticket)
    if end.cause == "error":
        code = AUTH_REQUIRED if end.unusable else Code.INTERNAL_ERROR
        raise ProtocolError(code, end.detail or "the turn failed")
    return PromptEnded(end.cause)


METHOD: Final = Method("session/prompt", _accept, _handle)
