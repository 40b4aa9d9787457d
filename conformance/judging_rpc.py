"""Judges of JSON-RPC, for any protocol over it: versions, ids, results and errors, what is answered and what is not.

Each is told whose messages it is about: the server's, unless a suite for clients says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from conformance.judging import evidence, marked, unanswered
from conformance.requirement import Judge
from conformance.traffic import Message, Sender, Traffic, id_key
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped


def objects(traffic: Traffic, side: Sender = "server") -> list[Message]:
    """Every message that is an object."""
    return [message for message in traffic.sent(side) if message.object]


def responses(traffic: Traffic, side: Sender = "server") -> list[Message]:
    """Every response."""
    return [message for message in traffic.sent(side) if message.is_response]


def no_message() -> Verdict:
    """What is said where there is nothing to judge."""
    return not_tested("the program sent no message")


def version_problem(message: Message) -> str:
    """Whether a message says that it is JSON-RPC 2.0."""
    version = message.object.get("jsonrpc")
    return "" if version == "2.0" else f"jsonrpc is {version!r}"


def form_problem(message: Message) -> str:
    """Whether a message is a request, a notification or a response, with either a result or an error."""
    if "result" in message.object and "error" in message.object:
        return "a response holds both a result and an error"
    if "method" not in message.object and not message.is_response:
        return "a message is neither request nor response"
    return ""


def asked_for(traffic: Traffic, side: Sender = "server") -> Verdict:
    """Each response has a request that waits for it, and each request one response."""
    # Where the lines sent were malformed, an error without an id answers one of them; so does a response with the id of
    # a request in a batch, or in a line that is not quite UTF-8.
    other: Sender = "client" if side == "server" else "server"
    waiting = {str(m.id) for m in traffic.sent(other) if m.is_request and m.answer is None}
    unread = b"".join(m.line for m in traffic.sent(other) if not m.object)
    for message in responses(traffic, side):
        other_type = str(message.id) in waiting
        in_malformed = json.dumps(message.id).encode() in unread
        if message.answers is None and message.id is not None and not other_type and not in_malformed:
            return failed(f"a response with the id {message.id!r}, which no request is waiting for", message.index)
    return PASS if responses(traffic, side) else not_tested("the program answered nothing")


def notifications_unanswered(traffic: Traffic, side: Sender = "server") -> Verdict:
    """No response without an id follows where only notifications have none."""
    other: Sender = "client" if side == "server" else "server"
    if traffic.marks("malformed") or any(m.problem or not m.object for m in traffic.sent(other)):
        return skipped("lines without an id were sent too")
    if not any(message.is_notification for message in traffic.sent(other)):
        return skipped("no notification was sent")
    for message in responses(traffic, side):
        if message.id is None and message.answers is None:
            return failed("a notification was answered", message.index)
    return PASS


def ids_repeated(traffic: Traffic, side: Sender = "server") -> Verdict:
    """The requests whose ids the marks `id` hold are answered with the same ids, types included."""
    sent = [entry.value for entry in traffic.marks("id")]
    if not sent:
        return not_tested("the requests were not sent")
    other: Sender = "client" if side == "server" else "server"
    asked = {id_key(message.id): message for message in traffic.sent(other) if message.is_request}
    answered_ids = {id_key(message.id) for message in responses(traffic, side)}
    for value in sent:
        if id_key(value) not in answered_ids:
            like = next((m for m in responses(traffic, side) if str(m.id) == str(value)), None)
            request = asked.get(id_key(value))
            shown = [message.index for message in (request, like) if message is not None]
            if like is None and request is not None:
                return failed(unanswered(traffic, request), *shown)
            said = f"was answered with the id {like.id!r}" if like else "was not answered"
            return failed(f"a request with the id {value!r} {said}", *shown)
    return PASS


def all_answered(*labels: str, user: frozenset[str] = frozenset(), side: Sender = "server") -> Judge:
    """The program answers every request that a scenario waited for as long as for any.

    Of requests under marks only those with these labels count, because for the others requirements of their own say
    what is to come; nor do methods that wait for a `user`. Where a line was sent that not every reader takes, nothing
    is said, since a program may stop there.
    """
    other: Sender = "client" if side == "server" else "server"

    def judge(traffic: Traffic) -> Verdict:
        if traffic.marks("long-line") or any(message.problem or not message.object for message in traffic.sent(other)):
            return skipped("lines that are no messages were sent too")
        counting = {"unanswered", *labels}
        marks = [entry for entry in traffic.transcript.entries if entry.kind == "mark"]
        named = {id_key(entry.value) for entry in marks if entry.label not in counting}
        for request in marked(traffic, "unanswered", by=other):
            if request.answer is None and id_key(request.id) not in named and request.method not in user:
                return failed(unanswered(traffic, request), request.index)
        asked = [message for message in traffic.sent(other) if message.is_request]
        late = next((request for request in asked if request.answer is None), None)
        if late is not None and not traffic.transcript.scenario:
            return skipped(f"the traffic ends before {late.method} with id {late.id!r} is answered")
        return PASS if any(request.answer is not None for request in asked) else skipped("nothing was answered")

    return judge


def own_ids(problem: Callable[[object], object], side: Sender = "server") -> Judge:
    """The program's own requests have ids without a problem, and no two that wait have the same."""

    def judge(traffic: Traffic) -> Verdict:
        pending: dict[tuple[int, object], Message] = {}
        requests = [message for message in traffic.sent(side) if message.is_request]
        for message in requests:
            wrong = problem(message.id)
            if wrong:
                return failed(f"the id of a request: {wrong}", message.index)
            key = traffic.start_of(message), id_key(message.id)
            before = pending.get(key)
            if before is not None and (before.answer is None or before.answer.order > message.order):
                return failed(f"two requests that wait have the same id {message.id!r}", before.index, message.index)
            pending[key] = message
        return PASS if requests else skipped("the program sent no request")

    return judge


def coded(label: str, *codes: int, instead_of_result: bool = False, by: Sender = "client") -> Judge:
    """The errors under a mark have one of these codes; that they are errors, too, where a result is not allowed."""

    def judge(traffic: Traffic) -> Verdict:
        found = [request for request in marked(traffic, label, by=by) if request.answer is not None]
        for request in found:
            assert request.answer
            given = request.answer.error.get("code")
            if (given is not None and given not in codes) or (instead_of_result and request.succeeded):
                said = "a result" if request.succeeded else f"the code {given}"
                wanted = " or ".join(map(str, codes))
                return failed(f"{request.method} was answered with {said}, not with {wanted}", *evidence(request))
        return PASS if found else skipped("nothing was answered")

    return judge


def refused(label: str) -> Judge:
    """Every request under a mark, whose params are wrong, is answered with an error."""

    def judge(traffic: Traffic) -> Verdict:
        requests = marked(traffic, label)
        if not requests:
            return not_tested("the requests were not sent")
        for request in requests:
            if request.answer is None:
                return failed(unanswered(traffic, request, f"{request.method} with wrong params"), request.index)
            if request.succeeded:
                params = request.object.get("params")
                return failed(f"{request.method} with params {params!r} succeeded", *evidence(request))
        return PASS

    return judge
