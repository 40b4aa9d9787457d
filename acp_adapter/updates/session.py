"""Updates for the session itself: mode, options, title, usage, sandbox, MCP servers, slash commands.

A namespace that was rebuilt with differences is a tool call, because editors show these in the conversation. News of
the sandbox and of servers are notices if the editor shows these, else thoughts of one line: an editor may show these
unfolded. They are told when they happen, so a load has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec.structs import replace

from acp_adapter.content import TextContent
from acp_adapter.options import config_options
from acp_adapter.shown import Facts, Shown
from acp_adapter.stored_sessions import timestamp
from acp_adapter.updates import calls, statements
from acp_adapter.updates.blocks import Step, count, plan_update, text_block
from acp_adapter.updates.shapes import (
    AgentThoughtChunk,
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
from acp_adapter.wire import WireModel, given
from engine import COMMANDS, CommandRow, ModelDelayed, ModelRetried, OptionValues
from engine.context.tail.feed import connected_sentence, lost_sentence
from engine.context.tail.rights import entered_line, entered_sentence
from engine.core.text import plural, printable
from engine.log.events import SessionEvent
from engine.log.events.session import (
    ConfigChanged,
    ContextMeasured,
    DomainEntered,
    EnvironmentRestored,
    GuidanceChanged,
    GuidanceRead,
    InstructionsGiven,
    ModeChanged,
    ModelCallEnded,
    OthersWrote,
    PermissionAnswered,
    PermissionAsked,
    PermissionOutcome,
    PicturesWithdrawn,
    PlanChanged,
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
    WorkspaceCloned,
    WorkStopped,
)

SANDBOXED: Final = "Sandbox"
NOT_SANDBOXED: Final = "No sandbox"
REBUILD: Final = "Run earlier statements again with more permissions"
"""Title of the question about statements that ran with fewer rights."""


def step(event: SessionEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    """Translate an event of the session."""
    match event:
        case ModeChanged() | ConfigChanged():
            mode = [CurrentModeUpdate(current_mode_id=event.mode)] if isinstance(event, ModeChanged) else []
            return shown, [*mode, options_update(facts.options_at(event.seq), booleans=shown.booleans)]
        case TitleChanged():
            return shown, [SessionInfoUpdate(title=event.title, updated_at=timestamp(event.at))]
        case UsageReported() | ContextMeasured():
            return shown, [UsageUpdate(used=count(event.used), size=count(event.size))]
        case ModelCallEnded():
            return shown, [_usage(event, facts)]
        case ProjectionSent():
            return shown, [_usage(event, facts)] if event.answered is not None else []
        case PlanChanged():
            return replace(shown, has_plan=bool(event.entries)), [plan_update(event.entries)]
        case EnvironmentRestored() | ServerConnected() | ServerLost() | DomainEntered():
            return _told(event, shown, is_live)
        case PermissionAsked() | PermissionAnswered():
            return _permission(event, shown, facts)
        case (
            SessionOpened()
            | SessionMoved()
            | WorkspaceCloned()
            | PromptQueued()
            | PromptWithdrawn()
            | RoundOpened()
            | ServersNamed()
            | OthersWrote()
            | GuidanceRead()
            | GuidanceChanged()
            | SurroundingsRead()
            | SkillsRead()
            | InstructionsGiven()
            | ViewEnforced()
            | WorkStopped()
            | PicturesWithdrawn()
        ):
            return shown, []
        case _:
            assert_never(event)


def options_update(values: OptionValues, *, booleans: bool) -> WireModel:
    """All options with their values. `booleans`: those that are on or off have no list."""
    return ConfigOptionUpdate(config_options=config_options(values, booleans=booleans))


def _usage(event: ModelCallEnded | ProjectionSent, facts: Facts) -> UsageUpdate:
    # The count of the provider, if it reports one; our own count is only exact for one family of models.
    used = event.used if event.input_tokens is None else event.input_tokens
    spent = facts.spent
    cost = Cost(amount=round(spent.dollars, 6), currency="USD") if spent.unpriced < spent.calls else None
    return UsageUpdate(used=count(used), size=count(event.size), **given(cost=cost))


def _told(
    event: EnvironmentRestored | ServerConnected | ServerLost | DomainEntered, shown: Shown, is_live: bool
) -> Step:
    """Tell news of the sandbox or a server, unless the last news of it was the same."""
    match event:
        case EnvironmentRestored():
            return shown, [_restored(event)] if event.sentences else []
        case DomainEntered():
            subject, title = "", SANDBOXED if event.held else NOT_SANDBOXED
            sentence, is_bad = entered_sentence(event), not event.held
        case ServerConnected():
            subject = title = f"MCP server {event.server}"
            sentence, is_bad = connected_sentence(event), False
        case ServerLost():
            subject = title = f"MCP server {event.server}"
            sentence, is_bad = lost_sentence(event), True
    question: list[WireModel] = []
    if isinstance(event, DomainEntered) and event.statements:
        # The content of the call is that of the question, which follows.
        question = [ToolCall(tool_call_id=event.call, title=REBUILD, kind="other", status="pending")]
        shown = replace(shown, rebuild=event.call)
    if shown.told.get(subject) == sentence:
        return shown, question
    shown = replace(shown, told={**shown.told, subject: sentence})
    if not is_live:
        return shown, question
    if shown.notices:
        severity = "warning" if is_bad else "info"
        news: WireModel = Notice(severity=severity, title=printable(title), description=printable(sentence))
    else:
        line = sentence
        if isinstance(event, DomainEntered):
            line = entered_line(event)
            line = line[:1].upper() + line[1:]
        text = TextContent(text=printable(line))
        news = AgentThoughtChunk(content=text, message_id=f"news_{event.event_id}")
    return shown, [news, *question]


def _permission(event: PermissionAsked | PermissionAnswered, shown: Shown, facts: Facts) -> Step:
    """A question about a statement, or the end of one about a helper or earlier statements.

    A dismissed question about the latter comes again.
    """
    if isinstance(event, PermissionAsked):
        return statements.asked(event, shown, facts)
    if not event.tool_call_id.startswith(DomainEntered.CALLED):
        return calls.permitted(event, shown)
    status: dict[PermissionOutcome, ToolCallStatus] = {"allowed": "completed", "rejected": "failed"}
    if event.outcome not in status or event.tool_call_id != shown.rebuild:
        return shown, []
    ended = ToolCallUpdate(tool_call_id=event.tool_call_id, status=status[event.outcome])
    return replace(shown, rebuild=None), [ended]


def _restored(event: EnvironmentRestored) -> ToolCall:
    text = "\n".join(
        [f"{event.executions} {plural(event.executions, 'statement')} ran again in a new worker.", *event.sentences]
    )
    return ToolCall(
        tool_call_id=f"restored_{event.event_id}",
        title="Rebuild the namespace",
        kind="other",
        status="completed",
        content=[text_block(text)],
    )


def commands_update(others: Sequence[CommandRow] = ()) -> AvailableCommandsUpdate:
    """The available slash commands: ours, and `others` of files and servers."""
    commands = [
        AvailableCommand(
            name=command.name,
            description=command.description,
            **given(input=CommandInput(hint=command.hint) if command.hint else None),
        )
        for command in (*COMMANDS.values(), *others)
    ]
    return AvailableCommandsUpdate(available_commands=commands)


def delay_notice(delayed: ModelDelayed) -> WireModel:
    """Say why a model call has not begun."""
    return Notice(severity="info", title=_delay_title(delayed))


def delay_update(delayed: ModelDelayed, *, is_first: bool) -> WireModel:
    """The same as a call, for clients without notices: one for all delays of a model call."""
    call, title = delayed.tool_call_id, _delay_title(delayed)
    if is_first:
        return ToolCall(tool_call_id=call, title=title, kind="other", status="in_progress")
    return ToolCallUpdate(tool_call_id=call, title=title)


def delay_ended(delayed: ModelDelayed) -> WireModel:
    """The end of that call: the model call has begun, or failed for a reason of its own."""
    return ToolCallUpdate(tool_call_id=delayed.tool_call_id, status="completed")


def _delay_title(delayed: ModelDelayed) -> str:
    return printable(delayed.reason[:1].upper() + delayed.reason[1:])


def retry_notice(retried: ModelRetried) -> WireModel:
    """Say that a model call failed and is made again."""
    title, reason = _retry_texts(retried)
    return Notice(severity="warning", title=title, description=reason)


def retry_update(retried: ModelRetried, *, is_first: bool) -> WireModel:
    """The same as a call, for clients without notices: one for all attempts of a model call."""
    title, reason = _retry_texts(retried)
    content: list[ToolCallContent] = [Content(content=TextContent(text=printable(reason)))]
    if is_first:
        return ToolCall(
            tool_call_id=retried.tool_call_id, title=title, kind="other", status="in_progress", content=content
        )
    return ToolCallUpdate(tool_call_id=retried.tool_call_id, title=title, content=content)


def retry_ended(retried: ModelRetried, *, is_answered: bool) -> WireModel:
    """The end of that call: the model has begun to answer, or every attempt failed."""
    if retried.instead:
        title = f"{printable(retried.instead)} {'answered' if is_answered else 'did not answer either'}"
    elif is_answered:
        title = f"The model answered at attempt {retried.attempt}"
    else:
        title = f"The model did not answer in {retried.attempt} attempts"
    status: ToolCallStatus = "completed" if is_answered else "failed"
    return ToolCallUpdate(tool_call_id=retried.tool_call_id, title=title, status=status)


def _retry_texts(retried: ModelRetried) -> tuple[str, str]:
    """The line, and why."""
    pause = f" in {retried.seconds:.0f} s" if retried.seconds >= 1 else ""
    title = (
        f"Ask {printable(retried.instead)} instead"
        if retried.instead
        else f"Ask the model again{pause}: attempt {retried.attempt} of {retried.attempts}"
    )
    reason = f"{retried.reason.rstrip('.')}."
    return title, f"{reason} The partial reply was discarded." if retried.withdrawn else reason
