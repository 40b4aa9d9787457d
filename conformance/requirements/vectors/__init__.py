"""Requirements for implementations of the View and of request cycles: a row for each vector and operation."""

from __future__ import annotations

import json
from typing import Any, Final

from conformance.documents import Source
from conformance.judging import evidence, unanswered
from conformance.requirement import Judge, Requirement
from conformance.scenarios.vectors import HELLO, question_id, vectors_of
from conformance.traffic import Traffic, id_key
from conformance.values import Object, as_list, as_text, is_list, is_object
from conformance.verdict import PASS, Verdict, failed, not_tested

_QUOTED: Final = 240
"""Characters of what a vector expects that are quoted; the rest stands in its file."""
_SHOWN: Final = 80
_PART: Final = {"view.append": "appended", "view.ready": "enforced"}
"""Which part of what a vector expects is about an operation; all of it for the others."""


def operations_of(traffic: Traffic) -> list[Any]:
    """What the implementation says it can be asked for; empty where it does not."""
    asked = traffic.requests("client", HELLO)
    return as_list(asked[0].answer.result.get("operations")) if asked and asked[0].answer is not None else []


def difference(expected: object, got: object, path: str = "") -> str:
    """The first place where two JSON values differ, in words; empty where they are equal."""
    if is_object(expected) and is_object(got):
        for key in expected:
            if key not in got:
                return f"{path}/{key} is missing"
            if found := difference(expected[key], got[key], f"{path}/{key}"):
                return found
        more = next((key for key in got if key not in expected), None)
        return "" if more is None else f"{path}/{more} is not expected"
    if is_list(expected) and is_list(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=False)):
            if found := difference(one, other, f"{path}/{index}"):
                return found
        return "" if len(expected) == len(got) else f"{path or '/'} has {len(got)} items, not {len(expected)}"
    same = type(expected) is type(got) and expected == got
    return "" if same else f"{path or '/'} is {_shown(got)}, not {_shown(expected)}"


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _judge(operation: str, name: str, expected: Object) -> Judge:
    def judge(traffic: Traffic) -> Verdict:
        asked = traffic.derived(operation, lambda all_: {id_key(q.id): q for q in all_.requests("client", operation)})
        question = asked.get(id_key(name))
        if question is None:
            return not_tested("it was not asked")
        if question.answer is None:
            return failed(unanswered(traffic, question, "it"), *evidence(question))
        if not question.succeeded:
            return failed(f"the answer is the error {question.answer.error.get('message')!r}", *evidence(question))
        found = difference(expected, question.answer.result)
        return failed(found, *evidence(question)) if found else PASS

    return judge


def _introduces_itself(traffic: Traffic) -> Verdict:
    asked = traffic.requests("client", HELLO)
    if not asked:
        return not_tested("it was not asked")
    answer = asked[0].answer
    if answer is None or not asked[0].succeeded:
        return failed("hello was not answered with a result", *evidence(asked[0]))
    if not as_text(answer.result.get("name")):
        return failed("there is no name", *evidence(asked[0]))
    operations = answer.result.get("operations")
    if not is_list(operations) or not all(isinstance(each, str) for each in operations):
        return failed("the operations are no list of strings", *evidence(asked[0]))
    return PASS


def _rows(operation: str, document: str, text: str) -> list[Requirement]:
    rows: list[Requirement] = []
    for index, vector in enumerate(vectors_of(operation)):
        place = f"/vectors/{index}/expected"
        expected: Object = vector["expected"]
        if operation in _PART:
            place, expected = f"{place}/{_PART[operation]}", expected[_PART[operation]]
        name = question_id(operation, vector)
        rows.append(
            Requirement(
                id=name,
                level="mandatory",
                text=text.format(name=vector["name"]),
                source=Source(document, place, json.dumps(expected)[:_QUOTED]),
                judge=_judge(operation, name, expected),
                scenario=operation,
                applies=operation,
                violation=json.dumps({"jsonrpc": "2.0", "id": name, "result": {}}),
            )
        )
    return rows


REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    Requirement(
        id="VECTORS-HELLO-001",
        level="mandatory",
        text="The implementation says its name and which operations it has.",
        source=Source("vectors.format", "hello", "It MUST be answered with `name`, a string that is not empty, and"),
        judge=_introduces_itself,
        violation='{"jsonrpc": "2.0", "id": 1, "result": {"name": "mine"}}',
    ),
    *_rows("view.append", "vectors.view", "The View of the events `{name}` is the expected one as they are appended."),
    *_rows("view.ready", "vectors.view", "The View of the events `{name}` is the expected one as a model is given it."),
    *_rows("cycles", "vectors.cycles", "The request cycles of the events `{name}` are the expected ones."),
)
