"""Updates for what was said and done in a conversation: messages, condensations, the end of a run.

Calls are in `calls`. A condensation is one call that an editor shows as thinking, from its request to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from acp_adapter.facts import Facts
from acp_adapter.wire.model import WireModel, given
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.content import EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from acp_adapter.wire.v1.shapes.tools import ToolCall as ShownCall
from acp_adapter.wire.v1.shapes.tools import ToolCallStatus
from acp_adapter.wire.v1.shapes.updates import AgentMessageChunk, AgentThoughtChunk, SessionInfoUpdate, UserMessageChunk
from acp_adapter.wire.v1.times import timestamp
from acp_adapter.wire.v1.updates import calls
from acp_adapter.wire.v1.updates.parts import Step, ended_call, text_block
from engine import blocks_of, is_long_text
from engine.log.events import ConversationEvent
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    Condensation,
    CondensationRequest,
    NoCutPossible,
    ResultRerendered,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)


def step(event: ConversationEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    """What an event of the conversation is to an editor."""
    match event:
        case UserMessage() | AgentText() | AgentReasoning():
            return shown, [] if is_live else _message(event)
        case ToolCall():
            return calls.called(event, shown, facts)
        case ToolResult():
            return calls.answered(event, shown, facts)
        case ResultRerendered():
            return shown, [_rerendered(event)]
        case CondensationRequest():
            return _condensation_begun(event, shown)
        case Condensation(summary=None):
            return shown, []
        case Condensation():
            text = f"{len(event.forgotten)} messages were replaced.\n\n{event.summary}"
            return _condensation_ended(shown, "completed", text)
        case NoCutPossible():
            return _condensation_ended(shown, "failed", f"Nothing of the {event.tokens:,} tokens can be left out.")
        case RunStop():
            shown, updates = _condensation_ended(shown, "failed", "It was given up.")
            return replace(shown, replay=None), [*updates, _run_ended(event, facts)]
        case _:
            assert_never(event)


def _message(event: UserMessage | AgentText | AgentReasoning) -> Sequence[WireModel]:
    """The whole message; the user's as the blocks that it came in."""
    match event:
        case UserMessage():
            blocks = [_text(block) if isinstance(block, str) else _attached(block) for block in blocks_of(event)]
            return [UserMessageChunk(content=block, message_id=event.message_id) for block in blocks or [_text("")]]
        case AgentText():
            return [AgentMessageChunk(content=_text(event.text), message_id=event.message_id)]
        case AgentReasoning():
            return [AgentThoughtChunk(content=_text(event.text), message_id=event.message_id)]


def _text(text: str) -> TextContent:
    return TextContent(text=text)


def _attached(attachment: Attachment) -> TextContent | ResourceLink | EmbeddedResource:
    uri, media_type, text = attachment.uri, attachment.media_type, attachment.text
    if text is None:
        rest = given(
            mime_type=media_type, title=attachment.title, description=attachment.description, size=attachment.size
        )
        return ResourceLink(uri=uri, name=attachment.name, **rest)
    if is_long_text(attachment):
        return _text(text)
    return EmbeddedResource(resource=TextResourceContents(uri=uri, text=text, **given(mime_type=media_type)))


def _condensation_begun(event: CondensationRequest, shown: Shown) -> Step:
    if shown.condensing is not None:
        return shown, []
    call = f"condense_{event.event_id}"
    update = ShownCall(tool_call_id=call, title="Condense the conversation", kind="think", status="in_progress")
    return replace(shown, condensing=call), [update]


def _condensation_ended(shown: Shown, status: ToolCallStatus, text: str) -> Step:
    if shown.condensing is None:
        return shown, []
    return replace(shown, condensing=None), [ended_call(shown.condensing, status, text)]


def _rerendered(event: ResultRerendered) -> ShownCall:
    """A call of its own, because that of the statement shows what came of it then."""
    return ShownCall(
        tool_call_id=f"rerendered_{event.event_id}",
        title=f"Render the result of statement {event.statement} anew for the model",
        kind="read",
        status="completed",
        content=[text_block(event.text)],
    )


def _run_ended(event: RunStop, facts: Facts) -> SessionInfoUpdate:
    """When the session was last active, and in `_meta` the request cycle that ended."""
    cycle = facts.cycle_ended_by(event.seq)
    if cycle is None:
        return SessionInfoUpdate(updated_at=timestamp(event.at))
    summary = {
        "number": cycle.number,
        "root": cycle.root,
        "stop": cycle.stop,
        "rounds": cycle.rounds,
        "steps": cycle.steps,
        "queued": cycle.queued,
    }
    return SessionInfoUpdate(updated_at=timestamp(event.at), meta={"rewindow": {"cycle": summary}})
