"""Sessions: their ids, what a new one needs, lists, deleting and closing.

One file in spite of its length, because each requirement stands beside its judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from conformance.judging import answered, every, evidence, marked
from conformance.requirement import Requirement
from conformance.requirements.acp1 import is_absolute, prose, result_is, schema
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, is_list
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$")
_LIST: Final = "sessionCapabilities.list"


def _unique(traffic: Traffic) -> Verdict:
    seen: dict[str, Message] = {}
    requests = [r for r in traffic.requests("client", "session/new") if r.answer is not None and r.succeeded]
    for request in requests:
        assert request.answer
        session = as_text(request.answer.result.get("sessionId"))
        if session in seen:
            return failed(f"two new sessions have the id {session!r}", *evidence(seen[session]), *evidence(request))
        seen[session] = request
    return PASS if requests else not_tested("no session was opened")


def _listed(traffic: Traffic, label: str = "all") -> Iterator[tuple[Message, Object]]:
    for request in marked(traffic, label):
        if request.answer is not None and request.succeeded:
            for session in as_list(request.answer.result.get("sessions")):
                yield request.answer, as_object(session)


def _pages_end(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "all")
    if not requests:
        return not_tested("no list was asked for")
    seen: set[str] = set()
    for request in requests:
        cursor = as_text(request.answer.result.get("nextCursor")) if request.answer is not None else ""
        if cursor and cursor in seen:
            return failed(f"the cursor {cursor!r} comes back, so the list never ends", *evidence(request))
        seen.add(cursor)
    return PASS


def _lists_once(traffic: Traffic) -> Verdict:
    seen: set[str] = set()
    for answer, session in _listed(traffic):
        name = as_text(session.get("sessionId"))
        if name in seen:
            return failed(f"the session {name!r} is listed twice", answer.index)
        seen.add(name)
    return PASS if marked(traffic, "all") else not_tested("no list was asked for")


def _lists_used(traffic: Traffic) -> Verdict:
    wanted = [entry.value for entry in traffic.marks("listed")]
    if not wanted or not marked(traffic, "all"):
        return not_tested("no list was asked for")
    listed = {as_text(session.get("sessionId")) for _, session in _listed(traffic)}
    shown = [index for request in marked(traffic, "all") for index in evidence(request)]
    reason = f"the session {wanted[0]!r}, which had a turn, is not listed"
    return PASS if wanted[0] in listed else failed(reason, *shown)


def _filters(traffic: Traffic) -> Verdict:
    asked = marked(traffic, "here", "elsewhere")
    if not asked:
        return not_tested("no list was asked for")
    for request in asked:
        wanted = request.params.get("cwd")
        for answer, session in _listed(traffic, "here" if request in marked(traffic, "here") else "elsewhere"):
            if as_text(session.get("cwd")).rstrip("/") != as_text(wanted).rstrip("/"):
                return failed(f"a list for {wanted} holds a session of {session.get('cwd')}", answer.index)
    return PASS


def _empty(traffic: Traffic) -> Verdict:
    for request in marked(traffic, "elsewhere"):
        if request.answer is None or not request.succeeded:
            return failed("a list that no session matches was not answered with a result", *evidence(request))
        sessions = request.answer.result.get("sessions")
        return PASS if is_list(sessions) else failed("the result has no array of sessions", *evidence(request))
    return not_tested("no list was asked for")


def _list_results(traffic: Traffic) -> list[Message]:
    return [r.answer for r in traffic.requests("client", "session/list") if r.answer is not None and r.succeeded]


def _absolute(answer: Message) -> str:
    for session in as_list(answer.result.get("sessions")):
        path = as_object(session).get("cwd")
        if isinstance(path, str) and not is_absolute(path):
            return f"a listed session has the working directory {path!r}, which is not absolute"
    return ""


def _times(answer: Message) -> str:
    for session in as_list(answer.result.get("sessions")):
        time = as_object(session).get("updatedAt")
        if isinstance(time, str) and not _TIME.match(time):
            return f"updatedAt is {time!r}, which is not ISO 8601"
    return ""


def _no_list() -> Verdict:
    return skipped("session/list was never answered with a list")


def _deleted_is_gone(traffic: Traffic) -> Verdict:
    names = [entry.value for entry in traffic.marks("deleted")]
    if not names:
        return not_tested("no session was deleted")
    if not marked(traffic, "all"):
        return skipped("sessions are not listed")
    for answer, session in _listed(traffic):
        if session.get("sessionId") == names[0]:
            return failed("a deleted session is still listed", answer.index)
    return PASS


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-NEW-001",
        "mandatory",
        "The agent opens sessions, and the result has the schema's shape.",
        schema("/$defs/NewSessionResponse/required", '["sessionId"]'),
        result_is("session/new", "NewSessionResponse"),
        violation='{"session_id":"1"}',
    ),
    Requirement(
        "ACP1-A-NEW-002",
        "mandatory",
        "Each new session has an id of its own.",
        prose(
            "session-setup",
            "The Agent **MUST** respond with a unique [Session ID](#session-id) that identifies this conversation:",
        ),
        _unique,
        scenario="three-sessions",
        violation='"sessionId":"default" twice',
    ),
    Requirement(
        "ACP1-A-NEW-003",
        "advisory",
        "The agent answers a session/new without a working directory with an error.",
        schema("/$defs/NewSessionRequest/required", '["cwd", "mcpServers"]'),
        answered("without-cwd", "cwd-number", expect="error"),
        scenario="new-without-cwd",
        violation="a session in the agent's own directory",
    ),
    Requirement(
        "ACP1-A-NEW-004",
        "informational",
        "The agent answers a session/new with a relative working directory with an error.",
        prose("session-setup", "- **MUST** be an absolute path"),
        answered("relative-cwd", expect="error"),
        scenario="new-relative-cwd",
        violation="a session in a directory below the agent's own",
    ),
    Requirement(
        "ACP1-A-NEW-005",
        "capability",
        "An agent that advertises additional directories opens sessions with them.",
        prose(
            "session-setup",
            "The Agent **MUST** respond with a unique [Session ID](#session-id) that identifies this conversation:",
        ),
        answered("more-directories", expect="result"),
        scenario="additional-directories",
        applies="sessionCapabilities.additionalDirectories",
        violation='{"error":{"code":-32602,"message":"Unknown parameter additionalDirectories"}}',
    ),
    Requirement(
        "ACP1-A-LIST-001",
        "capability",
        "The agent answers session/list with a result of the schema's shape.",
        prose("session-list", "The Agent **MUST** respond with a list of sessions and optional pagination metadata:"),
        result_is("session/list", "ListSessionsResponse"),
        applies=_LIST,
        violation='{"sessions":null}',
    ),
    Requirement(
        "ACP1-A-LIST-002",
        "capability",
        "The agent answers each page of session/list with a list.",
        prose("session-list", "The Agent **MUST** respond with a list of sessions and optional pagination metadata:"),
        answered("all", expect="result"),
        scenario="list",
        applies=_LIST,
        violation="an error for the cursor that the page before it gave",
    ),
    Requirement(
        "ACP1-A-LIST-010",
        "advisory",
        "A list of sessions ends: no page gives a cursor that was used already.",
        schema("/$defs/ListSessionsResponse/properties/nextCursor", "If absent, there are no more results."),
        _pages_end,
        scenario="list",
        applies=_LIST,
        violation="the same nextCursor again and again",
    ),
    Requirement(
        "ACP1-A-LIST-003",
        "advisory",
        "No session is listed twice.",
        schema("/$defs/SessionInfo/properties/sessionId", "Unique identifier for the session"),
        _lists_once,
        scenario="list",
        applies=_LIST,
        violation="one id on two pages",
    ),
    Requirement(
        "ACP1-A-LIST-004",
        "advisory",
        "A session that had a turn is listed.",
        prose("session-list", "The Agent **MUST** respond with a list of sessions and optional pagination metadata:"),
        _lists_used,
        scenario="list",
        applies=_LIST,
        violation="an empty list after a turn",
    ),
    Requirement(
        "ACP1-A-LIST-005",
        "advisory",
        "A list for a directory holds the sessions of that directory alone.",
        prose("session-list", "Only sessions with a matching `cwd` are returned."),
        _filters,
        scenario="list",
        applies=_LIST,
        violation="sessions of every directory",
    ),
    Requirement(
        "ACP1-A-LIST-006",
        "capability",
        "A list that no session matches is an empty array.",
        prose(
            "session-list", "When no sessions match the criteria, the Agent **MUST** return an empty `sessions` array."
        ),
        _empty,
        scenario="list",
        applies=_LIST,
        violation='"code":-32002',
    ),
    Requirement(
        "ACP1-A-LIST-007",
        "capability",
        "The working directories of listed sessions are absolute.",
        schema(
            "/$defs/SessionInfo/properties/cwd", "The working directory for this session. Must be an absolute path."
        ),
        every(_list_results, _absolute, _no_list),
        applies=_LIST,
        violation='"cwd":"~/project"',
    ),
    Requirement(
        "ACP1-A-LIST-008",
        "advisory",
        "The times of listed sessions are ISO 8601.",
        schema("/$defs/SessionInfo/properties/updatedAt", "ISO 8601 timestamp of last activity"),
        every(_list_results, _times, _no_list),
        applies=_LIST,
        violation='"updatedAt":"yesterday"',
    ),
    Requirement(
        "ACP1-A-LIST-009",
        "advisory",
        "The agent answers a cursor that it never gave with an error.",
        prose("session-list", "Agents **SHOULD** return an error if the cursor is invalid"),
        answered("bad-cursor", expect="error"),
        scenario="list-bad-cursor",
        applies=_LIST,
        violation="the first page",
    ),
    Requirement(
        "ACP1-A-DELETE-001",
        "advisory",
        "The agent deletes a session that it is told to.",
        schema(
            "/$defs/DeleteSessionRequest", "Request parameters for deleting an existing session from `session/list`."
        ),
        answered("delete", expect="result"),
        scenario="delete",
        applies="sessionCapabilities.delete",
        violation='"code":-32601',
    ),
    Requirement(
        "ACP1-A-DELETE-002",
        "advisory",
        "A deleted session is listed no more.",
        schema(
            "/$defs/DeleteSessionRequest", "Request parameters for deleting an existing session from `session/list`."
        ),
        _deleted_is_gone,
        scenario="delete",
        applies="sessionCapabilities.delete",
        violation="the session in the next list",
    ),
    Requirement(
        "ACP1-A-DELETE-003",
        "informational",
        "The agent answers a session/delete of a session that is gone with success.",
        schema("/$defs/DeleteSessionResponse", "Response from deleting a session."),
        answered("delete-again", expect="result"),
        scenario="delete",
        applies="sessionCapabilities.delete",
        violation='"code":-32002',
    ),
    Requirement(
        "ACP1-A-CLOSE-001",
        "capability",
        "The agent closes a session in which nothing happens.",
        prose(
            "session-setup",
            (
                "The Agent **MUST** cancel any ongoing work for that session as if [`session/cancel`]"
                "(/protocol/v1/prompt-turn#cancellation) had been called, then free the resources associated with "
                "the session."
            ),
        ),
        answered("close", expect="result"),
        scenario="close-idle",
        applies="sessionCapabilities.close",
        violation='"code":-32601',
    ),
)
