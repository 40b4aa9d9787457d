"""`fuzz`: what it sends, what it detects, and that findings are short and repeatable."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conformance.cli import main
from conformance.documents import json_document
from conformance.driver import Options
from conformance.fuzzing.campaign import NO_MESSAGE, PROGRAM_ENDED, STRAY_RESPONSE, Campaign, Outcome, play
from conformance.fuzzing.targets import TARGETS, Step, Target
from conformance.fuzzing.values import TEXTS, Instances, encode_message, is_widely_accepted, mutate
from conformance.schema import Schema
from tests.conformance.suite_runs import PEERS, conforming, defect, in_memory, suite, transcript_of
from tests.conformance.test_defects import showing_scenario

(ACP,) = TARGETS["acp"]()
OPTIONS = Options(cwd="/project", timeout=1, scenario_timeout=1e6)
SHORT = 5
Agent: Any = conforming()


class EndsAtNul(Agent):
    """Crashes at a NUL in a prompt."""

    def prompt(self, request: dict[str, Any], params: dict[str, Any]) -> None:
        if "\0" in json.dumps(params) or "\\u0000" in json.dumps(params):
            self.world.exit(1)
        super().prompt(request, params)


class AnswersTwice(Agent):
    """Answers a list with a cursor twice."""

    def list(self, request: dict[str, Any], params: dict[str, Any]) -> None:
        super().list(request, params)
        if params.get("cursor"):
            self.answer(request, {"sessions": []})


class ForgetsTheSecond(Agent):
    """Does not answer the second initialize."""

    def initialize(self, request: dict[str, Any], params: dict[str, Any]) -> None:
        if not self.client:
            super().initialize(request, params)
        self.client = {"seen": True}


class PrintsDebugging(Agent):
    """Prints lines that it cannot parse."""

    def refuse(self, request: dict[str, Any], code: int, text: str) -> None:
        super().refuse(request, code, text)
        if code == -32602:
            self.world.write(b"Traceback (most recent call last)\n")


class GetsStuck(Agent):
    """Answers nothing after session/close of an unknown session."""

    stuck = False

    def close(self, request: dict[str, Any], params: dict[str, Any]) -> None:
        self.stuck = params.get("sessionId") not in self.sessions
        super().close(request, params)

    def send(self, message: dict[str, Any]) -> None:
        if not self.stuck:
            super().send(message)


class CrashesAtACall(conforming("mcp")):  # pyright: ignore -- chosen by a table
    """Crashes at an unknown field in tool arguments."""

    def call(self, request: dict[str, Any], params: dict[str, Any]) -> Any:
        arguments = params.get("arguments")
        if isinstance(arguments, dict) and "unknown" in arguments:
            self.world.exit(1)
        return super().call(request, params)


def campaign(agent: Any, seconds: float, seed: int = 1) -> Outcome:
    return Campaign((ACP,), in_memory(agent), OPTIONS, seed, seconds).run()


def test_conforming_agent_survives_fuzz() -> None:
    outcome = campaign(Agent, 1)
    assert outcome.found is None
    assert outcome.messages > 100, "each run sends more than that"


@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        (EndsAtNul, PROGRAM_ENDED),
        (AnswersTwice, STRAY_RESPONSE),
        (ForgetsTheSecond, "initialize is not answered"),
        (PrintsDebugging, NO_MESSAGE),
        (GetsStuck, " is not answered"),
    ],
)
def test_failures_are_found_and_shortened(agent: Any, kind: str) -> None:
    outcome = campaign(agent, 20)
    assert outcome.found is not None
    assert outcome.found.finding is not None
    assert kind in outcome.found.finding.kind
    assert len(outcome.found.steps) <= SHORT


@pytest.mark.parametrize("text", ["[]", "42", '"x"', "null", "nonsense"])
def test_known_killers_are_sent_first(text: str) -> None:
    class Dies(Agent):
        def receive(self, data: bytes) -> None:
            if data.strip() == text.encode():
                self.world.exit(1)
            else:
                super().receive(data)

    outcome = campaign(Dies, 20)
    assert outcome.found is not None
    assert outcome.starts == 1
    assert [step.params for step in outcome.found.steps] == [text]


def test_mute_program_is_no_finding() -> None:
    class Mute(Agent):
        def receive(self, data: bytes) -> None:
            pass

    outcome = campaign(Mute, 20)
    assert outcome.is_mute
    assert outcome.starts == 1


def test_conforming_server_survives_fuzz_in_both_versions() -> None:
    targets = TARGETS["mcp"]()
    assert [target.document for target in targets] == ["mcp.2025-11-25.schema", "mcp.2026-07-28.schema"]
    for target in targets:
        played = play(target.steps(Random(1), 60), in_memory(conforming("mcp"), "mcp"), target, OPTIONS)
        assert played.finding is None
        assert b'"result"' in b"".join(entry.data for entry in played.transcript.entries if entry.kind == "server")


@pytest.mark.slow
def test_server_killed_by_a_call_is_found() -> None:
    outcome = Campaign(TARGETS["mcp"](), in_memory(CrashesAtACall, "mcp"), OPTIONS, 1, 20).run()
    assert outcome.found is not None
    assert outcome.found.finding is not None
    assert outcome.found.finding.kind == "the program ended"
    assert len(outcome.found.steps) <= SHORT


def test_seed_repeats_messages() -> None:
    def steps(seed: str) -> list[Step]:
        return ACP.steps(Random(seed), 50)

    assert steps("1") == steps("1") != steps("2")
    assert ACP.steps(Random("1"), 50)[: len(ACP.opening)] == list(ACP.opening)


def test_every_agent_method_except_login_is_called() -> None:
    asked = {step.method for seed in range(30) for step in ACP.steps(Random(seed), 60)}
    methods = {
        schema["x-method"]
        for name, schema in json_document("acp1.schema")["$defs"].items()
        if schema.get("x-side") in ("agent", "protocol") and name.endswith(("Request", "Notification"))
    }
    assert methods - asked == {"authenticate", "logout"}


@pytest.mark.parametrize(
    ("target", "call"),
    [
        pytest.param(target, call, id=f"{target.document} {call.method}")
        for make in TARGETS.values()
        for target in make()
        for call in target.calls
    ],
)
def test_instances_fit_the_schema(target: Target, call: Any) -> None:
    document = json_document(target.document)
    check = Schema(document).compile(call.schema)
    for seed in range(40):
        instance = Instances(document, Random(seed), target.fixed).of(call.schema)
        problem = check(instance)
        assert problem is None, f"{problem}: {instance}"


def test_mutate_returns_a_changed_copy() -> None:
    value = {"a": [1, {"b": "text"}], "c": None}
    before = json.dumps(value)
    made = [mutate(value, Random(seed)) for seed in range(200)]
    assert json.dumps(value) == before
    assert sum(one != value for one in made) > 190
    assert {type(one) for one in made} == {dict}


@pytest.mark.parametrize("text", TEXTS)
def test_every_encoding_style_is_valid_json(text: str) -> None:
    message = {"params": {"text": text, "deep": [[[1]]]}}
    for seed in range(20):
        line = encode_message(message, Random(seed))
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert json.loads(line) == message


def test_unusual_json_needs_no_answer() -> None:
    deep: Any = []
    for _ in range(50):
        deep = [deep]
    assert not any(map(is_widely_accepted, ({"a": "\ud800"}, {"\udfff": 1}, 2**63, [-(2**64)], deep, [1e308])))
    assert all(map(is_widely_accepted, ({"a": "ä€😀\u2028\0"}, [2**53, None, True], {"a": {"b": []}})))


def test_slow_requests_are_unblocked_first() -> None:
    prompt = Step(
        "session/prompt", {"sessionId": "$SESSION", "prompt": [{"type": "text", "text": "count"}]}, waits=True
    )
    assert play([*ACP.opening, prompt], in_memory(Agent), ACP, OPTIONS).finding is None
    stubborn = Target(ACP.document, ACP.calls, ACP.opening)
    found = play([*ACP.opening, prompt], in_memory(Agent), stubborn, OPTIONS).finding
    assert found is not None
    assert found.kind == "session/prompt is not answered"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["fuzz", "acp"], 2, ""),
        (["fuzz", "acp", "--seconds", "0", "--", "x"], 2, ""),
        (["fuzz", "nothing", "--", "x"], 2, ""),
        (["fuzz", "acp", "--", "/no/such/program"], 3, "Not judged"),
        (["fuzz", "mcp", "--", "sh", "-c", "echo no key >&2; exit 4"], 3, "it printed: no key"),
    ],
)
def test_wrong_fuzz_usage_is_an_error(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    assert said in capsys.readouterr().out


@pytest.mark.slow
def test_fuzz_saves_finding_and_prints_replay_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        f"import sys; sys.path.insert(0, {str(PEERS)!r})\n"
        "import acp_agent, stdio_world\n"
        "class Crashes(acp_agent.Agent):\n"
        "    def set_mode(self, request, params):\n"
        "        self.world.exit(3)\n"
        "stdio_world.run(Crashes)\n"
    )
    command = [sys.executable, str(program)]
    assert main(["fuzz", "acp", "--seed", "3", "--timeout", "3", "--keep", str(tmp_path), "--", *command]) == 1
    out = capsys.readouterr().out
    assert "FAIL the program ended" in out
    assert f"again: rewindow-conformance replay {tmp_path}/fuzz.jsonl -- " in out
    assert main(["replay", str(tmp_path / "fuzz.jsonl"), "--", *command]) == 1
    assert "FAIL the program ended" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "fuzz.jsonl"), "--", sys.executable, str(PEERS / "run_acp_agent.py")]) == 0
    assert "no longer fails" in capsys.readouterr().out


DEATH_OPTIONS = Options(cwd="/project", timeout=1, scenario_timeout=1e6)
DEATH_SECONDS = 15
DEATHS = {
    "acp": ("FRAME-008 FRAME-009 FRAME-011 FRAME-012 FRAME-015 FRAME-016 RPC-014 RPC-018", "ACP1-A-"),
    "mcp": (
        "FRAME-008 FRAME-009 FRAME-011 FRAME-012 FRAME-015 FRAME-016 FRAME-017 RPC-010 INIT-008 CANCEL-003 CANCEL-004 "
        "SUB-010",
        "MCP-S-",
    ),
}
"""Defects that make their program exit unexpectedly, by suite."""
EACH = [(of, prefix + name) for of, (names, prefix) in DEATHS.items() for name in names.split()]


@pytest.mark.parametrize(("of", "name"), EACH)
def test_each_kind_of_death_is_found(of: str, name: str) -> None:
    outcome = Campaign(TARGETS[of](), in_memory(defect(name, of), of), DEATH_OPTIONS, 1, DEATH_SECONDS).run()
    assert outcome.found is not None
    assert outcome.found.finding is not None
    assert outcome.found.finding.kind == PROGRAM_ENDED
    assert outcome.seconds < DEATH_SECONDS
    assert outcome.starts <= len(TARGETS[of]()) + 1


@pytest.mark.slow
def test_table_of_deaths_is_complete() -> None:
    """Every defect that makes its program exit is in the table."""
    found: list[tuple[str, str]] = []
    for of in DEATHS:
        for row in suite(of).requirements:
            entries = transcript_of(showing_scenario(of, row), defect(row.id, of), of).entries
            was_ended = any(entry.label == "input-closed" for entry in entries)
            if not was_ended and any(entry.label == "ended" and entry.value["by"] == "by itself" for entry in entries):
                found.append((of, row.id))
    assert set(found) == set(EACH)
