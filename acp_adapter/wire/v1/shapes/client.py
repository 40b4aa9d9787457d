"""What the agent asks of the editor: permissions, its buffers (`fs/*`) and its terminals (`terminal/*`).

Source: ACP v1 schema, the requests and responses of the same names. Each group may be used only if the client
advertises it. Answers are read forgivingly; an outcome that is not known is no approval.
"""

from typing import Annotated, Literal

from pydantic import Field

from acp_adapter.wire.model import ForgivingModel, WireModel
from acp_adapter.wire.v1.shapes.tools import ToolCallPatch

PermissionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
U32 = Annotated[int, Field(ge=0, lt=2**32)]


class PermissionOption(WireModel):
    option_id: str
    name: str
    kind: PermissionKind


class RequestPermissionRequest(WireModel):
    session_id: str
    tool_call: ToolCallPatch
    options: Annotated[list[PermissionOption], Field(min_length=1)]


class CancelledOutcome(ForgivingModel):
    outcome: Literal["cancelled"] = "cancelled"


class SelectedOutcome(ForgivingModel):
    outcome: Literal["selected"] = "selected"
    option_id: str


class RequestPermissionResponse(ForgivingModel):
    outcome: Annotated[CancelledOutcome | SelectedOutcome, Field(discriminator="outcome")]


class ReadTextFileRequest(WireModel):
    """Absolute path, 1-based line, `limit` in lines; answered from the editor's buffer, saved or not."""

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


class EnvVariable(WireModel):
    name: str
    value: str


class CreateTerminalRequest(WireModel):
    """Returns at once; the terminal must be released in the end. `output_byte_limit` in bytes."""

    session_id: str
    command: str
    args: list[str] = Field(default_factory=list[str])
    env: list[EnvVariable] = Field(default_factory=list[EnvVariable])
    cwd: str | None = None
    output_byte_limit: Annotated[int, Field(ge=0, lt=2**64)] | None = None


class CreateTerminalResponse(ForgivingModel):
    terminal_id: str


class TerminalRequest(WireModel):
    """The params of terminal/output, wait_for_exit, kill and release."""

    session_id: str
    terminal_id: str


class TerminalExitStatus(ForgivingModel):
    """How a command ended; also the answer to terminal/wait_for_exit."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(ForgivingModel):
    output: str
    truncated: bool
    exit_status: TerminalExitStatus | None = None
