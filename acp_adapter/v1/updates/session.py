"""Updates for the session itself: mode, options, title, usage, sandbox, MCP servers, slash commands.

A rebuilt namespace, a sandbox and a server are tool calls, because editors show these in the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.shown import Facts, Shown
from acp_adapter.v1.content import TextContent
from acp_adapter.v1.sessions import config_options, timestamp
from acp_adapter.v1.updates import calls
from acp_adapter.v1.updates.blocks import Step, count, text_block, title_line
from acp_adapter.v1.updates.shapes import (
    AvailableCommand,
    AvailableCommandsUpdate,
    CommandInput,
    ConfigOptionUpdate,
    Content,
    Cost,
    CurrentModeUpdate,
    Notice,
    SessionInfoUpdate,
    ToolCall,
    ToolCallContent,
    ToolCallStatus,
    ToolCallUpdate,
    UsageUpdate,
)
from acp_adapter.wire import given, to_wire
from engine import COMMANDS, CommandRow, ModelDelayed, ModelRetried, OptionValues
from engine.context.tail.feed import connected_sentence, lost_sentence
from engine.context.tail.rights import entered_sentence
from engine.core.ids import Seq
from engine.core.text import plural, printable
from engine.log.events import SessionEvent
from engine.log.events.session import (
    ConfigChanged,
    ContextMeasured,
    DomainEntered,
    EnvironmentRestored,
    GuidanceChanged,
    GuidanceRead,
    ModeChanged,
    ModelCallEnded,
    OthersWrote,
    PermissionAnswered,
    PermissionAsked,
    PermissionOutcome,
    ProjectionSent,
    PromptQueued,
    PromptWithdrawn,
    RoundOpened,
    ServerConnected,
    ServerLost,
    ServersNamed,
    SessionMoved,
    SessionOpened,
    SkillsRead,
    SurroundingsRead,
    TitleChanged,
    UsageReported,
    ViewEnforced,
    WorkStopped,
)


def step(event: SessionEvent, shown: Shown, facts: Facts) -> Step:
    """Translate an event of the session."""
    match event:
        case ModeChanged():
            return shown, [CurrentModeUpdate(current_mode_id=event.mode), _options(event.seq, facts)]
        case ConfigChanged():
            return shown, [_options(event.seq, facts)]
        case TitleChanged():
            return shown, [SessionInfoUpdate(title=event.title, updated_at=timestamp(event.at))]
        case UsageReported() | ContextMeasured():
            return shown, [UsageUpdate(used=count(event.used), size=count(event.size))]
        case ModelCallEnded():
            return shown, [_usage(event, facts)]
        case ProjectionSent():
            return shown, [_usage(event, facts)] if event.answered is not None else []
        case EnvironmentRestored() | ServerConnected() | ServerLost() | DomainEntered():
            return shown, [_notice(event)]
        case PermissionAnswered():
            return _answered(event, shown)
        case (
            SessionOpened()
            | SessionMoved()
            | PromptQueued()
            | PromptWithdrawn()
            | RoundOpened()
            | PermissionAsked()
            | ServersNamed()
            | OthersWrote()
            | GuidanceRead()
            | GuidanceChanged()
            | SurroundingsRead()
            | SkillsRead()
            | ViewEnforced()
            | WorkStopped()
        ):
            return shown, []
        case _:
            assert_never(event)


def _options(seq: Seq, facts: Facts) -> ConfigOptionUpdate:
    return ConfigOptionUpdate(config_options=config_options(facts.options_at(seq)))


def options_update(values: OptionValues) -> Json:
    """All options with their values."""
    return to_wire(ConfigOptionUpdate(config_options=config_options(values)))


def _usage(event: ModelCallEnded | ProjectionSent, facts: Facts) -> UsageUpdate:
    # The count of the provider, if it reports one; our own count is only exact for one family of models.
    used = event.used if event.input_tokens is None else event.input_tokens
    spent = facts.spent
    cost = Cost(amount=round(spent.dollars, 6), currency="USD") if spent.unpriced < spent.calls else None
    return UsageUpdate(used=count(used), size=count(event.size), **given(cost=cost))


def _notice(event: EnvironmentRestored | ServerConnected | ServerLost | DomainEntered) -> ToolCall:
    match event:
        case DomainEntered():
            return ToolCall(
                tool_call_id=event.call,
                title="Sandbox" if event.held else "No sandbox",
                kind="other",
                status="in_progress" if event.statements else "completed",
                content=[text_block(entered_sentence(event))],
            )
        case EnvironmentRestored():
            return _restored(event)
        case ServerConnected():
            return _server(event, "completed", connected_sentence(event))
        case ServerLost():
            return _server(event, "failed", lost_sentence(event))


def _answered(event: PermissionAnswered, shown: Shown) -> Step:
    """The end of a question about a helper or earlier statements. A dismissed question about the latter comes again."""
    if not event.tool_call_id.startswith(DomainEntered.CALLED):
        return calls.permitted(event, shown)
    status: dict[PermissionOutcome, ToolCallStatus] = {"allowed": "completed", "rejected": "failed"}
    if event.outcome not in status:
        return shown, []
    return shown, [ToolCallUpdate(tool_call_id=event.tool_call_id, status=status[event.outcome])]


def _restored(event: EnvironmentRestored) -> ToolCall:
    text = "\n".join(
        [f"{event.executions} {plural(event.executions, 'statement')} ran again in a new worker.", *event.sentences]
    )
    return ToolCall(
        tool_call_id=f"restored_{event.event_id}",
        title="Rebuilt the namespace",
        kind="other",
        status="completed",
        content=[text_block(text)],
    )


def _server(event: ServerConnected | ServerLost, status: ToolCallStatus, sentence: str) -> ToolCall:
    return ToolCall(
        tool_call_id=f"server_{event.event_id}",
        title=title_line(f"MCP server {event.server}"),
        kind="other",
        status=status,
        content=[text_block(sentence)],
    )


def commands_update(others: Sequence[CommandRow] = ()) -> Json:
    """The available slash commands: ours, and `others` of files and servers."""
    commands = [
        AvailableCommand(
            name=command.name,
            description=command.description,
            **given(input=CommandInput(hint=command.hint) if command.hint else None),
        )
        for command in (*COMMANDS.values(), *others)
    ]
    return to_wire(AvailableCommandsUpdate(available_commands=commands))


def delay_notice(delayed: ModelDelayed) -> Json:
    """Say why a model call has not begun."""
    return to_wire(Notice(severity="info", title=_delay_title(delayed)))


def delay_update(delayed: ModelDelayed, *, is_first: bool) -> Json:
    """The same as a call, for clients without notices: one for all delays of a model call."""
    call, title = delayed.tool_call_id, _delay_title(delayed)
    if is_first:
        return to_wire(ToolCall(tool_call_id=call, title=title, kind="other", status="in_progress"))
    return to_wire(ToolCallUpdate(tool_call_id=call, title=title))


def delay_ended(delayed: ModelDelayed) -> Json:
    """The end of that call: the model call has begun, or failed for a reason of its own."""
    return to_wire(ToolCallUpdate(tool_call_id=delayed.tool_call_id, status="completed"))


def _delay_title(delayed: ModelDelayed) -> str:
    return printable(delayed.reason[:1].upper() + delayed.reason[1:])


def retry_notice(retried: ModelRetried) -> Json:
    """Say that a model call failed and is made again."""
    title, reason = _retry_texts(retried)
    return to_wire(Notice(severity="warning", title=title, description=reason))


def retry_update(retried: ModelRetried, *, is_first: bool) -> Json:
    """The same as a call, for clients without notices: one for all attempts of a model call."""
    title, reason = _retry_texts(retried)
    content: list[ToolCallContent] = [Content(content=TextContent(text=printable(reason)))]
    if is_first:
        return to_wire(
            ToolCall(
                tool_call_id=retried.tool_call_id, title=title, kind="other", status="in_progress", content=content
            )
        )
    return to_wire(ToolCallUpdate(tool_call_id=retried.tool_call_id, title=title, content=content))


def retry_ended(retried: ModelRetried, *, is_answered: bool) -> Json:
    """The end of that call: the model has begun to answer, or every attempt failed."""
    if retried.instead:
        title = f"{printable(retried.instead)} {'answered' if is_answered else 'did not answer either'}"
    elif is_answered:
        title = f"The model answered at attempt {retried.attempt}"
    else:
        title = f"The model did not answer in {retried.attempt} attempts"
    status: ToolCallStatus = "completed" if is_answered else "failed"
    return to_wire(ToolCallUpdate(tool_call_id=retried.tool_call_id, title=title, status=status))


def _retry_texts(retried: ModelRetried) -> tuple[str, str]:
    """The line, and why."""
    pause = f" in {retried.seconds:.0f} s" if retried.seconds >= 1 else ""
    title = (
        f"Asking {printable(retried.instead)} instead"
        if retried.instead
        else f"Asking the model again{pause}: attempt {retried.attempt} of {retried.attempts}"
    )
    reason = f"{retried.reason.rstrip('.')}."
    return title, f"{reason} The partial reply was discarded." if retried.withdrawn else reason
