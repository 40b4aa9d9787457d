"""Updates for statements: one tool call each, from pending to its end, with its source and its result.

A statement that is one call of a tool has the card of that call, which has no source: its title, its diff or its output
tell the same (`calls`). So it is announced with the call, and as a statement only if there is a question about it, or
if it ends without the call. A statement that is several calls has their cards and none of its own, unless it does
something that they do not show.

A statement that runs again is a tool call of its own, because the call of its first run shows the first result. It has
the id of the execution, and shows progress (`3 of 8`), source, result, and whether that differs from the first run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, assert_never

from msgspec.structs import replace

from acp_adapter.content import ContentBlock, ImageContent, TextContent, picture_block
from acp_adapter.shown import EndedCall, Facts, ReplayProgress, RunningStatement, Shown
from acp_adapter.updates import calls
from acp_adapter.updates.blocks import (
    SOURCE_CHARS,
    Step,
    announced_statement,
    announcement,
    answer_text,
    content_text,
    end_status,
    location,
    markdown_text,
    result_content,
    source_title,
    statement_content,
    text_block,
    title_line,
)
from acp_adapter.updates.shapes import (
    AgentMessageChunk,
    Content,
    ToolCall,
    ToolCallContent,
    ToolCallStatus,
    ToolCallUpdate,
)
from acp_adapter.wire import WireModel, given
from engine import StatementRerun
from engine.context.tail.results import given_text, output_text, result_text
from engine.core.execution import Captured
from engine.core.ids import ToolCallId
from engine.core.python_source import only_calls
from engine.core.text import as_printed, cut_line
from engine.log.events import ExecutionEvent, ReplayEvent
from engine.log.events.conversation import ToolResult
from engine.log.events.execution import (
    CheckpointDropped,
    CheckpointTaken,
    CommandEnded,
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    FileTouched,
    FileWritten,
    NamesRebound,
    StatementOmitted,
    StatementRecorded,
    ValuesDropped,
    ValuesKept,
)
from engine.log.events.going_back import Diverged, EditBegun, ReplayBegun, ReplayEnded
from engine.log.events.session import PermissionAsked

DIFFERENT: Final = "Differs from the first run"
"""Said of a statement that ran again."""
REJECTED: Final = "Stopped by the rejection"
"""Replaces the traceback of a statement that ended because the user rejected one of its acts, whose call says so."""
_REASON_CHARS: Final = 200
FAILED: Final = "Stopped by the failed action"
"""The same for one that ended because an act failed."""
_BARE_REPR: Final = re.compile(r"<[^\n]*>")
"""What Python says of an object that it cannot describe, such as `<Figure size 640x480 with 1 Axes>`."""
_COMPARED_CHARS: Final = 1_500
"""Less than half of what a value shows of a long output."""


def step(event: ExecutionEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    """Translate an event of the timeline."""
    match event:
        case StatementRecorded():
            return _recorded(event, shown)
        case ExecutionStarted():
            return _started(event, shown, facts)
        case ExecutionFinished():
            return _finished(event, shown, facts)
        case FileWritten():
            return calls.file_written(event, shown, facts)
        case CommandEnded():
            return calls.command_ended(event, shown, is_live)
        case EffectRequested() | EffectAnswered() | FileTouched():
            return shown, []
        case ValuesKept() | ValuesDropped() | StatementOmitted() | NamesRebound():
            return shown, []
        case CheckpointTaken() | CheckpointDropped():
            return shown, []
        case _:
            assert_never(event)


def replay_step(event: ReplayEvent, shown: Shown) -> Step:
    """Translate an event of a replay. The command that asked for the replay reports its start and its end."""
    match event:
        case ReplayBegun():
            return replace(shown, replay=ReplayProgress(event.statements)), []
        case EditBegun():
            return replace(shown, replay=ReplayProgress(event.statements, is_edit=True)), []
        case Diverged():
            return _with_difference(event, shown), []
        case ReplayEnded():
            return replace(shown, replay=None), []
        case _:
            assert_never(event)


# --- first runs -------------------------------------------------------------------------------------------------------


def _recorded(event: StatementRecorded, shown: Shown) -> Step:
    model_call = shown.unannounced.get(event.tool_call_id)
    is_typed = model_call is not None and model_call.typed
    # What the user attached is part of the prompt, so a statement that opens it is shown only if it fails.
    is_opening = event.statement_kind == "meta"
    title, after = _numbered(source_title(event.source), shown)
    rest_left_out = model_call is not None and model_call.rest_left_out
    tools = () if is_opening or rest_left_out else only_calls(event.source)
    running = RunningStatement(
        event.tool_call_id,
        None if is_typed or is_opening else event.source,  # the user's text is already on the screen
        is_typed,
        rest_left_out,
        number=event.index,
        is_held=is_opening or bool(tools),
        title=title,
        **_acts(tools),
    )
    after = replace(
        after,
        statements={**after.statements, event.statement_id: running},
        unannounced={other: call for other, call in after.unannounced.items() if other != event.tool_call_id},
    )
    return after, [] if running.is_held else [announced_statement(event, running)]


def _acts(tools: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a statement that calls these tools and does nothing else."""
    return {"tool": tools[0]} if len(tools) == 1 else {"due": tools}


