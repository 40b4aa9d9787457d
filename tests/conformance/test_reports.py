"""Reports contain the verdict, the quote and the replay command, and escape foreign text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from conformance.documents import quote_text
from conformance.judging import failed, with_scenario
from conformance.reports import terminal
from conformance.reports.files import REPORTS
from conformance.reports.terminal import Context
from conformance.runner import Run
from conformance.suite import Result
from conformance.transcript import Entry, Transcript
from conformance.values import truncate, truncate_bytes
from tests.conformance.suite_runs import defect, suite, transcript_of

HOSTILE = "</code><script>alert(1)</script>\x1b[2J`````|&"
NAMES = ["terminal", *REPORTS]


def outcome(requirement: str = "ACP1-A-CANCEL-001", scenario: str = "cancel") -> Run:
    transcript = transcript_of(scenario, defect(requirement))
    chosen = {row.id: row for row in suite().requirements if row.scenario in (None, scenario)}
    return Run(suite(), suite().judge([transcript], chosen), [transcript], "", 1.0)


def rendered(name: str, run: Run, command: list[str]) -> str:
    context = Context(command, {"cancel": "rewindow-conformance replay cancel.jsonl"})
    return terminal.render(run, context) if name == "terminal" else REPORTS[name].render(run, context)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("requirement", "scenario", "standing", "line"),
    [
        ("ACP1-A-CANCEL-001", "cancel", "fail", "end_turn"),
        ("ACP1-A-RPC-011", "unknown-methods", "advice", "-32603"),
        ("ACP1-A-DELETE-003", "delete", "note", "session/delete"),
    ],
)
def test_failure_of_each_level_shows_lines_and_command(
    name: str, requirement: str, scenario: str, standing: str, line: str
) -> None:
    run = outcome(requirement, scenario)
    chosen = [result for result in run.results if result.requirement.id == requirement]
    run = Run(suite(), chosen, run.transcripts, "", 1.0)
    context = Context(["agent"], {scenario: "rewindow-conformance replay it.jsonl"})
    text = terminal.render(run, context) if name == "terminal" else REPORTS[name].render(run, context)
    assert [result.reported for result in run.results] == [standing]
    assert line in text
    assert "rewindow-conformance replay it.jsonl" in text
    assert standing in text.lower()
    is_silent = "The specification does not state this." in " ".join(text.split())
    assert is_silent is (standing == "note")


def test_silent_specification_never_fails() -> None:
    for row in suite().requirements:
        standing = Result(row, failed("whatever")).reported
        assert standing == {"advisory": "advice", "informational": "note"}.get(row.level, "fail")


@cache
def flooded() -> Run:
    """Return a run of an agent that sends 5,000 updates of 2,000 characters before its answer."""
    transcript = transcript_of("cancel", defect("ACP1-A-CANCEL-001"))
    end = next(index for index, entry in enumerate(transcript.entries) if b"end_turn" in entry.data)
    update = b'{"jsonrpc":"2.0","method":"session/update","params":{"x":"%s"}}\n' % (b"x" * 2000)
    transcript.entries[end:end] = [Entry(1.0, "server", update)] * 5_000
    chosen = {row.id: row for row in suite().requirements if row.scenario in (None, "cancel")}
    results = suite().judge([transcript], chosen)
    return Run(suite(), results, [transcript], "", 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_flood_report_stays_small(name: str) -> None:
    run = flooded()
    assert "ACP1-A-CANCEL-001" in {result.requirement.id for result in run.violations}
    text = rendered(name, run, ["agent"])
    assert "end_turn" in text
    assert len(text) < 400_000


@pytest.mark.parametrize("at", range(40, 120, 3))
def test_cut_text_has_no_part_of_a_key(at: int) -> None:
    key = "sk-proj-Zq9vT4mW7xK2pL8nR3yB6hQ5"
    text = "- " * 30 + key + " -" * 30
    for shown in (truncate(text, at), truncate_bytes(text.encode(), at).decode()):
        assert len(shown) <= at + 4
        assert not [
            key[start : start + 8] for start in range(len(key) - 7) if key[start : start + 8] in shown.replace(key, "")
        ]


def test_long_reason_is_truncated() -> None:
    assert len(with_scenario(failed("x" * 1_000_000), "cancel").reason) < 1000


class Page(HTMLParser):
    """The tags of a page, and those left open."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)


