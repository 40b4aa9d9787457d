"""Optional fields that a client has broken, in requests besides initialize and prompts, and in what it answers."""

from __future__ import annotations

from typing import Final

from conformance.judging_fields import Attempt, no_answer, no_result, takes_broken_fields
from conformance.requirement import Requirement
from conformance.requirements.acp1 import schema
from conformance.requirements.acp1_agent.reading import updates
from conformance.traffic import Traffic

_NOTIFIED: Final = "_rewindow_conformance/alive"
"""What is asked behind a notification; any answer shows that the agent still reads."""


def _refused(traffic: Traffic, attempt: Attempt) -> str:
    asked = attempt.request is not None and attempt.request.method == _NOTIFIED
    return no_answer(traffic, attempt) if asked else no_result(traffic, attempt)


def _tools_fail(traffic: Traffic, attempt: Attempt) -> str:
    """Whether a turn did not end, or a tool of it failed."""
    for message, update in updates(traffic, "tool_call", "tool_call_update"):
        if attempt.begin < message.index < attempt.end and update.get("status") == "failed":
            return f"the turn ran a tool that failed: {update.get('toolCallId')!r}"
    return no_result(traffic, attempt)


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-RPC-022",
        "advisory",
        "The agent takes optional fields of wrong types for absent in any request, as the schema marks them.",
        schema("/$defs/NewSessionRequest/properties/_meta", '"x-deserialize-default-on-error": true'),
        takes_broken_fields(_refused),
        scenario="requests-malformed",
        violation='"code":-32602 for "_meta":7 in session/new',
    ),
    Requirement(
        "ACP1-A-RPC-023",
        "advisory",
        "The agent takes optional fields of wrong types for absent in what it is answered, as the schema marks them.",
        schema("/$defs/TerminalOutputResponse/properties/exitStatus", '"x-deserialize-default-on-error": true'),
        takes_broken_fields(_tools_fail),
        scenario="answers-malformed",
        violation='a tool call that ends as failed after "exitStatus":7',
    ),
)
