"""Judges of MCP servers read: saved transcripts come out as live ones, and whatever was sent, a judge concludes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.transcript import Transcript, load
from tests.conformance.suite_runs import conforming, defect, suite, transcript_of
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
def test_a_saved_transcript_is_judged_as_it_was(scenario: str, tmp_path: Path) -> None:
    live = transcript_of(scenario, defect("MCP-S-LIST-001", "mcp"), "mcp")
    live.save(tmp_path / "saved.jsonl")
    assert judged(load(tmp_path / "saved.jsonl")) == judged(live)


@examples(1)
@given(
    scenario=SCENARIOS,
    replacements=st.lists(st.tuples(st.integers(0, 60), PATHS, JSON), min_size=1, max_size=6),
)
def test_every_judge_concludes_whatever_a_server_sends(scenario: str, replacements: list[tuple[int, str, Any]]) -> None:
    for _, verdict in judged(mutated(transcript_of(scenario, of="mcp"), replacements)):
        assert verdict.outcome == "pass" or verdict.reason


@examples(1)
@given(st.lists(st.tuples(st.sampled_from(["client", "server"]), st.binary(max_size=30)), max_size=8))
def test_every_judge_concludes_whatever_bytes_there_are(chunks: list[tuple[Any, bytes]]) -> None:
    transcript = Transcript("opening")
    for ms, (sender, data) in enumerate(chunks):
        transcript.add(ms, sender, data)
    assert len(judged(transcript)) == len(suite("mcp").requirements)


Server: Any = conforming("mcp")


class IgnoresCancels(Server):
    """Answers a cancelled call when it would have been answered anyway."""

    def cancel(self, request_id: Any) -> None:
        pass


class CancelsEverything(Server):
    """Ends each call at any cancel."""

    def cancel(self, request_id: Any) -> None:
        for call in list(self.calls):
            self.end(call)


@pytest.mark.parametrize(
    ("scenario", "server", "name", "reason"),
    [
        ("cancel-2025-11-25", IgnoresCancels, "CANCEL-001", "a cancelled call was answered with a result"),
        ("cancel-2026-07-28", IgnoresCancels, "CANCEL-005", "progress was told of a cancelled call"),
        (
            "cancel-stale-2025-11-25",
            CancelsEverything,
            "CANCEL-003",
            "a call that was under way was not answered before its connection ended, 4.0 s later",
        ),
        (
            "cancel-stale-2026-07-28",
            CancelsEverything,
            "CANCEL-003",
            "a call that was under way was not answered before its connection ended, 4.0 s later",
        ),
    ],
)
def test_a_cancel_ends_what_it_names_and_nothing_else(scenario: str, server: Any, name: str, reason: str) -> None:
    name = f"MCP-S-{name}"
    verdicts = dict(judged(transcript_of(scenario, server, "mcp")))
    assert {one for one, verdict in verdicts.items() if verdict.outcome == "fail"} == {name}
    assert verdicts[name].reason == reason


def test_a_call_that_outlasts_the_scenario_says_nothing_about_its_cancel() -> None:
    class NeverEnds(Server):
        def progress(self, call: Any) -> None:
            call.left = 2

    verdicts = dict(judged(transcript_of("cancel-2025-11-25", NeverEnds, "mcp")))
    assert verdicts["MCP-S-CANCEL-001"].outcome == "skipped"
    assert verdicts["MCP-S-CANCEL-001"].reason == "the call takes longer than was waited for an answer to it"
