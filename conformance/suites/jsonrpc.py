"""Judges of JSON-RPC over lines, shared by all suites.

They cover what a program writes, how it ends, versions, ids, results and errors, and which messages are answered.
`side` is the sender to judge: the server, unless a client's suite says otherwise. `jsonrpc_rules` makes requirements of
them, and the fuzzer uses them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from conformance.judging import (
    PASS,
    Judge,
    Verdict,
    every,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
    stray_responses,
    survived,
    unanswered_reason,
)
from conformance.schema import Check
from conformance.traffic import OTHER, Message, Sender, Traffic, id_key, mark_indices
from conformance.transcript import LONGEST_LINE
from conformance.values import as_object, is_list, is_object, truncate, truncate_bytes

INVALID_PARAMS: Final = -32602
_UNREADABLE: Final = (-32700, -32600)
"""Codes of errors about a line without a known id."""


# --- bytes and lines --------------------------------------------------------------------------------------------------


_HALVES: Final = (b"\\ud8", b"\\ud9", b"\\uda", b"\\udb", b"\\udc", b"\\udd", b"\\ude", b"\\udf")
_SHOWN: Final = 60
_LINES: Final = 3
"""Malformed lines that are shown."""
_NO_OUTPUT: Final = "the program wrote nothing"


def messages_only(traffic: Traffic, side: Sender = "server") -> Verdict:
    """Each line is a JSON object. An array may answer an array, a batch in earlier versions."""
    lines = list(traffic.sent(side))
    batches = any(is_list(message.value) for message in traffic.messages if message.sender != side)
    for message in lines:
        if message.ended and _is_utf8(message.line) and not message.object and not (batches and is_list(message.value)):
            shown = truncate(message.line.decode(), _SHOWN)
            return failed(f"a line contains {shown!r}, which is not a message", message.index)
        if not message.ended and len(message.line) > LONGEST_LINE:
            return failed(f"a line of more than {LONGEST_LINE >> 20} MiB has no end", message.index)
    return PASS if lines else not_tested(_NO_OUTPUT)


def utf8(traffic: Traffic, side: Sender = "server") -> Verdict:
    """Each line is UTF-8."""
    lines = list(traffic.sent(side))
    for message in lines:
        if not _is_utf8(message.line):
            return failed(f"a line is not UTF-8: {truncate_bytes(message.line, _SHOWN)!r}", message.index)
    return PASS if lines else not_tested(_NO_OUTPUT)


def newline_at_end(traffic: Traffic, side: Sender = "server") -> Verdict:
    """The last message ends with a newline, unless the program was killed."""
    endings = [entry.value for entry in traffic.marks("ended")]
    if any(is_object(ending) and ending.get("by") in ("SIGTERM", "SIGKILL") for ending in endings):
        return skipped("the program was killed, perhaps in the middle of a line")
    lines = list(traffic.sent(side))
    for message in lines:
        if not message.ended:
            return failed("the last message does not end with a newline", message.index)
    return PASS if lines else not_tested(_NO_OUTPUT)


def no_lone_surrogates(traffic: Traffic, side: Sender = "server") -> Verdict:
    """No string contains an escaped lone surrogate."""
    lines = list(traffic.sent(side))
    for message in lines:
        lowered = message.line.lower()
        if message.object and any(half in lowered for half in _HALVES):
            try:
                json.dumps(message.value, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                return failed("a string contains a lone surrogate, which many parsers reject", message.index)
    return PASS if lines else not_tested(_NO_OUTPUT)


def malformed_answered(traffic: Traffic, side: Sender = "server") -> Verdict:
    """One line marked `malformed` is answered with -32700 or -32600 and no id."""
    if not traffic.marks("malformed"):
        return not_tested("the lines were not sent")
    for message in traffic.sent(side):
        if message.is_response and message.id is None and message.error.get("code") in _UNREADABLE:
            return PASS
    sent = [message.index for message in traffic.messages if message.sender != side and not message.object]
    return failed("no malformed line was answered with -32700 or -32600 and a null id", *sent[:_LINES])


def each_malformed_answered(label: str, code: int) -> Judge:
    """Each line with this mark is answered with this code and no id."""

    def judge(traffic: Traffic) -> Verdict:
        sent = len(traffic.marks(label))
        if not sent:
            return not_tested("the lines were not sent")
        if survived(traffic) != PASS:
            return skipped("the program did not continue after the lines")
        codes = [answer.error.get("code") for answer in responses(traffic) if answer.id is None]
        if codes.count(code) >= sent:
            return PASS
        shown = [message.index for message in traffic.messages if message.sender == "client" and not message.object]
        given = f"the codes were {codes}" if codes else "no error without an id was sent"
        return failed(f"{sent} malformed lines were sent, but not every line was answered with {code}: {given}", *shown)

    return judge


def exits_after_input(traffic: Traffic) -> Verdict:
    """The program exits soon after its input ends, according to the mark `closed-in-time`."""
    for entry in traffic.marks("closed-in-time"):
        if entry.value is True:
            return PASS
        shown = [
            *mark_indices(traffic, "input-closed"),
            *mark_indices(traffic, "closed-in-time"),
            *mark_indices(traffic, "ended"),
        ]
        return failed("the program still ran three seconds after its input had ended", *shown)
    return not_tested("the input was not closed")


def no_processes_left(traffic: Traffic) -> Verdict:
    """No process that the program started outlives it."""
    said = [as_object(entry.value).get("left") for entry in traffic.marks("ended")]
    counts = [count for count in said if isinstance(count, int)]
    if not counts:
        return skipped("the transcript does not record leftover processes")
    if left := max(counts):
        return failed(f"after the program ended, {left} of its processes still ran", *mark_indices(traffic, "ended"))
    return PASS


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


# --- messages ---------------------------------------------------------------------------------------------------------


def message_objects(traffic: Traffic, side: Sender = "server") -> list[Message]:
    """Return every message that is an object."""
    return [message for message in traffic.sent(side) if message.object]


def responses(traffic: Traffic, side: Sender = "server") -> list[Message]:
    """Return every response."""
    return [message for message in traffic.sent(side) if message.is_response]


def no_message() -> Verdict:
    """The verdict when there is nothing to judge."""
    return not_tested("the program sent no message")


def version_problem(message: Message) -> str:
    """A message declares JSON-RPC 2.0."""
    version = message.object.get("jsonrpc")
    return "" if version == "2.0" else f"jsonrpc is {version!r}"


def form_problem(message: Message) -> str:
    """A message is a request, a notification, or a response with either a result or an error."""
    if "result" in message.object and "error" in message.object:
        return "a response has both a result and an error"
    if "method" not in message.object and not message.is_response:
        return "a message is neither a request nor a response"
    return ""


def error_problem(definition: Callable[[str], Check]) -> Callable[[Message], str]:
    """Return a function that describes what is wrong with the error of a response that has only an error."""

    def problem(message: Message) -> str:
        if "error" not in message.object or "result" in message.object:
            return ""
        wrong = definition("Error")(message.object["error"])
        return f"the error: {wrong}" if wrong else ""

    return problem


def results_fit(definition: Callable[[str], Check], method: str, name: str, side: Sender = "server") -> Judge:
    """One side's results for a method fit the definition with this name."""

    def found(traffic: Traffic) -> list[Message]:
        return [r.answer for r in traffic.requests(OTHER[side], method) if r.answer is not None and r.succeeded]

    def problem(answer: Message) -> str:
        wrong = definition(name)(answer.object.get("result"))
        return f"the result of {method}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped(f"{method} was never answered with a result"))


