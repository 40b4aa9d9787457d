"""Sessions: new, list, delete and close. Also has the scenarios of `loading`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conformance.driver import Driver
from conformance.judging import (
    PASS,
    Requirement,
    Verdict,
    answered,
    every,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import is_absolute, prose, results_fit, schema
from conformance.suites.acp1_agent.client import (
    QUIET,
    begin,
    finish_turn,
    is_working,
    need,
    new_session_params,
    open_session,
    start_turn,
    turn,
)
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at, is_list

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
    for request in marked_requests(traffic, label):
        if request.answer is not None and request.succeeded:
            for session in as_list(request.answer.result.get("sessions")):
                yield request.answer, as_object(session)


def _pages_end(traffic: Traffic) -> Verdict:
    requests = marked_requests(traffic, "all")
    if not requests:
        return not_tested("no list was requested")
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
    return PASS if marked_requests(traffic, "all") else not_tested("no list was requested")


def _lists_used(traffic: Traffic) -> Verdict:
    wanted = [entry.value for entry in traffic.marks("listed")]
    if not wanted or not marked_requests(traffic, "all"):
        return not_tested("no list was requested")
    listed = {as_text(session.get("sessionId")) for _, session in _listed(traffic)}
    shown = [index for request in marked_requests(traffic, "all") for index in evidence(request)]
    reason = f"the session {wanted[0]!r} had a turn but is not listed"
    return PASS if wanted[0] in listed else failed(reason, *shown)


def _filters(traffic: Traffic) -> Verdict:
    asked = marked_requests(traffic, "here", "elsewhere")
    if not asked:
        return not_tested("no list was requested")
    for request in asked:
        wanted = request.params.get("cwd")
        for answer, session in _listed(traffic, "here" if request in marked_requests(traffic, "here") else "elsewhere"):
            if as_text(session.get("cwd")).rstrip("/") != as_text(wanted).rstrip("/"):
                return failed(f"a list for {wanted} contains a session of {session.get('cwd')}", answer.index)
    return PASS


def _empty(traffic: Traffic) -> Verdict:
    for request in marked_requests(traffic, "elsewhere"):
        if request.answer is None or not request.succeeded:
            return failed("a list without matches was not answered with a result", *evidence(request))
        sessions = request.answer.result.get("sessions")
        return PASS if is_list(sessions) else failed("the result has no array of sessions", *evidence(request))
    return not_tested("no list was requested")


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
    if not marked_requests(traffic, "all"):
        return skipped("sessions are not listed")
    for answer, session in _listed(traffic):
        if session.get("sessionId") == names[0]:
            return failed("a deleted session is still listed", answer.index)
    return PASS


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-NEW-001",
        "mandatory",
        "The agent opens sessions, and the result has the schema's shape.",
        schema("/$defs/NewSessionResponse/required", '["sessionId"]'),
        results_fit("session/new", "NewSessionResponse"),
        violation='{"session_id":"1"}',
    ),
    Requirement(
        "ACP1-A-NEW-002",
        "mandatory",
        "Each new session has its own id.",
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
        "The agent answers session/new without a working directory with an error.",
        schema("/$defs/NewSessionRequest/required", '["cwd", "mcpServers"]'),
        answered("without-cwd", "cwd-number", expect="error"),
        scenario="new-without-cwd",
        violation="a session in the agent's own directory",
    ),
    Requirement(
        "ACP1-A-NEW-004",
        "informational",
        "The agent answers session/new with a relative working directory with an error.",
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
        results_fit("session/list", "ListSessionsResponse"),
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
        violation="an error for the cursor of the previous page",
    ),
    Requirement(
        "ACP1-A-LIST-010",
        "advisory",
        "A session list ends: no page returns a cursor that was already used.",
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
        "A session with a turn is listed.",
        prose("session-list", "The Agent **MUST** respond with a list of sessions and optional pagination metadata:"),
        _lists_used,
        scenario="list",
        applies=_LIST,
        violation="an empty list after a turn",
    ),
    Requirement(
        "ACP1-A-LIST-005",
        "advisory",
        "A list for a directory contains only sessions of that directory.",
        prose("session-list", "Only sessions with a matching `cwd` are returned."),
        _filters,
        scenario="list",
        applies=_LIST,
        violation="sessions of every directory",
    ),
    Requirement(
        "ACP1-A-LIST-006",
        "capability",
        "A list without matches is an empty array.",
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
        "Times of listed sessions are ISO 8601.",
        schema("/$defs/SessionInfo/properties/updatedAt", "ISO 8601 timestamp of last activity"),
        every(_list_results, _times, _no_list),
        applies=_LIST,
        violation='"updatedAt":"yesterday"',
    ),
    Requirement(
        "ACP1-A-LIST-009",
        "advisory",
        "The agent answers an invalid cursor with an error.",
        prose("session-list", "Agents **SHOULD** return an error if the cursor is invalid"),
        answered("bad-cursor", expect="error"),
        scenario="list-bad-cursor",
        applies=_LIST,
        violation="the first page",
    ),
    Requirement(
        "ACP1-A-DELETE-001",
        "advisory",
        "The agent deletes a session on request.",
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
        "A deleted session is no longer listed.",
        schema(
            "/$defs/DeleteSessionRequest", "Request parameters for deleting an existing session from `session/list`."
        ),
        _deleted_is_gone,
        scenario="delete",
        applies="sessionCapabilities.delete",
        violation="the next list contains the session",
    ),
    Requirement(
        "ACP1-A-DELETE-003",
        "informational",
        "The agent answers session/delete of a deleted session with success.",
        schema("/$defs/DeleteSessionResponse", "Response from deleting a session."),
        answered("delete-again", expect="result"),
        scenario="delete",
        applies="sessionCapabilities.delete",
        violation='"code":-32002',
    ),
    Requirement(
        "ACP1-A-CLOSE-001",
        "capability",
        "The agent closes an idle session.",
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


# --- scenarios --------------------------------------------------------------------------------------------------------


_MORE: Final = "sessionCapabilities.additionalDirectories"
_PAGES: Final = 50
"""Pages after which a list counts as endless."""


def _run_two(driver: Driver) -> None:
    begin(driver)
    open_session(driver)
    open_session(driver)
    open_session(driver)


def _run_no_cwd(driver: Driver) -> None:
    begin(driver)
    asked: dict[str, Object] = {"without-cwd": {"mcpServers": []}, "cwd-number": {"cwd": 5, "mcpServers": []}}
    for label, params in asked.items():
        request = driver.request("session/new", params, label=label)
        driver.response(request)


def _run_relative_cwd(driver: Driver) -> None:
    begin(driver)
    request = driver.request("session/new", {"cwd": "relative/path", "mcpServers": []}, label="relative-cwd")
    driver.response(request)


def _run_more_directories(driver: Driver) -> None:
    begin(driver)
    need(driver, _MORE)
    with tempfile.TemporaryDirectory(prefix="rewindow-conformance-") as folder:
        params = new_session_params(driver, additionalDirectories=[str(Path(folder).resolve())])
        driver.response(driver.request("session/new", params, label="more-directories"))


def _again(driver: Driver, method: str) -> None:
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    turn(driver, session, driver.options.tool_prompt)
    driver.pause(QUIET)
    request = driver.request(method, new_session_params(driver, sessionId=session), label="again")
    driver.response(request)
    driver.pause(QUIET)
    after = start_turn(driver, session, driver.options.prompt, label="after")
    finish_turn(driver, after)


def _run_load(driver: Driver) -> None:
    begin(driver)
    need(driver, "loadSession")
    _again(driver, "session/load")


def _run_load_after_restart(driver: Driver) -> None:
    begin(driver)
    need(driver, "loadSession")
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    driver.restart()
    begin(driver)
    request = driver.request("session/load", new_session_params(driver, sessionId=session), label="after-restart")
    driver.response(request)


def _run_load_unknown(driver: Driver) -> None:
    begin(driver)
    need(driver, "loadSession")
    request = driver.request(
        "session/load", new_session_params(driver, sessionId="rewindow-conformance-unknown"), label="again"
    )
    driver.response(request)


def _run_resume(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.resume")
    _again(driver, "session/resume")


def _run_list(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.list")
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    driver.mark("listed", session)
    _pages(driver, "all", {})
    _pages(driver, "here", {"cwd": driver.options.cwd})
    _pages(driver, "elsewhere", {"cwd": "/rewindow-conformance/no/such/directory"})


def _pages(driver: Driver, label: str, params: dict[str, str]) -> None:
    cursor = ""
    for _ in range(_PAGES):
        request = driver.request("session/list", {**params, "cursor": cursor} if cursor else params, label=label)
        response = driver.response(request)
        cursor = as_text(at(response, "result.nextCursor"))
        if not cursor:
            return


def _run_bad_cursor(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.list")
    request = driver.request("session/list", {"cursor": "rewindow-conformance-no-such-cursor"}, label="bad-cursor")
    driver.response(request)


def _run_delete(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.delete")
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    for label in ("delete", "delete-again"):
        request = driver.request("session/delete", {"sessionId": session}, label=label)
        driver.response(request)
    driver.mark("deleted", session)
    _pages(driver, "all", {})


def _run_close(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.close")
    session = open_session(driver)
    prompt = start_turn(driver, session, driver.options.slow_prompt)
    driver.wait(is_working, 2)
    driver.mark("cancelled", prompt)
    request = driver.request("session/close", {"sessionId": session}, label="close")
    driver.response(request)
    finish_turn(driver, prompt)
    driver.pause(QUIET)
    other = start_turn(driver, open_session(driver), driver.options.prompt, label="after")
    finish_turn(driver, other)


def _run_close_idle(driver: Driver) -> None:
    begin(driver)
    need(driver, "sessionCapabilities.close")
    request = driver.request("session/close", {"sessionId": open_session(driver)}, label="close")
    driver.response(request)


SCENARIOS: Final = (
    Scenario("three-sessions", "Opens three sessions.", _run_two),
    Scenario("new-without-cwd", "Opens a session without a working directory.", _run_no_cwd),
    Scenario("new-relative-cwd", "Opens a session with a relative working directory.", _run_relative_cwd),
    Scenario("additional-directories", "Opens a session with an additional directory.", _run_more_directories),
    Scenario("load", "Runs turns in a session, loads it, and continues it.", _run_load),
    Scenario("load-after-restart", "Runs a turn, restarts the agent, and loads the session.", _run_load_after_restart),
    Scenario("load-unknown", "Loads an unknown session.", _run_load_unknown),
    Scenario("resume", "Runs turns in a session, resumes it, and continues it.", _run_resume),
    Scenario("list", "Lists sessions: all, those of this directory, and those of an unused directory.", _run_list),
    Scenario("list-bad-cursor", "Lists sessions from an invalid cursor.", _run_bad_cursor),
    Scenario("delete", "Deletes a session twice, and lists the rest.", _run_delete),
    Scenario("close", "Closes a session during a slow turn.", _run_close, alone=True, tries=3),
    Scenario("close-idle", "Closes an idle session.", _run_close_idle),
)
