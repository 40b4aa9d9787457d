"""The suite for MCP servers: versions, cancels, and judges on arbitrary traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.runner import Plan, run
from conformance.transcript import Transcript, load
from tests.conformance.suite_runs import SUBJECTS, conforming, defect, in_memory, suite, transcript_of
from tests.conformance.test_judging import JSON, mutated
from tests.support.examples import examples

PATHS = st.sampled_from(
    [
        *(
            "id",
            "method",
            "params",
            "result",
            "error",
            "jsonrpc",
            "error.code",
            "error.data",
            "params._meta",
            "result._meta",
        ),
        *("result.tools", "result.tools.inputSchema", "result.nextCursor", "result.capabilities", "result.content"),
        *("result.protocolVersion", "result.supportedVersions", "result.structuredContent", "result.resultType"),
        *("result.inputRequests", "result.contents", "result.completion", "result.ttlMs", "params.progressToken"),
        *("params.progress", "params.notifications", "params.uri", "params.requestId", "result.isError"),
    ]
)
SCENARIOS = st.sampled_from(
    [
        *("opening", "lists-2025-11-25", "lists-2026-07-28", "calls-2026-07-28", "wrong-calls-2025-11-25", "listen"),
        *("resources-2026-07-28", "completions-2025-11-25", "progress-2025-11-25", "cancel-2026-07-28", "subscribe"),
        *("by-turns", "version-unknown", "undeclared-2025-11-25", "probe", "handshake-newer", "ids", "batch"),
    ]
)


def judged(transcript: Transcript) -> list[tuple[str, Any]]:
    return [(result.requirement.id, result.verdict) for result in suite("mcp").judge([transcript])]


@pytest.mark.parametrize("scenario", ["opening", "listen", "cancel-2025-11-25", "malformed-lines", "not-utf8", "probe"])
def test_saved_transcript_has_same_verdicts(scenario: str, tmp_path: Path) -> None:
    live = transcript_of(scenario, defect("MCP-S-LIST-001", "mcp"), "mcp")
    live.save(tmp_path / "saved.jsonl")
    assert judged(load(tmp_path / "saved.jsonl")) == judged(live)


@examples(1)
@given(
    scenario=SCENARIOS,
    replacements=st.lists(st.tuples(st.integers(0, 60), PATHS, JSON), min_size=1, max_size=6),
)
def test_judges_handle_any_server_message(scenario: str, replacements: list[tuple[int, str, Any]]) -> None:
    for _, verdict in judged(mutated(transcript_of(scenario, of="mcp"), replacements)):
        assert verdict.outcome == "pass" or verdict.reason


@examples(1)
@given(st.lists(st.tuples(st.sampled_from(["client", "server"]), st.binary(max_size=30)), max_size=8))
def test_judges_handle_any_bytes(chunks: list[tuple[Any, bytes]]) -> None:
    transcript = Transcript("opening")
    for ms, (sender, data) in enumerate(chunks):
        transcript.add(ms, sender, data)
    assert len(judged(transcript)) == len(suite("mcp").requirements)


Server: Any = conforming("mcp")


class IgnoresCancels(Server):
    """Answers a cancelled call anyway."""

    def cancel(self, request_id: Any) -> None:
        pass


class CancelsEverything(Server):
    """Ends every call at any cancel."""

    def cancel(self, request_id: Any) -> None:
        for call in list(self.calls):
            self.end(call)


@pytest.mark.parametrize(
    ("scenario", "server", "name"),
    [
        ("cancel-2025-11-25", IgnoresCancels, "CANCEL-001"),
        ("cancel-2026-07-28", IgnoresCancels, "CANCEL-005"),
        ("cancel-stale-2025-11-25", CancelsEverything, "CANCEL-003"),
        ("cancel-stale-2026-07-28", CancelsEverything, "CANCEL-003"),
    ],
)
def test_cancel_ends_only_its_request(scenario: str, server: Any, name: str) -> None:
    verdicts = judged(transcript_of(scenario, server, "mcp"))
    assert {one for one, verdict in verdicts if verdict.outcome == "fail"} == {f"MCP-S-{name}"}


def test_endless_call_skips_the_cancel_verdict() -> None:
    class NeverEnds(Server):
        def progress(self, call: Any) -> None:
            call.left = 2

    verdicts = dict(judged(transcript_of("cancel-2025-11-25", NeverEnds, "mcp")))
    assert verdicts["MCP-S-CANCEL-001"].outcome == "skipped"


def test_silent_server_is_not_judged() -> None:
    class Silent(conforming("mcp")):
        def receive(self, data: bytes) -> None:
            pass

    outcome = run(Plan(suite("mcp"), in_memory(Silent, "mcp"), SUBJECTS["mcp"].options))
    assert outcome.code == 3
    assert outcome.obstacle == "the server did not answer initialize before its connection ended, 10.0 s later"
    assert outcome.transcripts[0].entries[-1].ms <= (SUBJECTS["mcp"].options.timeout + 3) * 1000


def test_server_with_only_the_later_version() -> None:
    class Modern(conforming("mcp")):
        def handlers(self, version: str) -> dict[str, object]:
            return super().handlers(version) if version == "2026-07-28" else {}

    outcome = run(Plan(suite("mcp"), in_memory(Modern, "mcp"), SUBJECTS["mcp"].options, jobs=1))
    assert outcome.code == 0, outcome.violations
    verdicts = {r.requirement.id: r.verdict.outcome for r in outcome.results}
    assert (verdicts["MCP-S-INIT-001"], verdicts["MCP-S-META-002"]) == ("skipped", "pass")
    assert verdicts["MCP-S-FRAME-005"] == verdicts["MCP-S-TOOL-009"] == "pass"


def test_server_with_another_version_is_not_judged() -> None:
    class Older(conforming("mcp")):
        def initialize(self, request: dict[str, object], params: dict[str, object]) -> dict[str, object]:
            return {**super().initialize(request, params), "protocolVersion": "2024-11-05"}

        def discover(self, request: dict[str, object], params: dict[str, object]) -> dict[str, object]:
            return {**super().discover(request, params), "supportedVersions": ["2027-01-01"]}

    outcome = run(Plan(suite("mcp"), in_memory(Older, "mcp"), SUBJECTS["mcp"].options))
    assert outcome.code == 3
    assert outcome.obstacle.startswith("the server speaks version 2024-11-05")