def asked(event: PermissionAsked, shown: Shown, facts: Facts) -> Step:
    """Announce the statement that a question is about."""
    return announcement(event.tool_call_id, shown, facts)


def _numbered(title: str, shown: Shown) -> tuple[str, Shown]:
    """Return the title of a new statement, with its position if an edit runs it."""
    if shown.replay is None or not shown.replay.is_edit:
        return title, shown
    replay = shown.replay.next()
    return replay.numbered(title), replace(shown, replay=replay)


def _started(event: ExecutionStarted, shown: Shown, facts: Facts) -> Step:
    statement = None if event.mode is None else facts.statement(event.statement_id)
    if statement is not None:
        return _rerun_started(event, statement, shown)
    running = shown.statements.get(event.statement_id)
    if running is not None and event.answered and not running.is_opening:
        shown, before = announcement(running.call, shown, facts, "in_progress")
        running = replace(running, is_held=False, is_answered=True, tool=None, due=())
        if before:
            return shown.with_statement(running), before
        shown = shown.with_statement(running)
    if running is None or running.is_held:
        return shown, []
    return shown, [ToolCallUpdate(tool_call_id=running.call, status="in_progress")]


def _finished(event: ExecutionFinished, shown: Shown, facts: Facts) -> Step:
    running = shown.statements.get(event.statement_id)
    if running is None or (event.status == "ok" and _is_elsewhere(event, running)):
        return shown.without(event.statement_id), []
    if running.act is not None:
        return _only_act_finished(event, running, shown, facts)
    if running.is_held and _is_told_by_acts(event, running):
        answer = _split_result(event)[1] if running.is_typed else ""
        answers = [_answer(event, answer)] if answer and not _repeats(answer, running.outputs) else []
        return shown.without(event.statement_id), answers
    shown, before = announcement(running.call, shown, facts)
    plain, rich = _rich(replace(event, pictures=()) if running.has_contents else event, facts)
    own, end = _own(plain, running)
    output, answer = (_split_result(own)[0], _split_result(plain)[1]) if running.is_typed else (result_text(own), "")
    output = "\n".join(filter(None, (output, end)))
    if output or not (answer or rich or running.has_acts or running.has_planned):
        content = [*result_content(running, output), *_differences(running)]
    else:
        content = [] if running.is_typed else [*statement_content(running, SOURCE_CHARS), *_differences(running)]
    if not running.is_typed:
        content += [Content(content=block) for block in rich]
    update = ToolCallUpdate(
        tool_call_id=running.call,
        status=end_status(event.status),
        content=content,
        locations=[location(each.path, each.line) for each in event.locations],
        **given(raw_output=content_text(content) or None),
        meta={"rewindow": {"execution": _record(event)}},
    )
    answers = [*([_answer(event, answer)] if answer else ()), *(_seen_answer(event, block) for block in rich)]
    return shown.without(event.statement_id), [*before, update, *(answers if running.is_typed else ())]


