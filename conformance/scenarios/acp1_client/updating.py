"""Updates: every kind, with `_meta`, nulls and malformed fields, unknown kinds and values, and how turns end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import Answer, Driver
from conformance.scenarios.acp1_client.agent import QUIET, Turn, finish, open_turn, probed
from conformance.scenarios.acp1_client.opening import META, OPTIONS
from conformance.suite import Scenario
from conformance.values import Object

_TEXT: Final[Object] = {"type": "text", "text": "Some words. "}
_LATE: Final = 3.0
_AFTER: Final = 2.0


def updates(cwd: str) -> list[Object]:
    """One of each kind that needs no capability, as the schema describes it."""
    path = f"{cwd}/rewindow-conformance.txt"
    diff = {"type": "diff", "path": path, "oldText": None, "newText": "ok\n"}
    entry = {"content": "Answer", "priority": "high", "status": "in_progress"}
    return [
        {"sessionUpdate": "user_message_chunk", "content": _TEXT, "messageId": "u1"},
        {"sessionUpdate": "agent_thought_chunk", "content": _TEXT, "messageId": "t1"},
        {"sessionUpdate": "agent_message_chunk", "content": _TEXT, "messageId": "m1"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "uri": "file:///a", "name": "a"}},
        {"sessionUpdate": "plan", "entries": [entry]},
        {"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Write a file", "kind": "edit"},
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call-1",
            "status": "completed",
            "content": [diff, {"type": "content", "content": _TEXT}],
            "locations": [{"path": path, "line": 1}],
            "rawInput": {"path": path},
            "rawOutput": [1, "two", None],
        },
        {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "help", "description": "Says"}]},
        {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
        {"sessionUpdate": "config_option_update", "configOptions": OPTIONS},
        {"sessionUpdate": "session_info_update", "title": "A session", "updatedAt": "2026-01-01T00:00:00Z"},
        {"sessionUpdate": "usage_update", "used": 10, "size": 1000, "cost": {"amount": 0.1, "currency": "USD"}},
    ]


def _send(turn: Turn, *found: Object) -> None:
    for update in found:
        fields = {key: value for key, value in update.items() if key != "sessionUpdate"}
        turn.update(update["sessionUpdate"], **fields)


def _every_kind(turn: Turn) -> None:
    _send(turn, *updates(turn.cwd))


def _with_meta(turn: Turn) -> None:
    for update in updates(turn.cwd):
        _send(turn, {**update, "_meta": META})


_COMMAND: Final[Object] = {"name": "a", "description": "", "input": None}
NULLS: Final[tuple[Object, ...]] = (
    {"sessionUpdate": "agent_message_chunk", "content": {**_TEXT, "annotations": None, "_meta": None}, "_meta": None},
    {"sessionUpdate": "tool_call", "toolCallId": "call-2", "title": "Look", "_meta": None},
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call-2",
        "title": None,
        "kind": None,
        "status": None,
        "content": None,
        "locations": None,
    },
    {"sessionUpdate": "session_info_update", "title": None, "updatedAt": None},
    {"sessionUpdate": "usage_update", "used": 0, "size": 1000, "cost": None},
    {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "a", "description": "", "input": None}],
    },
)
_STRANGE: Final[tuple[Object, ...]] = (
    {"sessionUpdate": "tool_call", "toolCallId": "call-4", "title": "Fly", "kind": "fly", "status": "in_flight"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "call-4", "kind": "dive", "status": "landed"},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram", "data": "x"}},
)


def _unknown_kind(turn: Turn) -> None:
    _send(
        turn, {"sessionUpdate": "a_kind_of_later", "text": "x"}, {"sessionUpdate": "_rewindow_conformance", "data": 5}
    )


def _sending(*found: Object) -> Callable[[Turn], None]:
    return lambda turn: _send(turn, *found)


def _unknown_call(turn: Turn) -> None:
    _send(turn, {"sessionUpdate": "tool_call_update", "toolCallId": "never-reported", "status": "completed"})
    content = {"sessionUpdate": "agent_message_chunk", "content": _TEXT}
    turn.driver.notify("session/update", {"sessionId": "rewindow-conformance-unknown", "update": content})


def _notices(turn: Turn) -> None:
    turn.need("session.notices")
    for severity in ("info", "warning", "error", "_mine", "a_severity_of_later"):
        turn.update("notice", severity=severity, title="Something happened", description=None)


def _compaction(turn: Turn) -> None:
    turn.need("session.compaction")
    turn.update("compaction_update", compactionId="c1", status="in_progress")
    turn.update("compaction_summary_chunk", compactionId="c1", content=_TEXT)
    turn.update("compaction_update", compactionId="c1", status="a_status_of_later", summary=None)
    turn.update("compaction_update", compactionId="c1", status="completed")


def _late(driver: Driver) -> None:
    turn = open_turn(driver)
    driver.pause(_LATE)
    driver.mark("late", _LATE)
    finish(turn)


def _error(driver: Driver) -> None:
    turn = open_turn(driver)
    driver.answer(turn.prompt, Answer.failing(-32603, "The agent failed"))
    driver.pause(_AFTER)


def _dies(driver: Driver) -> None:
    turn = open_turn(driver)
    turn.update("agent_message_chunk", content=_TEXT)
    driver.pause(QUIET)
    driver.close_input()
    driver.pause(_AFTER)


SCENARIOS: Final = (
    Scenario("every-update", "Sends every kind of update that needs no capability.", probed(_every_kind)),
    Scenario("updates-meta", "Sends every kind of update with `_meta`.", probed(_with_meta)),
    Scenario("updates-nulls", "Sends updates with null wherever the schema allows it.", probed(_sending(*NULLS))),
    Scenario("unknown-values", "Sends kinds, statuses and content that do not exist.", probed(_sending(*_STRANGE))),
    Scenario("unknown-updates", "Sends kinds of updates that do not exist.", probed(_unknown_kind)),
    Scenario(
        "unknown-references", "Sends updates of a tool call and of a session that do not exist.", probed(_unknown_call)
    ),
    Scenario("notices", "Sends notices, of unknown severities too.", probed(_notices)),
    Scenario("compaction", "Sends compactions, with unknown statuses too.", probed(_compaction)),
    Scenario("late-end", "Ends the turn after three seconds of silence.", _late),
    Scenario("prompt-error", "Answers the prompt with an error.", _error),
    Scenario("agent-dies", "Exits in the middle of the turn.", _dies),
)
"""What the turn's end, or the agent's, is about is no `InTurn`: in one connection nothing could follow."""
