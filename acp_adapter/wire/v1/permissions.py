"""`session/request_permission` in version 1: the question, and what the options mean."""

from __future__ import annotations

from typing import Final

from acp_adapter.facts import Facts
from acp_adapter.wire.codec import Json
from acp_adapter.wire.legible import source_title, title_line
from acp_adapter.wire.model import from_wire, to_wire
from acp_adapter.wire.v1.shapes.client import (
    PermissionKind,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedOutcome,
)
from acp_adapter.wire.v1.shapes.tools import ToolCallPatch
from acp_adapter.wire.v1.updates.changes import change_content, change_locations, change_title
from acp_adapter.wire.v1.updates.parts import (
    arguments_block,
    command_block,
    command_input,
    command_title,
    location,
    place_block,
    source_block,
    source_input,
    text_block,
)
from engine import (
    ASKED_CHARS,
    CommandSubject,
    FileSubject,
    PermissionAnswer,
    PermissionQuestion,
    RebuildSubject,
    ServerCallSubject,
    StatementSubject,
    TreeSubject,
    legible_line,
    rebuild_sentence,
    source_command,
)

_OUTSIDE: Final = "It runs outside of the sandbox, with your own rights."
_REST: Final = "allow_statement"
_ANSWERS: Final[dict[str, PermissionAnswer]] = {
    "allow_once": PermissionAnswer(outcome="allowed"),
    _REST: PermissionAnswer(outcome="allowed", rest=True),
    "allow_always": PermissionAnswer(outcome="allowed", remember=True),
    "reject_once": PermissionAnswer(outcome="rejected"),
    "reject_always": PermissionAnswer(outcome="rejected", remember=True),
}
"""Option id, which is also its kind but for one, to what it means."""


def write_question(session_id: str, question: PermissionQuestion, facts: Facts) -> Json:
    """The params of the request."""
    request = RequestPermissionRequest(
        session_id=session_id, tool_call=_asked(question, facts), options=_options(question)
    )
    return to_wire(request)


def _asked(question: PermissionQuestion, facts: Facts) -> ToolCallPatch:
    match question.subject:
        case RebuildSubject() as subject:
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title="Run earlier statements again with more rights",
                kind="other",
                status="pending",
                content=[text_block(rebuild_sentence(subject))],
            )
        case StatementSubject(source=source, note=note):
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=source_title(source),
                kind="execute",
                status="pending",
                content=[source_block(source), *([text_block(note)] if note else [])],
                raw_input=source_input(source),
            )
        case FileSubject(path=real, changes=changes, note=note):
            path = facts.spelled(real)
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=change_title(path, changes, facts.cwd),
                kind="edit",
                status="pending",
                content=change_content(path, changes, note),
                locations=change_locations(path, changes),
                raw_input={"path": legible_line(path)},
            )
        case TreeSubject(act=act, kind=kind, paths=paths, changes=changes, note=note):
            path = facts.spelled(paths[-1])
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=title_line(act),
                kind=kind,
                status="pending",
                content=change_content(path, changes, "\n".join(filter(None, (act, note)))),
                locations=[location(facts.spelled(each)) for each in paths],
                raw_input={"paths": [legible_line(facts.spelled(each)) for each in paths]},
            )
        case CommandSubject(command=command, cwd=real, outside=outside):
            cwd = facts.spelled(real)
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=command_title(command),
                kind="execute",
                status="pending",
                content=[command_block(command), place_block(cwd), *([text_block(_OUTSIDE)] if outside else [])],
                raw_input={**command_input(command), "cwd": legible_line(cwd)},
            )
        case ServerCallSubject(server=server, tool=tool, arguments=arguments):
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=title_line(f"{tool} of MCP server {server}"),
                kind="other",
                status="pending",
                content=[arguments_block(arguments)],
                raw_input={
                    "server": legible_line(server),
                    "tool": legible_line(tool),
                    "arguments": source_command(arguments, ASKED_CHARS),
                },
            )


def _options(question: PermissionQuestion) -> list[PermissionOption]:
    always = question.always
    options = [_option("allow_once", "Allow")]
    if always:
        options.append(_option("allow_always", title_line(f"Always allow {always}")))
    if question.rest:
        # Last of those that allow, because a client may take the first of a kind for the kind itself.
        label = "Allow all other files that this statement changes, too"
        options.append(PermissionOption(option_id=_REST, name=label, kind="allow_always"))
    options.append(_option("reject_once", "Reject"))
    if always:
        options.append(_option("reject_always", title_line(f"Always reject {always}")))
    return options


def _option(kind: PermissionKind, label: str) -> PermissionOption:
    return PermissionOption(option_id=kind, name=label, kind=kind)


def read_answer(result: object) -> PermissionAnswer:
    """What the user chose; an option that was not offered is a rejection. Raises WireShapeError."""
    outcome = from_wire(RequestPermissionResponse, result).outcome
    if not isinstance(outcome, SelectedOutcome):
        return PermissionAnswer(outcome="cancelled")
    return _ANSWERS.get(outcome.option_id, PermissionAnswer(outcome="rejected"))