def _rich(event: ExecutionFinished, facts: Facts) -> tuple[ExecutionFinished, Sequence[ContentBlock]]:
    """Return the execution without what rich forms of its value show better, and these as clients draw them."""
    blocks: list[ContentBlock] = []
    if event.markdown and event.value is not None:
        blocks.append(TextContent(text=markdown_text(event.markdown)))
        event = replace(event, value=None)
    pictures = [picture_block(picture, facts.picture(picture)) for picture in event.pictures]
    if any(isinstance(block, ImageContent) for block in pictures) and _BARE_REPR.fullmatch(event.value or ""):
        event = replace(event, value=None)
    return event, [*blocks, *pictures]


def _seen_answer(event: ExecutionFinished, block: ContentBlock) -> AgentMessageChunk:
    return AgentMessageChunk(content=block, message_id=f"answer_{event.execution_id}")


def _is_elsewhere(event: ExecutionFinished, running: RunningStatement) -> bool:
    """Whether the editor shows without a card what the statement did: it opened an attachment, or told a plan."""
    return running.is_opening or (running.is_held and running.has_planned and not result_text(event))


def _is_told_by_acts(event: ExecutionFinished, running: RunningStatement) -> bool:
    """Whether the cards of its acts show all that the statement did."""
    if not running.has_acts or event.markdown or event.pictures:
        return False
    own, end = _own(event, running)
    if event.status == "ok":
        return not running.due and not (output_text(own) if running.is_typed else result_text(own))
    return not output_text(own) and bool(end or (event.status == "cancelled" and running.failure))


def _own(event: ExecutionFinished, running: RunningStatement) -> tuple[ExecutionFinished, str]:
    """Return the execution without what its acts' cards show, and a phrase for an error that one of them shows."""
    if event.value is not None and _repeats(event.value, running.outputs):
        event = replace(event, value=None)
    if _repeats(event.stdout.text, running.outputs):
        event = replace(event, stdout=Captured())
    error = event.exception
    if error is not None and error.message == running.rejection:
        return replace(event, exception=None), REJECTED
    if error is not None and f"{error.type}: {error.message}" == running.failure:
        return replace(event, exception=None), FAILED
    return event, ""


def _repeats(text: str, shown: Sequence[str]) -> bool:
    """Whether the text is, or begins with, one that a card shows. A repr of long output shows its beginning."""
    own = as_printed(text).strip()
    heads = (as_printed(each).strip()[:_COMPARED_CHARS] for each in shown)
    return bool(own) and any(head and own.startswith(head) for head in heads)


def _only_act_finished(event: ExecutionFinished, running: RunningStatement, shown: Shown, facts: Facts) -> Step:
    """End the card of an act that is all that its statement did."""
    act, helper = running.ended, shown.helpers.get(running.act or ToolCallId(""))
    shown = shown.without(event.statement_id)
    if act is None and helper is not None:  # its result is missing, because a crash came between
        act = EndedCall(helper, ToolResult(tool_call_id=helper.call.tool_call_id, status="cancelled", text=""))
    assert act is not None
    is_typed = running.is_typed and act.result.status == "ok"
    effect = calls.act_effect(act, shown)
    content = [*calls.act_content(act, shown, facts, with_result=not is_typed), *calls.contents(act.result, facts)]
    printed = output_text(event)
    if printed and not _repeats(printed, (*running.outputs, act.result.text)):
        content.append(text_block(printed))
    if event.status != "ok" and act.result.status == "ok":
        content.append(text_block(given_text(replace(event, displays=(), value=None))))
    content += _differences(running)
    _, answer = _split_result(event) if running.is_typed else ("", "")
    answer = "" if _repeats(answer, running.outputs) else answer
    update = ToolCallUpdate(
        tool_call_id=running.call,
        status=end_status(event.status),
        **given(
            content=None if effect and content == effect else content,  # because an effect is shown at once
            locations=[location(each.path, each.line) for each in act.result.locations] or None,
            raw_output=None if calls.is_command(act, shown) else content_text(content) or None,
        ),
        meta={"rewindow": {"execution": _record(event)}, **(calls.closed_terminal(act.call, shown) or {})},
    )
    return shown.without_helper(act.call.call.tool_call_id), [update, *([_answer(event, answer)] if answer else ())]


