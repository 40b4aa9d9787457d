"""Updates for messages, condensations, the end of a run, and moves between branches.

A message that was streamed is not sent again when it is complete. A live prompt is only sent to clients that want that
(`Shown.echoes`), because others would show it twice. A load sends both. A condensation is one tool call that editors
show as thinking, except for clients that know condensations (`Shown.condensations`). A move of the head is marked with
a tool call, because an editor cannot withdraw what it has shown; a load needs no marks, because it only shows the
active path. Tool calls are in `calls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, assert_never

from msgspec.structs import replace

from acp_adapter.content import (
    ContentBlock,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    picture_block,
)
from acp_adapter.shown import Facts, Shown
from acp_adapter.stored_sessions import timestamp
from acp_adapter.updates import calls, shapes
from acp_adapter.updates.blocks import Step, ended_call, plan_update, text_block, title_line
from acp_adapter.updates.shapes import (
    AgentMessageChunk,
    AgentThoughtChunk,
    SessionInfoUpdate,
    UserMessageChunk,
)
from acp_adapter.wire import WireModel, given
from engine import ReasoningStreamed, TextStreamed
from engine.core.text import plural
from engine.log.events import BranchEvent, ConversationEvent
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    Condensation,
    CondensationRequest,
    NoCutPossible,
    ResultRerendered,
    RunStop,
    SummaryCallEnded,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.log.events.going_back import BranchCreated, HeadMoved
from engine.log.user_message import PICTURE_URI, blocks_of, is_long_text

INACTIVE: Final = "The conversation above is no longer active."


def step(event: ConversationEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    """Translate an event of the conversation."""
    match event:
        case UserMessage() | AgentText() | AgentReasoning():
            is_sent = is_live and not (shown.echoes and isinstance(event, UserMessage))
            return shown, [] if is_sent else _message(event, facts)
        case ToolCall():
            return calls.started(event, shown, facts)
        case ToolResult():
            return calls.ended(event, shown, facts)
        case ResultRerendered():
            return shown, [_rerendered(event)]
        case CondensationRequest():
            return _condensation_started(event, shown)
        case Condensation(summary=None) | SummaryCallEnded():
            return shown, []
        case Condensation():
            count = len(event.forgotten)
            text = f"Replaced {count} {plural(count, 'message')} with this summary:\n\n{event.summary}"
            return _condensation_ended(shown, "completed", text)
        case NoCutPossible():
            return _condensation_ended(shown, "failed", f"None of the {event.tokens:,} tokens can be dropped.")
        case RunStop():
            status = "cancelled" if event.cause == "cancelled" else "failed"
            shown, updates = _condensation_ended(shown, status, "It was stopped.")
            return replace(shown, replay=None), [*updates, _run_ended(event, facts)]
        case _:
            assert_never(event)


def user_updates(message: UserMessage, facts: Facts) -> Sequence[WireModel]:
    """Return a user's message in its original blocks."""
    blocks = [_text(block) if isinstance(block, str) else _attached(block, facts) for block in blocks_of(message)]
    return [UserMessageChunk(content=block, message_id=message.message_id) for block in blocks or [_text("")]]


def _message(event: UserMessage | AgentText | AgentReasoning, facts: Facts) -> Sequence[WireModel]:
    """Return the whole message."""
    match event:
        case UserMessage():
            return user_updates(event, facts)
        case AgentText():
            return [AgentMessageChunk(content=_text(event.text), message_id=event.message_id)]
        case AgentReasoning():
            return [AgentThoughtChunk(content=_text(event.text), message_id=event.message_id)]


def _text(text: str) -> TextContent:
    return TextContent(text=text)


def _attached(attachment: Attachment, facts: Facts) -> ContentBlock:
    uri, media_type, text = attachment.uri, attachment.media_type, attachment.text
    if (picture := attachment.picture) is not None:
        return picture_block(picture, facts.picture(picture), None if uri == PICTURE_URI else uri)
    if text is None:
        rest = given(
            mime_type=media_type, title=attachment.title, description=attachment.description, size=attachment.size
        )
        return ResourceLink(uri=uri, name=attachment.name, **rest)
    if is_long_text(attachment):
        return _text(text)
    return EmbeddedResource(resource=TextResourceContents(uri=uri, text=text, **given(mime_type=media_type)))


def _condensation_started(event: CondensationRequest, shown: Shown) -> Step:
    if shown.condensing is not None:
        return shown, []
    call = f"condense_{event.event_id}"
    update = (
        shapes.CompactionUpdate(compaction_id=call, status="in_progress")
        if shown.condensations
        else shapes.ToolCall(tool_call_id=call, title="Condense the conversation", kind="think", status="in_progress")
    )
    return replace(shown, condensing=call), [update]


def _condensation_ended(shown: Shown, status: Literal["completed", "failed", "cancelled"], text: str) -> Step:
    call, after = shown.condensing, replace(shown, condensing=None)
    if call is None:
        return shown, []
    if not shown.condensations:
        return after, [ended_call(call, status, text)]
    if status == "completed":
        return after, [shapes.CompactionUpdate(compaction_id=call, status=status, summary=[_text(text)])]
    return after, [shapes.CompactionUpdate(compaction_id=call, status=status, error=text)]


def _rerendered(event: ResultRerendered) -> shapes.ToolCall:
    """Announce a new rendering as its own call, because the statement's call shows the result at that time."""
    return shapes.ToolCall(
        tool_call_id=f"rerendered_{event.event_id}",
        title=f"Render the result of statement {event.statement} again for the model",
        kind="read",
        status="completed",
        content=[text_block(event.text)],
    )


def _run_ended(event: RunStop, facts: Facts) -> SessionInfoUpdate:
    """The time of the last activity and, in `_meta`, the request cycle that ended."""
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


def message_update(piece: TextStreamed | ReasoningStreamed) -> WireModel:
    """A piece of a streamed message."""
    shape = AgentMessageChunk if isinstance(piece, TextStreamed) else AgentThoughtChunk
    return shape(content=TextContent(text=piece.text), message_id=piece.message_id)


def branch_step(event: BranchEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    """Translate an event of a branch. Each branch has its own plan."""
    match event:
        case HeadMoved() if is_live:
            plan = facts.plan
            is_other = bool(plan) or shown.has_plan
            return replace(shown, has_plan=bool(plan)), [_mark(event), *([plan_update(plan)] if is_other else ())]
        case BranchCreated() | HeadMoved():
            return shown, []


def _mark(event: HeadMoved) -> shapes.ToolCall:
    place = f"statement {event.statement}" if event.statement else "the beginning"
    return shapes.ToolCall(
        tool_call_id=f"moved_{event.event_id}",
        title=title_line(f"Go to branch {event.branch}, after {place}"),
        kind="other",
        status="completed",
        content=[text_block(INACTIVE)],
    )
