"""Each kind of report says the verdict, the quote and how to see it again, and nothing foreign acts in it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from conformance.documents import readable
from conformance.reports import REPORTS, terminal
from conformance.reports.context import Context
from conformance.runner import Run
from conformance.suite import Result
from conformance.transcript import Entry, Transcript
from conformance.verdict import failed, of
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
def test_a_failure_of_each_level_shows_its_lines_and_how_to_repeat_it(
    name: str, requirement: str, scenario: str, standing: str, line: str
) -> None:
    run = outcome(requirement, scenario)
    chosen = [result for result in run.results if result.requirement.id == requirement]
    run = Run(suite(), chosen, run.transcripts, "", 1.0)
    context = Context(["agent"], {scenario: "rewindow-conformance replay it.jsonl"})
    text = terminal.render(run, context) if name == "terminal" else REPORTS[name].render(run, context)
    assert [result.standing for result in run.results] == [standing]
    assert line in text
    assert "rewindow-conformance replay it.jsonl" in text
    assert standing in text.lower()
    is_silent = "The specification does not say so." in " ".join(text.split())
    assert is_silent is (standing == "note")


def test_nothing_fails_where_the_specification_is_silent() -> None:
    for row in suite().requirements:
        standing = Result(row, failed("whatever")).standing
        assert standing == {"advisory": "advice", "informational": "note"}.get(row.level, "fail")


@cache
def flooded() -> Run:
    """An agent that sends 5,000 updates, each of 2,000 characters, before it answers its prompt."""
    transcript = transcript_of("cancel", defect("ACP1-A-CANCEL-001"))
    end = next(index for index, entry in enumerate(transcript.entries) if b"end_turn" in entry.data)
    update = b'{"jsonrpc":"2.0","method":"session/update","params":{"x":"%s"}}\n' % (b"x" * 2000)
    transcript.entries[end:end] = [Entry(1.0, "server", update)] * 5_000
    chosen = {row.id: row for row in suite().requirements if row.scenario in (None, "cancel")}
    results = suite().judge([transcript], chosen)
    return Run(suite(), results, [transcript], "", 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_of_an_agent_that_floods_stays_small(name: str) -> None:
    run = flooded()
    assert "ACP1-A-CANCEL-001" in {result.requirement.id for result in run.violations}
    text = rendered(name, run, ["agent"])
    assert "end_turn" in text
    assert len(text) < 400_000


def test_a_reason_that_quotes_a_flood_is_cut() -> None:
    assert len(of(failed("x" * 1_000_000), "cancel").reason) < 1000


class Page(HTMLParser):
    """The tags of a page, and what is left open."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_has_the_quote_the_reason_and_the_command_of_a_failure(name: str) -> None:
    text = rendered(name, outcome(), ["agent"])
    flat = " ".join(text.split())
    assert "ACP1-A-CANCEL-001" in flat
    assert "respond to the original" in flat
    assert "end_turn" in flat
    assert "rewindow-conformance replay cancel.jsonl" in flat


@pytest.mark.parametrize("name", NAMES)
def test_nothing_foreign_acts_in_a_report(name: str) -> None:
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
def test_a_program_that_was_not_judged_has_a_report_that_says_why(name: str) -> None:
    transcript = transcript_of("opening")
    text = rendered(name, Run(suite(), [], [transcript], "the agent did not answer initialize", 1.0), ["agent"])
    assert "the agent did not answer initialize" in text


def test_junit_is_red_where_the_exit_status_is_one_and_only_there() -> None:
    root = ET.fromstring(rendered("junit", outcome(), ["agent"]))
    assert (root.get("failures"), root.get("errors")) == ("1", "0")
    advice = ET.fromstring(rendered("junit", outcome("ACP1-A-PROMPT-012", "opening"), ["agent"]))
    assert advice.get("failures") == "0"


def test_a_page_leads_to_what_was_violated_and_shows_its_quote_as_people_read_it() -> None:
    text = rendered("html", outcome(), ["agent"])
    assert '<a href="#ACP1-A-CANCEL-001">' in text
    assert '<section id="ACP1-A-CANCEL-001">' in text
    assert "respond to the original <code>session/prompt</code> request" in text
    assert "cancelled</code> stop reason." in text
    assert "</b>" in text
    assert "agent</b>" in text


def test_a_quote_of_a_schema_has_no_quotation_marks_of_ours() -> None:
    rows = {row.id: row for row in suite().requirements}
    assert readable(rows["ACP1-A-UPDATE-005"].source) == '"const": "tool_call_update"'
    assert readable(rows["ACP1-A-TERM-008"].source).startswith('"The Agent MUST release the terminal using')


def test_a_page_loads_nothing() -> None:
    text = rendered("html", outcome(), ["agent"])
    page = Page()
    page.feed(text)
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert "url(" not in text


def test_a_line_that_came_in_pieces_is_shown_whole_and_once() -> None:
    transcript = Transcript("opening")
    transcript.add(0, "server", b"{}\nWel")
    transcript.add(1, "client", b"[]\n")
    transcript.add(2, "server", b"come")
    transcript.add(3, "server", b"\n")
    assert list(terminal.shown_entries(transcript, (3, 3))) == ["      3.0 ms        < Welcome"]


@pytest.mark.parametrize(
    ("ending", "is_shown"), [({"by": "by itself", "code": 1}, True), ({"by": "SIGTERM", "code": -15}, False)]
)
def test_a_program_that_ended_while_it_was_wanted_is_said_to_have(ending: dict[str, Any], is_shown: bool) -> None:
    transcript = transcript_of("cancel", defect("ACP1-A-CANCEL-001"))
    transcript.entries[-1:] = []
    transcript.add(9, "server-log", b"out of memory\n")
    transcript.mark(9, "ended", ending)
    results = suite().judge([transcript], {r.id: r for r in suite().requirements if r.id == "ACP1-A-CANCEL-001"})
    text = terminal.render(Run(suite(), results, [transcript], "", 1.0), Context(["agent"], {}))
    said = "the program ended by itself, with status 1\n        it printed: out of memory\n"
    assert said in text if is_shown else "ended by itself" not in text
