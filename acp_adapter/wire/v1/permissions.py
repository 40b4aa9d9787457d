"""`session/request_permission` in version 1: the question, and what the options mean."""

from __future__ import annotations

from typing import Final

from acp_adapter.wire.codec import Json
from acp_adapter.wire.legible import source_title
from acp_adapter.wire.model import from_wire, to_wire
from acp_adapter.wire.v1.shapes.client import (
    PermissionKind,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedOutcome,
)
from acp_adapter.wire.v1.shapes.tools import ToolCallPatch
from acp_adapter.wire.v1.updates.parts import source_block, source_input
from engine import PermissionAnswer, PermissionQuestion

_ANSWERS: Final[dict[PermissionKind, tuple[str, PermissionAnswer]]] = {
    "allow_once": ("Run it", PermissionAnswer(outcome="allowed")),
    "allow_always": (
        "Run this and all later statements of this session",
        PermissionAnswer(outcome="allowed", remember=True),
    ),
    "reject_once": ("Do not run it", PermissionAnswer(outcome="rejected")),
    "reject_always": ("Reject all statements of this session", PermissionAnswer(outcome="rejected", remember=True)),
}
"""Option id, which is also its kind, to its label and what it means."""


def write_question(session_id: str, question: PermissionQuestion) -> Json:
    """The params of the request."""
    request = RequestPermissionRequest(
        session_id=session_id,
        tool_call=ToolCallPatch(
            tool_call_id=question.tool_call_id,
            title=source_title(question.source),
            kind="execute",
            status="pending",
            content=[source_block(question.source)],
            raw_input=source_input(question.source),
        ),
        options=[PermissionOption(option_id=kind, name=label, kind=kind) for kind, (label, _) in _ANSWERS.items()],
    )
    return to_wire(request)


def read_answer(result: object) -> PermissionAnswer:
    """What the user chose; an option that was not offered is a rejection. Raises WireShapeError."""
    outcome = from_wire(RequestPermissionResponse, result).outcome
    if not isinstance(outcome, SelectedOutcome):
        return PermissionAnswer(outcome="cancelled")
    chosen = [answer for kind, (_, answer) in _ANSWERS.items() if kind == outcome.option_id]
    return chosen[0] if chosen else PermissionAnswer(outcome="rejected")
