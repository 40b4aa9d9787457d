"""Judges of messages whose optional fields were broken by `scenarios.breaking`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.judging import evidence, unanswered
from conformance.requirement import Judge
from conformance.traffic import Message, Sender, Traffic, id_key
from conformance.values import as_list, as_object, as_text
from conformance.verdict import PASS, Verdict, failed, skipped


@dataclass(frozen=True, slots=True)
class Attempt:
    """A message that was sent, with what was broken in it."""

    about: str
    """What was sent: its definition, mostly."""
    fields: tuple[str, ...]
    """JSON pointers into the schema; none where the message was as it should be."""
    request: Message | None
    """The one that tells whether it was taken, where one does."""
    begin: int
    end: int
    """Between these entries of the transcript all of it happened."""


Problem = Callable[[Traffic, Attempt], str]
"""What came of it that should not have come; empty where all is well."""


def no_answer(traffic: Traffic, attempt: Attempt) -> str:
    """There is no answer of any kind."""
    if attempt.request is None:
        return "the program ended"
    return unanswered(traffic, attempt.request, attempt.request.method) if attempt.request.answer is None else ""


def no_result(traffic: Traffic, attempt: Attempt) -> str:
    """There is no answer with a result."""
    if attempt.request is None or attempt.request.answer is None:
        return no_answer(traffic, attempt)
    error = attempt.request.answer.error
    text = f"{attempt.request.method} was answered with the error {error.get('code')}: {error.get('message')}"
    return "" if attempt.request.succeeded else text


def takes_broken_fields(problem: Problem = no_result, by: Sender = "client") -> Judge:
    """Whatever was broken in a message, there is no problem. `by` is who sent it."""

    def judge(traffic: Traffic) -> Verdict:
        tried = [(attempt, problem(traffic, attempt)) for attempt in _attempts(traffic, by)]
        plain = {attempt.about for attempt, wrong in tried if wrong and not attempt.fields}
        counting = [(attempt, wrong) for attempt, wrong in tried if attempt.fields and attempt.about not in plain]
        refused = sorted(((one, wrong) for one, wrong in counting if wrong), key=lambda pair: len(pair[0].fields))
        if refused:
            alone = [one for one, _ in refused if len(one.fields) == 1] or [refused[0][0]]
            fields = sorted({_short(field) for one in alone for field in one.fields})
            text = f"with {', '.join(fields)} broken, {refused[0][1]}"
            return failed(text, *_evidence(traffic, alone[0], by))
        if counting:
            return PASS
        return skipped(f"{', '.join(sorted(plain))} is refused as it is" if plain else "no such message was sent")

    return judge


def _attempts(traffic: Traffic, by: Sender) -> list[Attempt]:
    requests = {id_key(message.id): message for message in traffic.sent(by) if message.is_request}
    found: list[Attempt] = []
    begin = 0
    for index, entry in enumerate(traffic.transcript.entries):
        if entry.kind == "mark" and entry.label == "broken":
            value = as_object(entry.value)
            fields = tuple(as_text(field) for field in as_list(value.get("fields")))
            request = requests.get(id_key(value.get("id")))
            found.append(Attempt(as_text(value.get("message")), fields, request, begin, index))
            begin = index
    return found


def _evidence(traffic: Traffic, attempt: Attempt, by: Sender) -> tuple[int, ...]:
    """What was asked and answered; or the last that was sent, where nothing could be."""
    if attempt.request is not None:
        return evidence(attempt.request)
    sent = [message.index for message in traffic.sent(by) if attempt.begin < message.index < attempt.end]
    return tuple(sent[-1:])


def _short(field: str) -> str:
    """`TextContent.annotations` of a JSON pointer into the schema."""
    return field.removeprefix("/$defs/").replace("/properties/", ".")
