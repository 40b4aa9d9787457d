"""Gets a reply of the session's model to a request of an MCP server, beside the conversation.

Must not know what the user was asked. Called by `tool_calls`.
"""

from __future__ import annotations

from contextlib import aclosing

from ...context.model import Prompt
from ...core.ids import MessageId
from ...log.event_log import EventLog
from ...log.events.conversation import UserMessage
from ..model_choice import ModelChoice
from ..tools.mcp_sampling import INSTRUCTIONS, Sampled, Sampling
from .condenser import SideReply


async def sampled(model: ModelChoice, wanted: Sampling, log: EventLog, server: str) -> Sampled:
    """Return the reply to a request, and put what it took on the log. Raises ModelError."""
    prompt = Prompt(
        instructions=wanted.system or INSTRUCTIONS,
        messages=(UserMessage(message_id=MessageId("sampling"), text=wanted.text),),
        tail="",
        statements=False,
        calls_tools=model.calls_tools,
    )
    reply = SideReply()
    try:
        async with aclosing(model.reply(prompt)) as signals:
            async for signal in signals:
                reply.take(signal)
                if len(reply.text) >= wanted.most_chars:
                    break
    finally:
        log.append(reply.ended(model.answering, server))
    is_cut = len(reply.text) >= wanted.most_chars or reply.cause == "length"
    return Sampled(reply.text[: wanted.most_chars], model.answering.removeprefix("provider:"), is_cut)
