"""Judges: saved transcripts have the same verdicts as live ones, and any traffic gets a verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.judging import PASS, combine, failed, not_tested, skipped
from conformance.suites.jsonrpc import notifications_unanswered
from conformance.traffic import Traffic
from conformance.transcript import LIMIT, Transcript, TranscriptFormatError, load
from tests.conformance.suite_runs import defect, suite, transcript_of
from tests.support.examples import examples

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["s1", "", "/a", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "a", "path"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def cut_short(seconds: float) -> Transcript:
    """Return a transcript that ends so long after a prompt, which may take 10 s."""
    transcript = transcript_of("cancel", defect("ACP1-A-CANCEL-001"))
    entries = list(enumerate(transcript.entries))
    mark = next(index for index, entry in entries if entry.label == "cancelled")
    prompt = max(index for index, entry in entries if index < mark and b"session/prompt" in entry.data)
    del transcript.entries[mark + 1 :]
    end = transcript.entries[prompt].ms + 1000 * seconds
    transcript.mark(end, "cut-short", "the scenario reached its limit of 30 s")
    transcript.facts["options"] = {"timeout": 10.0}
    return transcript


@pytest.mark.parametrize(
    ("seconds", "outcome", "said"),
    [
        (2.0, "not-tested", "the scenario reached its limit of 30 s, 2.0 s after session/prompt was sent"),
        (11.0, "fail", "the cancelled prompt was not answered before its connection ended, 11.0 s later"),
    ],
)
def test_request_without_full_time_is_not_tested(seconds: float, outcome: str, said: str) -> None:
    results = {one.requirement.id: one for one in suite().judge([cut_short(seconds)])}
    result = results["ACP1-A-CANCEL-001"]
    assert (result.verdict.outcome, result.verdict.reason) == (outcome, said)
    assert result.is_violation, "a mandatory requirement that nobody could test is no pass"


@pytest.mark.parametrize(
    ("asked", "code", "outcome"), [(True, -32700, "pass"), (True, -32601, "fail"), (False, -32700, "fail")]
)
def test_error_without_id_may_answer_an_unreadable_request(asked: bool, code: int, outcome: str) -> None:
    transcript = Transcript("")
    for message in ({"method": "note"}, {"id": 1, "method": "ask", "params": {"text": "\ud83d"}})[: 1 + asked]:
        transcript.add(1, "client", json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    transcript.add(2, "server", json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code}}).encode() + b"\n")
    assert notifications_unanswered(Traffic(transcript)).outcome == outcome


@pytest.mark.parametrize("scenario", ["opening", "load", "cancel", "malformed-lines", "not-utf8", "long-line"])
def test_saved_transcript_has_same_verdicts(scenario: str, tmp_path: Path) -> None:
    live = transcript_of(scenario, defect("ACP1-A-TOOL-001"))
    live.save(tmp_path / "saved.jsonl")
    saved = load(tmp_path / "saved.jsonl")
    verdicts = [[(r.requirement.id, r.verdict) for r in suite().judge([one])] for one in (live, saved)]
    assert verdicts[0] == verdicts[1]
    assert [entry.data for entry in saved.entries] == [entry.data for entry in live.entries]


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "[]\n",
        "not json\n",
        '{"format": "something else"}\n',
        '{"format": "rewindow-conformance transcript", "version": 99}\n',
        '{"format": "rewindow-conformance transcript", "version": 1}\n{"from": "client", "text": ""}\n',
        '{"format": "rewindow-conformance transcript", "version": 1}\n{"ms": 1, "from": "nobody", "text": ""}\n',
        '{"format": "rewindow-conformance transcript", "version": 1}\n{"ms": 1, "from": "client", "base64": "?"}\n',
        '{"format": "rewindow-conformance transcript", "version": 1}\n{"ms": 1, "from": "client"}\n',
    ],
)
def test_invalid_transcript_names_the_line(lines: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(lines)
    with pytest.raises(TranscriptFormatError):
        load(path)


def mutated(transcript: Transcript, replacements: list[tuple[int, str, Any]], side: str = "server") -> Transcript:
    """Return the transcript with other values in some messages of one side."""
    changed = Transcript(transcript.scenario, transcript.facts)
    places = [i for i, entry in enumerate(transcript.entries) if entry.kind == side and entry.data.startswith(b"{")]
    wanted = {places[position % len(places)]: (path, value) for position, path, value in replacements}
    for index, entry in enumerate(transcript.entries):
        data = entry.data
        if index in wanted:
            path, value = wanted[index]
            message = json.loads(data.splitlines()[0])
            put(message, path.split("."), value)
            data = json.dumps(message).encode() + b"\n"
        if entry.kind == "mark":
            changed.mark(entry.ms, entry.label, entry.value)
        else:
            changed.add(entry.ms, entry.kind, data)
    return changed


def put(message: Any, path: list[str], value: Any) -> None:
    for key in path[:-1]:
        if not isinstance(message, dict):
            return
        message = message.setdefault(key, {})
    if isinstance(message, dict):
        message[path[-1]] = value


PATHS = st.sampled_from(
    [
        *("id", "method", "params", "result", "error", "jsonrpc", "error.code", "params.sessionId", "params.update"),
        *("params.update.sessionUpdate", "params.update.toolCallId", "params.update.content", "params.update.status"),
        *("params.update.locations", "params.update.configOptions", "params.options", "params.toolCall", "params.path"),
        *("params.terminalId", "result.sessions", "result.configOptions", "result.modes", "result.stopReason"),
        *("result.agentCapabilities", "result.authMethods", "result.sessionId", "result.terminalId"),
        *("params.cwd", "params.mcpServers", "params.clientCapabilities", "params.clientInfo", "params.prompt"),
        *("params.additionalDirectories", "params.modeId", "params.configId", "params.value", "result.outcome"),
        *("result.outcome.optionId", "result.content", "result.output", "result.exitStatus", "result.truncated"),
    ]
)


AGENT_SCENARIOS = ("opening", "load", "list", "modes", "config-options", "close", "permission-refused", "ids")
CLIENT_SCENARIOS = (
    "opening",
    "everything-offered",
    "permission",
    "cancel",
    "read-file",
    "write-file",
    "terminal",
    "ids",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "side", "scenarios"), [("acp", "server", AGENT_SCENARIOS), ("acp-client", "client", CLIENT_SCENARIOS)]
)
@examples(3)
@given(data=st.data(), replacements=st.lists(st.tuples(st.integers(0, 60), PATHS, JSON), min_size=1, max_size=6))
def test_judges_handle_any_message(
    name: str, side: str, scenarios: Sequence[str], data: st.DataObject, replacements: list[tuple[int, str, Any]]
) -> None:
    whole = transcript_of(data.draw(st.sampled_from(scenarios)), of=name)
    for result in suite(name).judge([mutated(whole, replacements, side)]):
        assert result.verdict.outcome == "pass" or result.verdict.reason


@examples(3)
@given(
    st.lists(st.tuples(st.sampled_from(["client", "server"]), st.binary(max_size=30)), max_size=8),
    st.sampled_from(["acp", "acp-client"]),
)
def test_judges_handle_any_bytes(chunks: list[tuple[Any, bytes]], name: str) -> None:
    transcript = Transcript("opening")
    for ms, (sender, data) in enumerate(chunks):
        transcript.add(ms, sender, data)
    assert len(suite(name).judge([transcript])) == len(suite(name).requirements)


def test_transcript_reports_when_full() -> None:
    transcript = Transcript("x")
    transcript.add(0, "server", b"x" * (LIMIT - 1))
    assert not transcript.is_full
    transcript.add(0, "server", b"x")
    assert transcript.is_full


def test_bulk_data_is_a_digest_and_no_message() -> None:
    transcript = Transcript("x")
    transcript.add(0, "client", b'{"id":1}\n' * 1_000_000, generated=True)
    assert transcript.size < 1000
    assert list(Traffic(transcript).sent("client")) == []
    assert len(transcript.entries[0].sha256) == 64


def test_precedence_of_combined_verdicts() -> None:
    assert combine([PASS, failed("no"), skipped("")]).outcome == "fail"
    assert combine([skipped(""), PASS, not_tested("")]).outcome == "pass"
    assert combine([skipped(""), not_tested("")]).outcome == "not-tested"
    assert combine([]).outcome == "not-tested"


def test_ids_of_different_types_differ() -> None:
    transcript = Transcript("x")
    transcript.add(0, "client", b'{"jsonrpc":"2.0","id":1,"method":"a"}\n{"jsonrpc":"2.0","id":"1","method":"b"}\n')
    transcript.add(1, "server", b'{"jsonrpc":"2.0","id":"1","result":{}}\n')
    first, second, answer = Traffic(transcript).messages
    assert first.answer is None
    assert second.answer is answer