@pytest.mark.parametrize("name", NAMES)
def test_report_has_quote_reason_and_command(name: str) -> None:
    text = rendered(name, outcome(), ["agent"])
    flat = " ".join(text.split())
    assert "ACP1-A-CANCEL-001" in flat
    assert "respond to the original" in flat
    assert "end_turn" in flat
    assert "rewindow-conformance replay cancel.jsonl" in flat


@pytest.mark.parametrize("name", NAMES)
def test_reports_escape_foreign_text(name: str) -> None:
    run = outcome("ACP1-A-FRAME-001", "two-texts")
    for entry in run.transcripts[0].entries:
        if entry.data.startswith(b"Loading"):
            object.__setattr__(entry, "data", HOSTILE.encode() + b"\n")
    again = Run(
        suite(), suite().judge(run.transcripts, {r.id: r for r in suite().requirements[:1]}), run.transcripts, "", 1
    )
    text = rendered(name, again, ["agent", HOSTILE])
    assert "\x1b" not in text
    if name == "html":
        page = Page()
        page.feed(text)
        assert "script" not in page.tags
    if name == "junit":
        ET.fromstring(text)


@pytest.mark.parametrize("name", NAMES)
def test_unjudged_program_report_has_reason(name: str) -> None:
    transcript = transcript_of("opening")
    text = rendered(name, Run(suite(), [], [transcript], "the agent did not answer initialize", 1.0), ["agent"])
    assert "the agent did not answer initialize" in text


def test_junit_fails_exactly_with_exit_status_one() -> None:
    root = ET.fromstring(rendered("junit", outcome(), ["agent"]))
    assert (root.get("failures"), root.get("errors")) == ("1", "0")
    advice = ET.fromstring(rendered("junit", outcome("ACP1-A-PROMPT-012", "opening"), ["agent"]))
    assert advice.get("failures") == "0"


def test_html_links_violations_and_shows_plain_quotes() -> None:
    text = rendered("html", outcome(), ["agent"])
    assert '<a href="#ACP1-A-CANCEL-001">' in text
    assert '<section id="ACP1-A-CANCEL-001">' in text
    assert "respond to the original <code>session/prompt</code> request" in text
    assert "cancelled</code> stop reason." in text
    assert "</b>" in text
    assert "agent</b>" in text


def test_schema_quote_has_no_quotation_marks() -> None:
    rows = {row.id: row for row in suite().requirements}
    assert quote_text(rows["ACP1-A-UPDATE-005"].source) == '"const": "tool_call_update"'
    assert quote_text(rows["ACP1-A-TERM-008"].source).startswith('"The Agent MUST release the terminal using')


def test_html_loads_no_resources() -> None:
    text = rendered("html", outcome(), ["agent"])
    page = Page()
    page.feed(text)
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert "url(" not in text


def test_split_line_is_shown_whole_and_once() -> None:
    transcript = Transcript("opening")
    transcript.add(0, "server", b"{}\nWel")
    transcript.add(1, "client", b"[]\n")
    transcript.add(2, "server", b"come")
    transcript.add(3, "server", b"\n")
    assert list(terminal.entry_lines(transcript, (3, 3))) == ["      3.0 ms        < Welcome"]


@pytest.mark.parametrize(
    ("ending", "is_shown"), [({"by": "by itself", "code": 1}, True), ({"by": "SIGTERM", "code": -15}, False)]
)
def test_unexpected_exit_is_reported(ending: dict[str, Any], is_shown: bool) -> None:
    transcript = transcript_of("cancel", defect("ACP1-A-CANCEL-001"))
    transcript.entries[-1:] = []
    transcript.add(9, "server-log", b"out of memory\n")
    transcript.mark(9, "ended", ending)
    results = suite().judge([transcript], {r.id: r for r in suite().requirements if r.id == "ACP1-A-CANCEL-001"})
    text = terminal.render(Run(suite(), results, [transcript], "", 1.0), Context(["agent"], {}))
    assert ("status 1\n        it printed: out of memory\n" in text) == is_shown
