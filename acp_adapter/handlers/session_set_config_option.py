"""`session/set_config_option`: allowed while a turn is running; the answer is the complete list."""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.conversation import Conversation
from acp_adapter.options import chosen, options_of
from acp_adapter.replies import Options
from acp_adapter.requests import SetOption
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: SetOption) -> Conversation:
    conversation = connection.conversation(params.session_id)
    session = conversation.session
    session.set_option(*chosen(session.options, params.option, params.value))
    return conversation


async def _handle(context: Context[Connection, Conversation], params: SetOption) -> Options:
    return options_of(context.accepted.session.options)


METHOD: Final = Method("session/set_config_option", _accept, _handle)