def _split_result(event: ExecutionFinished) -> tuple[str, str]:
    """Split the result of a statement that the user typed into its call's content and the answer, without repetition.

    Output stays in the call, where it was streamed. The value is the answer, because some editors do not show the
    content of calls. An error is in both, so the answer is only its last line. A cancelled turn gets no answer.
    """
    if event.status == "ok":
        return output_text(event), given_text(event)
    reason = event.exception
    last = "" if reason is None else cut_line(f"{reason.type}: {reason.message}".partition("\n")[0], _REASON_CHARS)
    return result_text(event), "" if event.status == "cancelled" else last


def _answer(event: ExecutionFinished, text: str) -> AgentMessageChunk:
    return AgentMessageChunk(content=TextContent(text=answer_text(text)), message_id=f"answer_{event.execution_id}")


def _record(event: ExecutionFinished) -> dict[str, Any]:
    return {
        "status": event.status,
        "value": event.value,
        "exception": event.exception and {"type": event.exception.type, "message": event.exception.message},
        "stdoutBytes": event.stdout.total_bytes,
        "stderrBytes": event.stderr.total_bytes,
        "timeMs": round(event.time_ms, 3),
        "names": {
            "added": list(event.diff.added),
            "changed": list(event.diff.changed),
            "deleted": list(event.diff.deleted),
            **({"unknown": event.diff.unknown} if event.diff.unknown else {}),
        },
    }


# --- runs again -------------------------------------------------------------------------------------------------------


def rerun_update(rerun: StatementRerun) -> WireModel:
    """Show which earlier statement runs again to restore its names."""
    title = f"Run statement {rerun.statement} again ({rerun.place} of {rerun.total})"
    if rerun.state == "begun":
        return ToolCall(tool_call_id=rerun.tool_call_id, title=title, kind="other", status="in_progress")
    status: dict[str, ToolCallStatus] = {"running": "in_progress", "over": "completed", "given_up": "failed"}
    return ToolCallUpdate(tool_call_id=rerun.tool_call_id, title=title, status=status[rerun.state])


def _rerun_started(event: ExecutionStarted, statement: StatementRecorded, shown: Shown) -> Step:
    """Announce a statement that runs again in a replay. If it only calls tools, live, their cards show that."""
    replay = (shown.replay or ReplayProgress(1)).next()
    tools = () if event.mode != "live" or event.answered else only_calls(statement.source)
    running = RunningStatement(
        ToolCallId(event.execution_id),
        statement.source,
        is_typed=False,
        number=statement.index,
        is_held=bool(tools),
        title=title_line(replay.numbered(f"Run statement {statement.index} again")),
        rerun=event.mode or "",
        is_answered=event.answered,
        **_acts(tools),
    )
    shown = replace(shown, replay=replay, statements={**shown.statements, event.statement_id: running})
    return shown, [] if running.is_held else [announced_statement(statement, running, "in_progress")]


def _differences(running: RunningStatement) -> list[ToolCallContent]:
    """The content below the result, if it differs from the first run. The command's report says how."""
    return [text_block(DIFFERENT)] if running.differs else []


def _with_difference(event: Diverged, shown: Shown) -> Shown:
    """Keep a difference until the execution ends; its event comes next."""
    statements = {
        statement: replace(running, differs=True) if running.call == event.execution_id else running
        for statement, running in shown.statements.items()
    }
    return replace(shown, statements=statements)


# --- output -----------------------------------------------------------------------------------------------------------


def output_updates(call: ToolCallId, new: str, text: str, shown: Shown) -> Sequence[WireModel]:
    """Show the output of a running statement, or of a command inside one.

    Nothing after it ended, or while the output is empty. `new` is the output since the previous update, `text` all
    output.
    """
    if not text:
        return []
    helper = shown.helpers.get(call)
    command = None if helper is None else calls.command_output(helper, new, text, shown)
    if command is not None:
        return [command]
    matching = [running for running in shown.statements.values() if running.call == call]
    matching = [running for running in matching if not running.is_held and running.act is None]
    return [ToolCallUpdate(tool_call_id=call, content=result_content(running, text)) for running in matching]
