"""Parts of judges for any protocol over JSON-RPC: what was asked under a mark, and how it was answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from conformance.requirement import Judge
from conformance.traffic import Message, Sender, Traffic, id_key
from conformance.values import as_object, at
from conformance.verdict import PASS, Verdict, failed, not_tested

Expected = Literal["result", "error", "answer"]
_OTHER: Final[dict[Sender, Sender]] = {"client": "server", "server": "client"}
_SHOWN: Final = 200
"""Characters of a line in a sentence."""
_ENDS: Final = ("output-closed", "restarted", "ended")


def marked(traffic: Traffic, *labels: str, by: Sender = "client") -> list[Message]:
    """The requests of one side that marks with these labels name by their ids, in the order of the marks."""
    asked = {id_key(message.id): message for message in traffic.sent(by) if message.is_request}
    entries = [entry for label in labels for entry in traffic.marks(label)]
    return [asked[id_key(entry.value)] for entry in entries if id_key(entry.value) in asked]


def answered(*labels: str, expect: Expected = "answer", by: Sender = "client") -> Judge:
    """Every request of one side under these marks has a response: a result, an error, or any of both."""

    def judge(traffic: Traffic) -> Verdict:
        requests = marked(traffic, *labels, by=by)
        if not requests:
            return not_tested("the request was not sent")
        for request in requests:
            reason = _unanswered(traffic, request, expect)
            if reason:
                return failed(reason, *evidence(request), *(message.index for message in instead_of(traffic, request)))
        return PASS

    return judge


def answered_or_refused(label: str) -> Judge:
    """The request under this mark has a response, or the line that it came in has an error without an id."""

    def judge(traffic: Traffic) -> Verdict:
        came = (message for request in marked(traffic, label) for message in instead_of(traffic, request))
        refused = any(message.id is None and message.error for message in came)
        return PASS if refused else answered(label)(traffic)

    return judge


def instead_of(traffic: Traffic, request: Message) -> list[Message]:
    """The responses that came after a request which has none, and answer nothing: perhaps they were meant for it."""
    if request.answer is not None:
        return []
    later = (message for message in traffic.sent(_OTHER[request.sender]) if message.order > request.order)
    start = traffic.start_of(request)
    return [each for each in later if each.is_response and each.answers is None and traffic.start_of(each) == start]


def survived(traffic: Traffic) -> Verdict:
    """The request under the mark `alive`, which the scenario ends with, is answered with a result."""
    if traffic.marks("output-closed") and not any(request.succeeded for request in marked(traffic, "alive")):
        return failed("the program ended")
    return answered("alive", expect="result")(traffic)


def _unanswered(traffic: Traffic, request: Message, expect: Expected) -> str:
    name = request.method
    if request.answer is None:
        return unanswered(traffic, request)
    if expect == "result" and not request.succeeded:
        return (
            f"{name} was answered with the error {request.answer.error.get('code')}: "
            f"{request.answer.error.get('message')}"
        )
    if expect == "error" and request.succeeded:
        return f"{name} was answered with a result, not an error"
    return ""


def unanswered(traffic: Traffic, request: Message, name: str = "") -> str:
    """Say that a request has no answer, in which time, and what came instead. `name` is what to call it."""
    called = name or f"{request.method} with id {request.id!r}"
    return f"{called} was not answered{within(traffic, request)}{_arrived(traffic, request)}"


def within(traffic: Traffic, request: Message) -> str:
    """The time in which a request was not answered: all that a scenario waits, else until its connection ended."""
    waited = any(id_key(entry.value) == id_key(request.id) for entry in traffic.marks("unanswered"))
    seconds = as_object(traffic.transcript.facts.get("options")).get("timeout")
    if waited and isinstance(seconds, int | float):
        return f" within {seconds:g} s, which --timeout sets"
    return f" before its connection ended, {watched(traffic, request):.1f} s later"


def watched(traffic: Traffic, request: Message) -> float:
    """Seconds from a message to the end of the program's output, or of what was recorded."""
    later = traffic.transcript.entries[request.index :]
    end = next((entry for entry in later if entry.kind == "mark" and entry.label in _ENDS), later[-1])
    return max(0.0, end.ms - request.ms) / 1000


def _arrived(traffic: Traffic, request: Message) -> str:
    came = instead_of(traffic, request)
    if not came:
        return ""
    text = came[0].line.decode("utf-8", "replace").strip()
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
    return f"; what came is a response with the id {came[0].id!r}: {text}"


def evidence(request: Message) -> tuple[int, ...]:
    """The entries of a request and of its answer."""
    return (request.index,) if request.answer is None else (request.index, request.answer.index)


def every(
    found: Callable[[Traffic], list[Message]], problem: Callable[[Message], str], absent: Callable[[], Verdict]
) -> Judge:
    """Of all messages found, none has a problem; `absent` is the verdict where there are none."""

    def judge(traffic: Traffic) -> Verdict:
        messages = found(traffic)
        for message in messages:
            reason = problem(message)
            if reason:
                return failed(reason, message.index)
        return PASS if messages else absent()

    return judge


def not_answered(traffic: Traffic, program: str, method: str) -> str:
    """Says that a program did not answer what a connection begins with, and whether it ended instead."""
    for entry in traffic.marks("ended"):
        if at(entry.value, "by") == "by itself":
            return f"the {program} ended, with status {at(entry.value, 'code')}, and did not answer {method}"
    asked = next((message for message in traffic.sent("client") if message.method == method), None)
    if asked is None:
        return f"the {program} was not asked {method}"
    if came := _arrived(traffic, asked):
        return f"the {program} did not answer {method}, whose id is {asked.id!r}{came}"
    return f"the {program} did not answer {method}{within(traffic, asked)}"
