"""Parts of judges for any protocol over JSON-RPC: what was asked under a mark, and how it was answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from conformance.requirement import Judge
from conformance.traffic import Message, Sender, Traffic, id_key
from conformance.values import at
from conformance.verdict import PASS, Verdict, failed, not_tested

Expected = Literal["result", "error", "answer"]


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
            reason = _unanswered(request, expect)
            if reason:
                return failed(reason, *evidence(request))
        return PASS

    return judge


def survived(traffic: Traffic) -> Verdict:
    """The request under the mark `alive`, which the scenario ends with, is answered with a result."""
    if traffic.marks("output-closed") and not any(request.succeeded for request in marked(traffic, "alive")):
        return failed("the program ended")
    return answered("alive", expect="result")(traffic)


def _unanswered(request: Message, expect: Expected) -> str:
    name = request.method
    if request.answer is None:
        return f"{name} with id {request.id!r} was not answered"
    if expect == "result" and not request.succeeded:
        return (
            f"{name} was answered with the error {request.answer.error.get('code')}: "
            f"{request.answer.error.get('message')}"
        )
    if expect == "error" and request.succeeded:
        return f"{name} was answered with a result, not an error"
    return ""


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
    return f"the {program} did not answer {method} in time, which --timeout sets"
