"""`session/prompt`: what a person says, and why the turn ended.

Source: ACP v1 schema, `PromptRequest` and `PromptResponse`.
"""

from typing import Literal

from acp_adapter.wire.model import ForgivingModel, WireModel
from acp_adapter.wire.v1.shapes.content import ContentBlock

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class PromptRequest(ForgivingModel):
    session_id: str
    prompt: list[ContentBlock]


class PromptResponse(WireModel):
    stop_reason: StopReason