def params_fit(
    definition: Callable[[str], Check], method: str, name: str, side: Sender = "server", *, notification: bool = False
) -> Judge:
    """One side's params of a request or notification fit the definition with this name."""

    def found(traffic: Traffic) -> list[Message]:
        return traffic.notifications(side, method) if notification else traffic.requests(side, method)

    def problem(message: Message) -> str:
        wrong = definition(name)(message.object.get("params"))
        return f"the params of {method}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped(f"the program never sent {method}"))


def responses_match(traffic: Traffic, side: Sender = "server") -> Verdict:
    """Each response matches a pending request, and each request has at most one response."""
    # After malformed lines, an error without an id answers one of them. So does a response with the id of a request in
    # a batch, or in a line that is not quite UTF-8.
    other = OTHER[side]
    waiting = {str(m.id) for m in traffic.sent(other) if m.is_request and m.answer is None}
    unread = b"".join(m.line for m in traffic.sent(other) if not m.object)
    for message in responses(traffic, side):
        other_type = str(message.id) in waiting
        in_malformed = json.dumps(message.id).encode() in unread
        if message.answers is None and message.id is not None and not other_type and not in_malformed:
            return failed(
                f"a response has the id {message.id!r}, and no request with that id is pending", message.index
            )
    return PASS if responses(traffic, side) else not_tested("the program sent no response")


