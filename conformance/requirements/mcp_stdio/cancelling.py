"""Progress and cancels: tokens that were given, numbers that grow, and what may follow a cancel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from conformance.judging import answered, evidence, marked, survived, unanswered
from conformance.requirement import Requirement
from conformance.requirements.mcp_stdio.reading import (
    HANDSHAKE,
    MODERN,
    meta_of,
    notifications_are_shaped,
    prose,
    schema,
    version_of,
    when,
)
from conformance.traffic import Message, Traffic, id_key
from conformance.verdict import PASS, Verdict, failed, skipped

_RACE: Final = 50.0
"""Milliseconds in which a result that is on its way already may arrive after a cancel."""
_GRACEFULLY: Final = "Both parties **MUST** handle these race conditions gracefully:"
_REPLY: Final = (
    "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."
)


def _progress(traffic: Traffic) -> list[Message]:
    return traffic.notifications("server", "notifications/progress")


def _asked_for(traffic: Traffic) -> Verdict:
    given: dict[object, list[Message]] = {}
    for request in traffic.sent("client"):
        if request.is_request and "progressToken" in meta_of(request):
            given.setdefault(id_key(meta_of(request)["progressToken"]), []).append(request)
    for message in _progress(traffic):
        token = message.params.get("progressToken")
        requests = [request for request in given.get(id_key(token), []) if request.order < message.order]
        if not requests:
            return failed(f"progress was told of the token {token!r}, which no request gave", message.index)
        if all(request.answer is not None and request.answer.order < message.order for request in requests):
            return failed("progress was told of a request that was answered already", message.index)
    return PASS if _progress(traffic) else skipped("no progress was told")


def _grows(traffic: Traffic) -> Verdict:
    last: dict[object, tuple[float, int]] = {}
    for message in _progress(traffic):
        token, progress = id_key(message.params.get("progressToken")), message.params.get("progress")
        if not isinstance(progress, int | float) or isinstance(progress, bool):
            continue
        if token in last and progress <= last[token][0]:
            reason = f"progress went from {last[token][0]} to {progress}"
            return failed(reason, last[token][1], message.index)
        last[token] = progress, message.index
    return PASS if last else skipped("no progress was told")


def _cancelled(traffic: Traffic, version: str) -> Iterator[tuple[Message, float]]:
    """Calls of a version that were cancelled before they ended, with the moment in milliseconds."""
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
        return skipped("the call takes longer than was waited for an answer to it")
    return PASS


def _silent(traffic: Traffic) -> Verdict:
    for request, ms in _cancelled(traffic, MODERN):
        token = meta_of(request).get("progressToken")
        for message in _progress(traffic):
            if id_key(message.params.get("progressToken")) == id_key(token) and message.ms >= ms + _RACE:
                return failed("progress was told of a cancelled call", request.index, message.index)
    return _unanswered(traffic, MODERN)


def _had_its_time(traffic: Traffic) -> bool:
    """Whether a call that was made later has ended."""
    return any(request.answer is not None for request in marked(traffic, "once-more"))


def _goes_on(traffic: Traffic) -> Verdict:
    verdict = survived(traffic)
    if verdict.outcome != "pass" or not _had_its_time(traffic):
        return verdict
    for request in marked(traffic, "under-way"):
        if request.answer is None:
            return failed(unanswered(traffic, request, "a call that was under way"), request.index)
    return PASS


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-PROG-001",
        "mandatory",
        "Progress is told only of requests that gave its token and are not answered yet.",
        prose("basic/utilities/progress", "Progress notifications **MUST** only reference tokens that:"),
        _asked_for,
        violation="progress after the result",
    ),
    Requirement(
        "MCP-S-PROG-002",
        "mandatory",
        "Progress grows.",
        prose("basic/utilities/progress", "The `progress` value **MUST** increase with each notification"),
        _grows,
        violation="50, then 50",
    ),
    Requirement(
        "MCP-S-PROG-003",
        "mandatory",
        "Notifications of progress have the shape that the schema gives them.",
        schema("/$defs/ProgressNotificationParams/required", '["progress", "progressToken"]'),
        notifications_are_shaped({"notifications/progress": "ProgressNotificationParams"}),
        violation='{"progressToken":7,"progress":"50 %"}',
    ),
    Requirement(
        "MCP-S-PROG-004",
        "capability",
        "A call with a progress token is answered, whether progress is told or not.",
        prose("json-rpc", _REPLY),
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
        "The server goes on after a cancelled call.",
        prose("basic/utilities/cancellation", _GRACEFULLY),
        when("cancelled", survived),
        violation="a server that answers nothing any more",
    ),
    Requirement(
        "MCP-S-CANCEL-003",
        "mandatory",
        "The server goes on after cancels of what was answered, and of what was never asked.",
        prose("basic/utilities/cancellation", _GRACEFULLY),
        when("stale-cancels", _goes_on),
        violation="a server that exits, or ends another call",
    ),
    Requirement(
        "MCP-S-CANCEL-004",
        "advisory",
        "The server takes no notice of cancels that name no request.",
        prose("basic/utilities/cancellation", "Invalid cancellation notifications **SHOULD** be ignored:"),
        when("malformed-cancels", survived),
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-CANCEL-005",
        "capability",
        "Of a cancelled call nothing more is said, neither an answer nor progress.",
        prose("basic/transports/stdio", "**MUST NOT** send any further messages for it.", MODERN),
        _silent,
        applies=MODERN,
        violation="progress of the call a second after the cancel",
    ),
)
