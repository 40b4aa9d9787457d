"""The suite for implementations of the View and of request cycles: one requirement per test vector and operation.

The scenario of an operation asks an adapter about each vector's events, and the judge compares the answer with the
expected result. The View has two rules for the places where it may be cut; the adapter's answer to `hello` names its
rule, and each answer is judged by that one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from conformance.documents import Source, json_document
from conformance.driver import Driver
from conformance.judging import PASS, Judge, Requirement, Verdict, evidence, failed, not_tested, unanswered_reason
from conformance.suite import Scenario, Suite
from conformance.traffic import Traffic, id_key
from conformance.values import Object, as_list, as_text, is_list, is_object

HELLO: Final = "hello"
DEFAULT_RULE: Final = "gaps"
RULES: Final = {DEFAULT_RULE: "vectors.view", "positions": "vectors.positions"}
"""Rules of the View, with the documents of the expected results."""
_DOCUMENTS: Final = {"view.append": "vectors.view", "view.ready": "vectors.view", "cycles": "vectors.cycles"}
"""Operations, with the documents of their vectors."""


def vectors_of(operation: str) -> list[Object]:
    """Return an operation's vectors, each with `name`, `events` and `expected`."""
    return json_document(_DOCUMENTS[operation])["vectors"]


def question_id(operation: str, vector: Object) -> str:
    """Return the id of the question, which is also the requirement's id."""
    return f"VECTORS-{operation.rpartition('.')[2].upper()}-{vector['name']}"


def _run_hello(driver: Driver) -> None:
    driver.call(HELLO)


def _run_vectors(operation: str) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        if operation not in driver.call(HELLO).get("operations", ()):
            return
        for vector in vectors_of(operation):
            question = driver.request(
                operation, {"events": vector["events"]}, request_id=question_id(operation, vector)
            )
            driver.response(question)

    return run


OPENING: Final = Scenario(HELLO, "Asks for the name and the operations.", _run_hello, passive=True)
SCENARIOS: Final = tuple(
    Scenario(operation, f"Asks for `{operation}` of each vector's events.", _run_vectors(operation))
    for operation in _DOCUMENTS
)


# --- requirements -----------------------------------------------------------------------------------------------------


_QUOTED: Final = 240
"""Characters of an expected result that are quoted. The file has the rest."""
_SHOWN: Final = 80
_PART: Final = {"view.append": "appended", "view.ready": "enforced"}
"""The part of the expected result for an operation; the others use all of it."""


def operations_of(traffic: Traffic) -> list[Any]:
    """Return the operations that the implementation supports, from its answer to `hello`."""
    asked = traffic.requests("client", HELLO)
    return as_list(asked[0].answer.result.get("operations")) if asked and asked[0].answer is not None else []


def difference(expected: object, got: object, path: str = "") -> str:
    """Describe the first difference of two JSON values; empty if they are equal."""
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


def rule_of(traffic: Traffic) -> str:
    """Return the rule of the View that the answer to `hello` names."""
    asked = traffic.requests("client", HELLO)
    answer = asked[0].answer if asked else None
    return DEFAULT_RULE if answer is None else str(answer.result.get("rule", DEFAULT_RULE))


def _vector_judge(operation: str, name: str, by_rule: Mapping[str, Object]) -> Judge:
    """Compare an answer with the result expected by the implementation's rule; without rules there is one result."""

    def judge(traffic: Traffic) -> Verdict:
        asked = traffic.derived(operation, lambda all_: {id_key(q.id): q for q in all_.requests("client", operation)})
        question = asked.get(id_key(name))
        if question is None:
            return not_tested("the question was not sent")
        if question.answer is None:
            return failed(unanswered_reason(traffic, question, "it"), *evidence(question))
        if not question.succeeded:
            return failed(f"the answer is the error {question.answer.error.get('message')!r}", *evidence(question))
        rule = rule_of(traffic)
        found = difference(by_rule.get(rule, by_rule[DEFAULT_RULE]), question.answer.result)
        if not found:
            return PASS
        others = [each for each in by_rule if not difference(by_rule[each], question.answer.result)]
        hint = f"; the answer is right by the rule {others[0]}, which `hello` can name as `rule`" if others else ""
        by = f"by the rule {rule}, " if len(by_rule) > 1 else ""
        return failed(f"{by}{found}{hint}", *evidence(question))

    return judge


def _introduces_itself(traffic: Traffic) -> Verdict:
    asked = traffic.requests("client", HELLO)
    if not asked:
        return not_tested("the question was not sent")
    answer = asked[0].answer
    if answer is None or not asked[0].succeeded:
        return failed("hello was not answered with a result", *evidence(asked[0]))
    if not as_text(answer.result.get("name")):
        return failed("the name is missing", *evidence(asked[0]))
    operations = answer.result.get("operations")
    if not is_list(operations) or not all(isinstance(each, str) for each in operations):
        return failed("the operations are not a list of strings", *evidence(asked[0]))
    if rule_of(traffic) not in RULES:
        return failed(f"the rule must be one of {', '.join(RULES)}", *evidence(asked[0]))
    return PASS


def _rows(operation: str, document: str, text: str) -> list[Requirement]:
    rows: list[Requirement] = []
    for index, vector in enumerate(vectors_of(operation)):
        place = f"/vectors/{index}/expected"
        expected: Object = vector["expected"]
        by_rule = {DEFAULT_RULE: expected}
        if operation in _PART:
            place, expected = f"{place}/{_PART[operation]}", expected[_PART[operation]]
            by_rule = {
                rule: json_document(document)["vectors"][index]["expected"][_PART[operation]]
                for rule, document in RULES.items()
            }
        name = question_id(operation, vector)
        rows.append(
            Requirement(
                id=name,
                level="mandatory",
                text=text.format(name=vector["name"]),
                source=Source(document, place, json.dumps(expected)[:_QUOTED]),
                judge=_vector_judge(operation, name, by_rule),
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
        text="The implementation reports its name and its operations.",
        source=Source("vectors.format", "hello", "It MUST be answered with `name`, a string that is not empty, and"),
        judge=_introduces_itself,
        violation='{"jsonrpc": "2.0", "id": 1, "result": {"name": "mine"}}',
    ),
    *_rows("view.append", "vectors.view", "Appending the events `{name}` produces the expected View."),
    *_rows("view.ready", "vectors.view", "The events `{name}` produce the expected View for a model."),
    *_rows("cycles", "vectors.cycles", "The events `{name}` produce the expected request cycles."),
)


# --- suite ------------------------------------------------------------------------------------------------------------


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    asked = traffic.requests("client", HELLO)
    if not asked or asked[0].answer is None:
        return "the program did not answer hello"
    known = [scenario.name for scenario in SCENARIOS]
    if not set(map(str, operations_of(traffic))) & set(known):
        return f"the program supports none of the operations {', '.join(known)}"
    return ""


def _calibration(traffic: Traffic) -> dict[str, Any]:
    del traffic
    return {}


def _capability(traffic: Traffic, operation: str) -> bool | None:
    return operation in operations_of(traffic)


SUITE: Final = Suite(
    name="vectors",
    title="Vectors of the View and of request cycles",
    subject="server",
    requirements=REQUIREMENTS,
    opening=OPENING,
    scenarios=SCENARIOS,
    obstacle=_obstacle,
    calibration=_calibration,
    capability=_capability,
)
