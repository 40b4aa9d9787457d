"""Loading and resuming sessions: what is replayed, and when the request is answered. `sessions` has the scenarios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.judging import (
    PASS,
    Judge,
    Requirement,
    Verdict,
    answered,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
)
from conformance.suites.acp1 import TURN_ENDS, prose, results_fit, schema, session_of
from conformance.suites.acp1_agent.client import text_of, updates
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text

_HISTORY: Final = (
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
)


def _loaded(traffic: Traffic) -> Message | None:
    """Return the load or resume request if it has a result."""
    return next((request for request in marked_requests(traffic, "again") if request.succeeded), None)


def _of_load(verdict: Callable[[Traffic, Message], Verdict]) -> Judge:
    """Judge the load or resume request if it has a result."""

    def judge(traffic: Traffic) -> Verdict:
        load = _loaded(traffic)
        return verdict(traffic, load) if load is not None else not_tested("the session was not loaded")

    return judge


def _replay_parts(traffic: Traffic, load: Message) -> tuple[list[Object], list[Object], list[Object]]:
    """Return the session's updates before the request, until its answer, and from there to the next prompt."""
    assert load.answer
    after = next(iter(marked_requests(traffic, "after")), None)
    end = after.order if after else len(traffic.messages)
    mine = [(m, u) for m, u in updates(traffic, *_HISTORY) if session_of(m) == session_of(load)]
    before = [u for m, u in mine if m.order < load.order]
    during = [u for m, u in mine if load.order < m.order < load.answer.order]
    return before, during, [u for m, u in mine if load.answer.order < m.order < end]


def _joined_text(parts: list[Object], kind: str) -> str:
    """Join the text of all chunks of a kind without white space, because chunk borders do not matter."""
    return "".join("".join(text_of(update).split()) for update in parts if update.get("sessionUpdate") == kind)


def _calls(parts: list[Object]) -> set[str]:
    return {as_text(update.get("toolCallId")) for update in parts if "toolCallId" in update}


def _replays_agent(traffic: Traffic, load: Message) -> Verdict:
    before, during, _ = _replay_parts(traffic, load)
    said, again = _joined_text(before, "agent_message_chunk"), _joined_text(during, "agent_message_chunk")
    if said != again:
        return failed(f"the agent had written {said[:60]!r}, but replayed {again[:60]!r}", *evidence(load))
    return PASS


def _replays_user(traffic: Traffic, load: Message) -> Verdict:
    _, during, _ = _replay_parts(traffic, load)
    again = _joined_text(during, "user_message_chunk")
    for prompt in traffic.requests("client", "session/prompt"):
        if prompt.order < load.order and session_of(prompt) == session_of(load):
            text = "".join(
                "".join(as_text(as_object(b).get("text")).split()) for b in as_list(prompt.params.get("prompt"))
            )
            if text not in again:
                return failed(f"the user's prompt {text[:60]!r} was not replayed", *evidence(load))
    return PASS


def _replays_calls(traffic: Traffic, load: Message) -> Verdict:
    before, during, _ = _replay_parts(traffic, load)
    if not _calls(before):
        return skipped("the agent had called no tool")
    missing = _calls(before) - _calls(during)
    return failed(f"tool calls were not replayed: {sorted(missing)}", *evidence(load)) if missing else PASS


def _nothing_late(traffic: Traffic, load: Message) -> Verdict:
    _, _, late = _replay_parts(traffic, load)
    if late:
        return failed(f"{len(late)} updates of the conversation came after the answer to session/load", *evidence(load))
    return PASS


def _no_replay(traffic: Traffic, load: Message) -> Verdict:
    _, during, _ = _replay_parts(traffic, load)
    kinds = sorted({as_text(update.get("sessionUpdate")) for update in during})
    return failed(f"{', '.join(kinds)} came before the answer to session/resume", *evidence(load)) if kinds else PASS


