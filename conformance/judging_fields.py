"""Judges of messages whose optional fields were broken by `scenarios.breaking`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.judging import evidence
from conformance.requirement import Judge
from conformance.traffic import Message, Sender, Traffic, id_key
from conformance.values import as_list, as_object, as_text
from conformance.verdict import PASS, Verdict, failed, skipped

Problem = Callable[[Traffic, Message], str]
"""What is wrong with how a request was answered; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class _Tried:
    message: str
    """What was sent: its definition, mostly."""
    fields: Sequence[str]
    """None where it was as it should be."""
    request: Message
    problem: str


def no_result(_traffic: Traffic, request: Message) -> str:
    """A request that has no result as its answer."""
    if request.answer is None:
        return "was not answered"
    error = request.answer.error
    return "" if request.succeeded else f"was answered with the error {error.get('code')}: {error.get('message')}"


def no_answer(_traffic: Traffic, request: Message) -> str:
    """A request that has no answer of any kind."""
    return "was not answered" if request.answer is None else ""


def takes_broken_fields(problem: Problem = no_result, by: Sender = "client") -> Judge:
    """Whatever was broken in a message, what tells that it was taken has no problem."""

    def judge(traffic: Traffic) -> Verdict:
        tried = _tried(traffic, problem, by)
        plain = {one.message for one in tried if one.problem and not one.fields}
        counting = [one for one in tried if one.fields and one.message not in plain]
        refused = sorted((one for one in counting if one.problem), key=lambda one: len(one.fields))
        if refused:
            alone = [one for one in refused if len(one.fields) == 1] or refused[:1]
            fields = sorted({_short(field) for one in alone for field in one.fields})
            first = alone[0]
            text = f"with {', '.join(fields)} broken, {first.request.method} {first.problem}"
            return failed(text, *evidence(first.request))
        if counting:
            return PASS
        return skipped(f"{', '.join(sorted(plain))} is refused as it is" if plain else "no such message was sent")

    return judge


def _tried(traffic: Traffic, problem: Problem, by: Sender) -> list[_Tried]:
    requests = {id_key(message.id): message for message in traffic.sent(by) if message.is_request}
    found: list[_Tried] = []
    for value in (as_object(entry.value) for entry in traffic.marks("broken")):
        request = requests.get(id_key(value.get("id")))
        if request is not None:
            fields = [as_text(field) for field in as_list(value.get("fields"))]
            found.append(_Tried(as_text(value.get("message")), fields, request, problem(traffic, request)))
    return found


def _short(field: str) -> str:
    """`TextContent.annotations` of a JSON pointer into the schema."""
    return field.removeprefix("/$defs/").replace("/properties/", ".")
