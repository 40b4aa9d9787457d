"""Permissions: one, two at once, with unusual options; and cancels, with and without a permission that waits."""

from __future__ import annotations

from typing import Final

from conformance.driver import StoppedError
from conformance.scenarios.acp1_client.agent import QUIET, InTurn, Turn
from conformance.suite import Scenario
from conformance.values import Object

_USUAL: Final[list[Object]] = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
]
_UNUSUAL: Final[list[Object]] = [
    {"optionId": "\u00e9 \u4e2d \U0001f600 " + "x" * 200, "name": "Yes", "kind": "allow_once", "_meta": {"a": 1}},
    {"optionId": "x", "name": "No", "kind": "reject_once"},
]
_REFUSALS: Final[list[Object]] = [{"optionId": "stop", "name": "Stop", "kind": "reject_once"}]


def _ask(turn: Turn, call: str, options: list[Object], label: str = "permission") -> int:
    turn.update("tool_call", toolCallId=call, title="Write a file", kind="edit", status="pending")
    return turn.ask("session/request_permission", label, toolCall={"toolCallId": call}, options=options)


def _permission(turn: Turn) -> None:
    turn.driver.response(_ask(turn, "call-1", _USUAL))


def _unusual(turn: Turn) -> None:
    for call, options in (("call-1", _UNUSUAL), ("call-2", _REFUSALS)):
        turn.driver.response(_ask(turn, call, options))


def _two(turn: Turn) -> None:
    requests = [_ask(turn, "call-1", _USUAL), _ask(turn, "call-2", _UNUSUAL)]
    for request in requests:
        turn.driver.response(request)


def _elicitation(turn: Turn) -> None:
    turn.need("elicitation.form")
    properties = {"name": {"type": "string", "title": "Your name"}, "kind": {"type": "colour"}}
    asked: Object = {"mode": "form", "message": "Who are you?"}
    turn.call(
        "elicitation/create", "elicitation", **asked, requestedSchema={"type": "object", "properties": properties}
    )


def _wait_for_cancel(turn: Turn) -> None:
    turn.update("agent_message_chunk", content={"type": "text", "text": "If you are a person: stop this turn now.\n"})
    turn.driver.interrupt()
    if turn.driver.wait(lambda message: message.get("method") == "session/cancel") is None:
        raise StoppedError("the client did not cancel its turn when it was interrupted")


def _cancel(turn: Turn) -> None:
    turn.update("tool_call", toolCallId="call-1", title="Work", status="in_progress")
    turn.driver.pause(QUIET)
    _wait_for_cancel(turn)
    turn.update("tool_call_update", toolCallId="call-1", status="completed")
    turn.update("agent_message_chunk", content={"type": "text", "text": "Stopping. "})
    turn.probe("alive")
    turn.end("cancelled")


def _cancel_permission(turn: Turn) -> None:
    request = _ask(turn, "call-1", _USUAL)
    if turn.driver.response(request, QUIET) is not None:
        raise StoppedError("the permission was answered before the turn could be cancelled")
    _wait_for_cancel(turn)
    turn.driver.response(request)
    turn.end("cancelled")


SCENARIOS: Final = (
    Scenario("permission", "Asks for a permission.", InTurn(_permission)),
    Scenario(
        "permission-unusual",
        "Asks for permissions with unusual ids, and with nothing but a refusal.",
        InTurn(_unusual),
        passive=True,
    ),
    Scenario("permissions-at-once", "Asks for two permissions at once.", InTurn(_two)),
    Scenario("elicitation", "Asks the user for a name, in a form.", InTurn(_elicitation)),
    Scenario(
        "cancel",
        "Interrupts the client in a turn, and sends more updates.",
        InTurn(_cancel, ends_turn=True),
        alone=True,
    ),
    Scenario(
        "cancel-permission",
        "Interrupts the client while a permission waits.",
        InTurn(_cancel_permission, ends_turn=True),
        alone=True,
        passive=True,
    ),
)
