"""Progress notifications and cancellation of tool calls.

Scenarios use a call that takes seconds, cancels of finished and unknown requests, and malformed cancels.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from conformance.driver import StoppedError
from conformance.judging import (
    PASS,
    Requirement,
    Verdict,
    answered,
    evidence,
    failed,
    marked_requests,
    skipped,
    survived,
    unanswered_reason,
)
from conformance.suite import Scenario
from conformance.suites.jsonrpc_rules import REPLY_QUOTE
from conformance.suites.mcp_stdio.client import (
    HANDSHAKE,
    MODERN,
    Client,
    in_both,
    known_calls,
    meta_of,
    notifications_fit_schema,
    prose,
    schema,
    slow_call,
    version_of,
    when,
)
from conformance.traffic import Message, Traffic, id_key

_RACE: Final = 50.0
"""Milliseconds in which a result may still arrive after a cancel."""
_GRACEFULLY: Final = "Both parties **MUST** handle these race conditions gracefully:"


def _progress(traffic: Traffic) -> list[Message]:
    return traffic.notifications("server", "notifications/progress")


def _token_was_requested(traffic: Traffic) -> Verdict:
    given: dict[object, list[Message]] = {}
    for request in traffic.sent("client"):
        if request.is_request and "progressToken" in meta_of(request):
            given.setdefault(id_key(meta_of(request)["progressToken"]), []).append(request)
    for message in _progress(traffic):
        token = message.params.get("progressToken")
        requests = [request for request in given.get(id_key(token), []) if request.order < message.order]
        if not requests:
            return failed(f"progress has the token {token!r}, which no request sent", message.index)
        if all(request.answer is not None and request.answer.order < message.order for request in requests):
            return failed("progress was sent for a request that was already answered", message.index)
    return PASS if _progress(traffic) else skipped("no progress was sent")


def _progress_increases(traffic: Traffic) -> Verdict:
    last: dict[object, tuple[float, int]] = {}
    for message in _progress(traffic):
        token, progress = id_key(message.params.get("progressToken")), message.params.get("progress")
        if not isinstance(progress, int | float) or isinstance(progress, bool):
            continue
        if token in last and progress <= last[token][0]:
            reason = f"progress went from {last[token][0]} to {progress}"
            return failed(reason, last[token][1], message.index)
        last[token] = progress, message.index
    return PASS if last else skipped("no progress was sent")


def _cancelled(traffic: Traffic, version: str) -> Iterator[tuple[Message, float]]:
    """Yield calls of a version that were cancelled before their end, with the time in milliseconds."""
    requests = {id_key(m.id): m for m in traffic.sent("client") if m.is_request and version_of(m) == version}
    for entry in traffic.marks("cancelled"):
        request = requests.get(id_key(entry.value))
        if request is not None and not traffic.marks("race-missed"):
            yield request, entry.ms


def _unanswered(traffic: Traffic, version: str) -> Verdict:
    judged = False
    for request, ms in _cancelled(traffic, version):
        answer = request.answer
        if answer is not None and answer.ms >= ms + (_RACE if request.succeeded else 0):
            said = "a result" if request.succeeded else f"the error {answer.error.get('code')}"
            return failed(f"a cancelled call was answered with {said}", *evidence(request))
        judged = judged or answer is None
    if not judged:
        return skipped("no call could be cancelled before it ended")
    if not _had_its_time(traffic):
        return skipped("the call takes longer than the suite waits for its answer")
    return PASS


def _nothing_after_cancel(traffic: Traffic) -> Verdict:
    for request, ms in _cancelled(traffic, MODERN):
        token = meta_of(request).get("progressToken")
        for message in _progress(traffic):
            if id_key(message.params.get("progressToken")) == id_key(token) and message.ms >= ms + _RACE:
                return failed("progress was sent for a cancelled call", request.index, message.index)
    return _unanswered(traffic, MODERN)


def _had_its_time(traffic: Traffic) -> bool:
    """Whether a later call has ended."""
    return any(request.answer is not None for request in marked_requests(traffic, "once-more"))


def _keeps_working(traffic: Traffic) -> Verdict:
    verdict = survived(traffic)
    if verdict.outcome != "pass" or not _had_its_time(traffic):
        return verdict
    for request in marked_requests(traffic, "under-way"):
        if request.answer is None:
            return failed(unanswered_reason(traffic, request, "a pending call"), request.index)
    return PASS


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-PROG-001",
        "mandatory",
        "Progress is sent only for pending requests with the same token.",
        prose("basic/utilities/progress", "Progress notifications **MUST** only reference tokens that:"),
        _token_was_requested,
        violation="progress after the result",
    ),
    Requirement(
        "MCP-S-PROG-002",
        "mandatory",
        "Progress values increase.",
        prose("basic/utilities/progress", "The `progress` value **MUST** increase with each notification"),
        _progress_increases,
        violation="50, then 50",
    ),
    Requirement(
        "MCP-S-PROG-003",
        "mandatory",
        "Progress notifications have the schema's shape.",
        schema("/$defs/ProgressNotificationParams/required", '["progress", "progressToken"]'),
        notifications_fit_schema({"notifications/progress": "ProgressNotificationParams"}),
        violation='{"progressToken":7,"progress":"50 %"}',
    ),
    Requirement(
        "MCP-S-PROG-004",
        "capability",
        "A call with a progress token is answered, with or without progress.",
        prose("json-rpc", REPLY_QUOTE),
        when("progress", answered("progress")),
        applies="tools",
        violation="silence",
    ),
    Requirement(
        "MCP-S-CANCEL-001",
        "advisory",
        "A cancelled call is not answered.",
        prose("basic/utilities/cancellation", "Not send a response for the cancelled request"),
        partial(_unanswered, version=HANDSHAKE),
        violation='{"error":{"code":0,"message":"Request cancelled"}}',
    ),
    Requirement(
        "MCP-S-CANCEL-002",
        "mandatory",
        "The server keeps working after a cancelled call.",
        prose("basic/utilities/cancellation", _GRACEFULLY),
        when("cancelled", survived),
        violation="a server that answers nothing afterwards",
    ),
    Requirement(
        "MCP-S-CANCEL-003",
        "mandatory",
        "The server keeps working after cancels of answered and unknown requests.",
        prose("basic/utilities/cancellation", _GRACEFULLY),
        when("stale-cancels", _keeps_working),
        violation="a server that exits, or ends another call",
    ),
    Requirement(
        "MCP-S-CANCEL-004",
        "advisory",
        "The server ignores cancels that name no request.",
        prose("basic/utilities/cancellation", "Invalid cancellation notifications **SHOULD** be ignored:"),
        when("malformed-cancels", survived),
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-CANCEL-005",
        "capability",
        "A cancelled call gets neither an answer nor progress.",
        prose("basic/transports/stdio", "**MUST NOT** send any further messages for it.", MODERN),
        _nothing_after_cancel,
        applies=MODERN,
        violation="progress of the call a second after the cancel",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_CANCEL_AFTER: Final = 0.3
"""Seconds before a slow call is cancelled."""
_LATER: Final = 1.0
"""Seconds for a call to be answered after a later one of the same kind was."""


def _with_token(call: dict[str, Any], token: object) -> dict[str, Any]:
    return {**call, "_meta": {"progressToken": token}}


def _run_progress(client: Client) -> None:
    client.need("tools")
    try:
        call = slow_call(client)
    except StoppedError:
        call = known_calls(client.driver)[0]
    for token in ("rewindow-conformance", 7):
        request = client.ask("tools/call", label="progress", **_with_token(call, token))
        client.driver.response(request, client.driver.options.scenario_timeout)
    client.driver.pause(_CANCEL_AFTER)


def _run_cancel(client: Client) -> None:
    client.need("tools")
    call = slow_call(client)
    driver = client.driver
    request = client.ask("tools/call", **_with_token(call, "cancelled"))
    if driver.response(request, _CANCEL_AFTER) is not None:
        driver.mark("race-missed")
    driver.mark("cancelled", request)
    client.cancel(request)
    _once_more(client, call)
    client.alive()


def _once_more(client: Client, call: dict[str, Any]) -> None:
    """Repeat a call and wait for it. When it has ended, the first one had its time too."""
    again = client.ask("tools/call", label="once-more", **call)
    if client.driver.response(again, client.driver.options.scenario_timeout / 2) is None:
        client.cancel(again)


def _run_stale(client: Client) -> None:
    driver = client.driver
    try:
        call = slow_call(client)
    except StoppedError:
        call = None  # no pending call that the cancels could end
    under_way = call and client.ask("tools/call", label="under-way", **call)
    method, params = client.probe()
    request = driver.request(method, params)
    driver.response(request)
    driver.mark("stale-cancels")
    for stale in (request, request, 987_654, "never-sent"):
        client.cancel(stale)
    if call:
        _once_more(client, call)
        driver.response(under_way, _LATER)
    client.alive()


def _run_malformed(client: Client) -> None:
    client.driver.mark("malformed-cancels")
    for params in ({}, {"requestId": None}, {"requestId": {"a": 1}}):
        client.driver.notify("notifications/cancelled", params)
    client.driver.notify("notifications/cancelled")
    client.alive()


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("progress", "Calls a tool with a progress token, a string and a number.", _run_progress),
    *in_both("cancel", "Cancels a slow call, and repeats it.", _run_cancel, alone=True),
    *in_both(
        "cancel-stale",
        "Cancels an answered request twice, and unknown requests, during a slow call if possible.",
        _run_stale,
    ),
    *in_both("cancel-malformed", "Sends cancels that name no request.", _run_malformed),
)
