"""Requests to the editor: permissions and forms. Shapes, params and answers.

`questions` has what is asked. Source of the shapes: ACP v2 schema, `RequestPermissionRequest`.
"""

from typing import Annotated, Literal

from pydantic import Field

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.questions import (
    OUTSIDE,
    Asked,
    PermissionOption,
    Question,
    choice,
    form_request,
    permission_answer,
    permission_question,
)
from acp_adapter.shown import Facts
from acp_adapter.updates.blocks import command_input
from acp_adapter.v2.shapes import ToolCallPatch
from acp_adapter.v2.updates import call_fields
from acp_adapter.wire import WireModel, given, to_wire
from engine import Form, PermissionQuestion
from engine.log.permissions import CommandSubject as CommandAsked

__all__ = ["form_request", "options_request", "permission_answer", "permission_params"]


class ToolCallSubject(WireModel):
    """The permission is for a tool call."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: ToolCallPatch


class CommandSubject(WireModel):
    """The permission is for a command, in the absolute path `cwd`."""

    type: Literal["command"] = "command"
    command: str
    cwd: str
    tool_call_id: str | None = None


class RequestPermissionRequest(WireModel):
    """`title` and `description` are for the question alone."""

    session_id: str
    title: str
    description: str | None = None
    subject: Annotated[ToolCallSubject | CommandSubject, Field(discriminator="type")]
    options: Annotated[list[PermissionOption], Field(min_length=1)]


def permission_params(session_id: str, question: PermissionQuestion, facts: Facts) -> Json:
    """Return the params of `session/request_permission`."""
    asked = permission_question(question, facts)
    subject = question.subject
    if not isinstance(subject, CommandAsked):
        return _params(session_id, asked)
    request = RequestPermissionRequest(
        session_id=session_id,
        title=asked.call.title or "",
        subject=CommandSubject(
            command=command_input(subject.command)["command"],
            cwd=facts.spelled(subject.cwd),
            tool_call_id=asked.call.tool_call_id,
        ),
        options=asked.options,
        **given(description=OUTSIDE if subject.outside else None),
    )
    return to_wire(request)


def options_request(session_id: str, form: Form) -> Asked | None:
    """Return the question as a permission request whose options are the choices; None if it has none."""
    chosen = choice(form)
    return None if chosen is None else Asked(_params(session_id, chosen.question), chosen.read)


def _params(session_id: str, question: Question) -> Json:
    request = RequestPermissionRequest(
        session_id=session_id,
        title=question.call.title or "",
        subject=ToolCallSubject(tool_call=ToolCallPatch(**call_fields(question.call))),
        options=question.options,
    )
    return to_wire(request)
