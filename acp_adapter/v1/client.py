"""Requests to the editor: permissions, forms and files (`fs/*`). Shapes, params and answers.

Source of the shapes: ACP v1 schema, the requests and responses of the same names. A client must advertise `fs` before
it may be used. `questions` has what is asked.
"""

from typing import Annotated

from pydantic import Field

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.questions import (
    Asked,
    PermissionOption,
    Question,
    choice,
    form_request,
    permission_answer,
    permission_question,
)
from acp_adapter.shown import Facts
from acp_adapter.updates.shapes import ToolCallPatch
from acp_adapter.wire import Empty, ForgivingModel, WireModel, from_wire, to_wire
from engine import Form, PermissionQuestion

__all__ = [
    "check_written",
    "file_text",
    "form_request",
    "options_request",
    "permission_answer",
    "permission_params",
    "read_file_params",
    "write_file_params",
]

U32 = Annotated[int, Field(ge=0, lt=2**32)]


class RequestPermissionRequest(WireModel):
    session_id: str
    tool_call: ToolCallPatch
    options: Annotated[list[PermissionOption], Field(min_length=1)]


def permission_params(session_id: str, question: PermissionQuestion, facts: Facts) -> Json:
    """Return the params of `session/request_permission`."""
    return _params(session_id, permission_question(question, facts))


def options_request(session_id: str, form: Form) -> Asked | None:
    """Return the question as a permission request whose options are the choices; None if it has none."""
    chosen = choice(form)
    return None if chosen is None else Asked(_params(session_id, chosen.question), chosen.read)


def _params(session_id: str, question: Question) -> Json:
    return to_wire(RequestPermissionRequest(session_id=session_id, tool_call=question.call, options=question.options))


class ReadTextFileRequest(WireModel):
    """Absolute path, 1-based line, `limit` in lines. The editor answers from its buffer, including unsaved text."""

    session_id: str
    path: str
    line: U32 | None = None
    limit: U32 | None = None


class ReadTextFileResponse(ForgivingModel):
    content: str


class WriteTextFileRequest(WireModel):
    session_id: str
    path: str
    content: str


def read_file_params(session_id: str, path: str) -> Json:
    """Return params that ask for a whole file."""
    return to_wire(ReadTextFileRequest(session_id=session_id, path=path))


def file_text(result: object) -> str:
    """Return the text of the file. Raises WireShapeError."""
    return from_wire(ReadTextFileResponse, result).content


def write_file_params(session_id: str, path: str, text: str) -> Json:
    """Return params that write a file."""
    return to_wire(WriteTextFileRequest(session_id=session_id, path=path, content=text))


def check_written(result: object) -> None:
    """Check an answer that has no content. Raises WireShapeError."""
    from_wire(Empty, result)
