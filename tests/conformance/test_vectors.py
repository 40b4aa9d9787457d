"""Vectors: a conforming adapter and our engine pass, and each wrong answer fails only its vector."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.cli import main
from conformance.documents import json_document
from conformance.runner import Plan, run
from conformance.suites.vectors import REQUIREMENTS, difference
from conformance.transcript import Entry, Transcript
from engine.cli.vectors import OPERATIONS, answers
from tests.conformance.suite_runs import OPTIONS, conforming, defect, defects, failing, in_memory, suite, transcript_of

NAMES = [row.id for row in REQUIREMENTS]
ADAPTER = [sys.executable, "-c", "from engine.cli.vectors import vectors_adapter; vectors_adapter()"]


PUBLISHED = {row["name"]: row["expected"] for row in json_document("vectors.positions")["vectors"]}
DIFFERENT = {
    row["name"]: [part for part in ("appended", "enforced") if row["expected"][part] != PUBLISHED[row["name"]][part]]
    for row in json_document("vectors.view")["vectors"]
}
"""Parts of the results in which the rules differ, by vector."""


def outcome_of(name: str) -> Any:
    return run(Plan(suite("vectors"), in_memory(defect(name, "vectors"), "vectors"), OPTIONS, jobs=1))


def test_conforming_adapter_passes() -> None:
    outcome = run(Plan(suite("vectors"), in_memory(conforming("vectors"), "vectors"), OPTIONS, jobs=1))
    assert failing(outcome) == set()
    assert {result.verdict.outcome for result in outcome.results} == {"pass"}
    assert len(outcome.results) == 2 * 219 + 106 + 1


@pytest.mark.parametrize("name", NAMES[:: len(NAMES) // 3])
def test_wrong_answer_fails_only_its_vector(name: str) -> None:
    outcome = outcome_of(name)
    assert failing(outcome) == {name}
    assert outcome.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", defects("vectors"))
def test_each_wrong_answer_fails_only_its_vector(name: str) -> None:
    assert failing(outcome_of(name)) == {name}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_missing_or_error_answer_fails_only_its_vector(operation: str) -> None:
    transcript = transcript_of(operation, of="vectors")
    name = next(row.id for row in REQUIREMENTS if row.scenario == operation)

    def judged(answer: Callable[[dict[str, Any]], bytes]) -> set[str]:
        changed = Transcript(operation, transcript.facts, [_with(entry, name, answer) for entry in transcript.entries])
        shown = {row.id: row for row in REQUIREMENTS if row.scenario in (None, operation)}
        return failing(suite("vectors").judge([changed], shown))

    assert judged(lambda message: json.dumps(message).encode() + b"\n") == set()
    assert judged(lambda _: b"") == {name}
    error = {"code": -32602, "message": "what is this"}
    assert judged(lambda message: json.dumps({"id": message["id"], "error": error}).encode() + b"\n") == {name}


def _with(entry: Entry, name: str, answer: Callable[[dict[str, Any]], bytes]) -> Entry:
    if entry.kind != "server":
        return entry
    message = json.loads(entry.data)
    return replace(entry, data=answer(message)) if message["id"] == name else entry


def test_only_supported_operations_are_tested() -> None:
    class CyclesAlone(conforming("vectors")):  # pyright: ignore -- chosen by a table
        def introduction(self) -> dict[str, Any]:
            return {"name": "cycles", "operations": ["cycles", "another"]}

    outcome = run(Plan(suite("vectors"), in_memory(CyclesAlone, "vectors"), OPTIONS, jobs=1))
    assert outcome.code == 0
    assert sum(result.verdict.outcome == "pass" for result in outcome.results) == 106 + 1
    assert {r.verdict.reason for r in outcome.results if r.verdict.outcome == "skipped"} == {
        "view.append is not advertised",
        "view.ready is not advertised",
    }


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, ""),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": 2}]}, "/a/1/b is 2, not null"),
        ({"a": [1, 2]}, {"a": [1]}, "/a has 1 items, not 2"),
        ({"a": 1}, {}, "/a is missing"),
        ({}, {"a": 1}, "/a is not expected"),
        ({"a": 1}, {"a": True}, "/a is true, not 1"),
        ({"a": 1}, [], "/ is [], not {"),
    ],
)
def test_first_difference_has_its_position(expected: Any, got: Any, said: str) -> None:
    assert difference(expected, got).startswith(said)
    assert bool(difference(expected, got)) is bool(said)


def test_our_engine_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vectors", "--", *ADAPTER]) == 0
    assert "545 pass, 0 fail" in capsys.readouterr().out


def test_our_engine_passes_by_the_published_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            ["vectors", "--", str(Path(sys.executable).with_name("rewindow")), "vectors-adapter", "--rule", "positions"]
        )
        == 0
    )
    assert "545 pass, 0 fail" in capsys.readouterr().out


def test_right_answer_by_another_rule_says_so() -> None:
    class Published(conforming("vectors")):  # pyright: ignore -- chosen by a table
        def result(self, question: dict[str, Any]) -> Any:
            positions = {"view.append": "appended", "view.ready": "enforced"}.get(question["method"])
            if positions is None:
                return super().result(question)
            return PUBLISHED[question["id"].split("-", 2)[2]][positions]

    outcome = run(Plan(suite("vectors"), in_memory(Published, "vectors"), OPTIONS, jobs=1))
    failures = [result.verdict.reason for result in outcome.results if result.verdict.outcome == "fail"]
    assert len(failures) == sum(len(expected) for expected in DIFFERENT.values())
    assert all(
        reason.endswith("the answer is right by the rule positions, which `hello` can name as `rule`")
        for reason in failures
    )


def test_unknown_rule_fails() -> None:
    class Odd(conforming("vectors")):  # pyright: ignore -- chosen by a table
        def introduction(self) -> dict[str, Any]:
            return {**super().introduction(), "rule": "odd"}

    outcome = run(Plan(suite("vectors"), in_memory(Odd, "vectors"), OPTIONS, jobs=1))
    assert failing(outcome) == {"VECTORS-HELLO-001"}


def test_silent_adapter_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vectors", "--", sys.executable, "-c", ""]) == 3
    assert "did not answer hello" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", -32700),
        ("[]", -32600),
        ('{"id": 1, "method": "nothing"}', -32601),
        ('{"id": 1, "method": "cycles"}', -32602),
        ('{"id": 1, "method": "cycles", "params": []}', -32602),
        ('{"id": 1, "method": "view.ready", "params": {"events": [{"kind": "unheard-of", "id": "a"}]}}', -32602),
        ('{"id": 1, "method": "view.append", "params": {"events": [1]}}', -32602),
    ],
)
def test_our_adapter_answers_malformed_lines(line: str, code: int) -> None:
    refused, _, answered = answers([line, "\n", '{"id": 2, "method": "nothing"}', '{"id": 3, "method": "hello"}'])
    assert json.loads(refused)["error"]["code"] == code
    assert json.loads(answered)["result"]["operations"] == list(OPERATIONS)