_ENTIRE: Final = (
    "The Agent **MUST** replay the entire conversation to the Client in the form of "
    "`session/update` notifications (like `session/prompt`)."
)
_WHEN_ALL: Final = (
    "When **all** the conversation entries have been streamed to the Client, the Agent **MUST** "
    "respond to the original `session/load` request."
)
_RESUME: Final = "sessionCapabilities.resume"


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-LOAD-001",
        "capability",
        "The agent answers session/load with a result of the schema's shape.",
        prose("session-setup", _WHEN_ALL),
        results_fit("session/load", "LoadSessionResponse"),
        applies="loadSession",
        violation='"result":null',
    ),
    Requirement(
        "ACP1-A-LOAD-002",
        "capability",
        "The agent loads a session of the same connection after some turns.",
        prose("session-setup", _ENTIRE),
        answered("again", expect="result"),
        scenario="load",
        applies="loadSession",
        violation='"code":-32002',
    ),
    Requirement(
        "ACP1-A-LOAD-003",
        "capability",
        "Loading replays everything the agent wrote, word for word.",
        prose("session-setup", _ENTIRE),
        _of_load(_replays_agent),
        scenario="load",
        applies="loadSession",
        violation="only the last message",
    ),
    Requirement(
        "ACP1-A-LOAD-004",
        "capability",
        "Loading replays the user's prompts.",
        prose("session-setup", _ENTIRE),
        _of_load(_replays_user),
        scenario="load",
        applies="loadSession",
        violation="no user_message_chunk",
    ),
    Requirement(
        "ACP1-A-LOAD-005",
        "capability",
        "Loading replays every tool call.",
        prose("session-setup", _ENTIRE),
        _of_load(_replays_calls),
        scenario="load",
        applies="loadSession",
        violation="messages without the calls between them",
    ),
    Requirement(
        "ACP1-A-LOAD-006",
        "capability",
        "session/load is answered only after the replay is complete.",
        prose("session-setup", _WHEN_ALL),
        _of_load(_nothing_late),
        scenario="load",
        applies="loadSession",
        violation="the response, and then the conversation",
    ),
    Requirement(
        "ACP1-A-LOAD-007",
        "capability",
        "A loaded session accepts prompts.",
        TURN_ENDS,
        answered("after", expect="result"),
        scenario="load",
        applies="loadSession",
        violation='"code":-32002 for the session just loaded',
    ),
    Requirement(
        "ACP1-A-LOAD-008",
        "advisory",
        "The agent answers session/load of an unknown session with an error.",
        schema("/$defs/ErrorCode/anyOf/7", "A given resource, such as a session or file, was not found."),
        answered("again", expect="error"),
        scenario="load-unknown",
        applies="loadSession",
        violation="an empty session",
    ),
    Requirement(
        "ACP1-A-LOAD-009",
        "advisory",
        "The agent loads a session of an earlier agent process.",
        prose("session-setup", "This feature enables persistence across restarts"),
        answered("after-restart", expect="result"),
        scenario="load-after-restart",
        applies="loadSession",
        violation="sessions that exist only in memory, and are lost when the editor restarts",
    ),
    Requirement(
        "ACP1-A-RESUME-001",
        "capability",
        "The agent answers session/resume with a result of the schema's shape.",
        schema("/$defs/ResumeSessionResponse", '"type": "object"'),
        results_fit("session/resume", "ResumeSessionResponse"),
        applies=_RESUME,
        violation='"result":null',
    ),
    Requirement(
        "ACP1-A-RESUME-002",
        "advisory",
        "The agent resumes a session of the same connection after some turns.",
        prose("session-setup", "returns once the session is ready to continue."),
        answered("again", expect="result"),
        scenario="resume",
        applies=_RESUME,
        violation='"code":-32601',
    ),
    Requirement(
        "ACP1-A-RESUME-003",
        "capability",
        "Resuming replays nothing of the conversation before the answer.",
        prose(
            "session-setup",
            (
                "Unlike `session/load`, the Agent **MUST NOT** replay the conversation history via "
                "`session/update` notifications before responding."
            ),
        ),
        _of_load(_no_replay),
        scenario="resume",
        applies=_RESUME,
        violation="agent_message_chunk before the response",
    ),
    Requirement(
        "ACP1-A-RESUME-004",
        "capability",
        "A resumed session accepts prompts.",
        TURN_ENDS,
        answered("after", expect="result"),
        scenario="resume",
        applies=_RESUME,
        violation='"code":-32002 for the session just resumed',
    ),
)