def notifications_unanswered(traffic: Traffic, side: Sender = "server") -> Verdict:
    """No notification is answered with a response without an id."""
    other = OTHER[side]
    if traffic.marks("malformed") or any(m.problem or not m.object for m in traffic.sent(other)):
        return skipped("lines without an id were also sent")
    if not any(message.is_notification for message in traffic.sent(other)):
        return skipped("no notification was sent")
    # A program that cannot read a request, as with a lone surrogate in a string, does not know its id.
    pending = [m for m in traffic.sent(other) if m.is_request and m.answer is None]
    meant = {stray.index for request in pending for stray in stray_responses(traffic, request)}
    for message in responses(traffic, side):
        is_for_request = message.index in meant and message.error.get("code") in _UNREADABLE
        if message.id is None and message.answers is None and not is_for_request:
            return failed("a notification was answered", message.index)
    return PASS


def ids_preserved(traffic: Traffic, side: Sender = "server") -> Verdict:
    """Requests marked `id` are answered with the same ids and types."""
    sent = [entry.value for entry in traffic.marks("id")]
    if not sent:
        return not_tested("the requests were not sent")
    other = OTHER[side]
    asked = {id_key(message.id): message for message in traffic.sent(other) if message.is_request}
    answered_ids = {id_key(message.id) for message in responses(traffic, side)}
    for value in sent:
        if id_key(value) not in answered_ids:
            like = next((m for m in responses(traffic, side) if str(m.id) == str(value)), None)
            request = asked.get(id_key(value))
            shown = [message.index for message in (request, like) if message is not None]
            if like is None and request is not None:
                return failed(unanswered_reason(traffic, request), *shown)
            said = f"was answered with the id {like.id!r}" if like else "was not answered"
            return failed(f"a request with the id {value!r} {said}", *shown)
    return PASS


def all_answered(*labels: str, user: frozenset[str] = frozenset(), side: Sender = "server") -> Judge:
    """The program answers every request that a scenario waited for with the full timeout.

    Requests under other marks do not count, because other requirements cover them. Neither do methods in `user`, which
    wait for a person. After a malformed or oversized line there is no verdict, because a program may stop there.
    """
    other = OTHER[side]

    def judge(traffic: Traffic) -> Verdict:
        if traffic.marks("long-line") or any(message.problem or not message.object for message in traffic.sent(other)):
            return skipped("lines that are not messages were also sent")
        counting = {"unanswered", *labels}
        marks = [entry for entry in traffic.transcript.entries if entry.kind == "mark"]
        named = {id_key(entry.value) for entry in marks if entry.label not in counting}
        for request in marked_requests(traffic, "unanswered", by=other):
            if request.answer is None and id_key(request.id) not in named and request.method not in user:
                return failed(unanswered_reason(traffic, request), request.index)
        asked = [message for message in traffic.sent(other) if message.is_request]
        late = next((request for request in asked if request.answer is None), None)
        if late is not None and not traffic.transcript.scenario:
            return skipped(f"the traffic ends before {late.method} with id {late.id!r} is answered")
        return PASS if any(request.answer is not None for request in asked) else skipped("nothing was answered")

    return judge


def own_ids_are_valid(problem: Callable[[object], object], side: Sender = "server") -> Judge:
    """The program's own request ids are valid, and pending requests have different ids."""

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
                return failed(f"two pending requests have the same id {message.id!r}", before.index, message.index)
            pending[key] = message
        return PASS if requests else skipped("the program sent no request")

    return judge


def error_code_is(label: str, *codes: int, instead_of_result: bool = False, by: Sender = "client") -> Judge:
    """Marked requests that fail have one of these error codes. With `instead_of_result`, they must fail."""

    def judge(traffic: Traffic) -> Verdict:
        found = [request for request in marked_requests(traffic, label, by=by) if request.answer is not None]
        for request in found:
            assert request.answer
            given = request.answer.error.get("code")
            if (given is not None and given not in codes) or (instead_of_result and request.succeeded):
                said = "a result" if request.succeeded else f"the code {given}"
                wanted = " or ".join(map(str, codes))
                return failed(f"{request.method} was answered with {said}, not with {wanted}", *evidence(request))
        return PASS if found else skipped("nothing was answered")

    return judge


def refused_with_error(label: str) -> Judge:
    """Every marked request, whose params are wrong, is answered with an error."""

    def judge(traffic: Traffic) -> Verdict:
        requests = marked_requests(traffic, label)
        if not requests:
            return not_tested("the requests were not sent")
        for request in requests:
            if request.answer is None:
                return failed(unanswered_reason(traffic, request, f"{request.method} with wrong params"), request.index)
            if request.succeeded:
                params = request.object.get("params")
                return failed(f"{request.method} with params {params!r} succeeded", *evidence(request))
        return PASS

    return judge
