"""The kinds of report files: JSON, JUnit, Markdown and HTML, in the table REPORTS.

docs/conformance-formats.md describes the JSON; its `version` changes with its shape. In JUnit, failures that do not
decide are skipped cases, so that a CI server is red exactly when the exit status is 1.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from conformance.documents import DOCUMENTS, link
from conformance.judging import Requirement
from conformance.reports import html_page
from conformance.reports.terminal import (
    NON_DECIDING,
    Context,
    entry_lines,
    escape_unprintable,
    failure_lines,
    outcome_counts,
    quote_with_notice,
    silence_notice,
)
from conformance.runner import Run
from conformance.suite import Result


def requirement_row(row: Requirement) -> dict[str, Any]:
    """Convert a requirement, also for `list --json`."""
    return {
        "id": row.id,
        "level": row.level,
        "text": row.text,
        "scenario": row.scenario,
        "applies": row.applies,
        "source": {
            "document": DOCUMENTS[row.source.document].title,
            "version": DOCUMENTS[row.source.document].version,
            "place": row.source.place,
            "quote": row.source.quote,
            "link": link(row.source),
        },
    }


def result_row(result: Result, report: list[str]) -> dict[str, Any]:
    """Convert a requirement with its verdict. `report` holds the terminal's lines about a failure."""
    verdict = result.verdict
    return {
        **requirement_row(result.requirement),
        "outcome": result.reported,
        "violation": result.is_violation,
        "reason": verdict.reason,
        "shown_by": verdict.scenario,
        "evidence": list(verdict.evidence),
        "report": report,
    }


# --- JSON -------------------------------------------------------------------------------------------------------------


VERSION: Final = 2
_WORDS: Final = {0: "conformant", 1: "not conformant", 3: "not judged"}


def render_json(run: Run, context: Context) -> str:
    """Render the report as JSON."""
    transcripts = {transcript.scenario: transcript for transcript in run.transcripts}
    report = {
        "format": "rewindow-conformance report",
        "version": VERSION,
        "suite": run.suite.name,
        "command": context.command,
        "verdict": _WORDS[run.code],
        "obstacle": run.obstacle,
        "seconds": round(run.seconds, 3),
        "counts": dict(Counter(result.reported for result in run.results)),
        "results": [
            result_row(result, list(failure_lines(result, transcripts, context)) if result.is_shown else [])
            for result in run.results
        ],
        "scenarios": [
            {"name": one.scenario, "ms": round(one.entries[-1].ms, 3) if one.entries else 0} for one in run.transcripts
        ],
        "replays": dict(context.replays),
    }
    return json.dumps(report, ensure_ascii=False, indent=2) + "\n"


# --- JUnit ------------------------------------------------------------------------------------------------------------


def render_junit(run: Run, context: Context) -> str:
    """Render the report as JUnit XML."""
    cases = [_junit_case(result, run, context) for result in run.results]
    if run.obstacle:
        error = f"<error message={_attribute(run.obstacle)}/>"
        cases.append(f'  <testcase classname={_class_name(run)} name="judged">{error}</testcase>')
    failed = len(run.violations)
    silent = sum(_is_skipped(result) for result in run.results)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{int(bool(run.obstacle))}" skipped="{silent}"'
    head = f'<testsuite name={_class_name(run)} {counts} time="{run.seconds:.3f}">'
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>"]) + "\n"


def _junit_case(result: Result, run: Run, context: Context) -> str:
    row, verdict = result.requirement, result.verdict
    start = f"  <testcase classname={_class_name(run)} name={_attribute(f'{row.id} {row.text}')}"
    body = _junit_body(result, run, context)
    if result.is_violation:
        return f"{start}><failure message={_attribute(verdict.reason)}>{body}</failure></testcase>"
    if _is_skipped(result):
        return (
            f"{start}><skipped message={_attribute(f'{result.reported}: {verdict.reason}')}>{body}</skipped></testcase>"
        )
    return f"{start}/>"


def _junit_body(result: Result, run: Run, context: Context) -> str:
    """Return the quote, the lines and the replay command of a failure."""
    if not result.is_shown:
        return ""
    row, verdict = result.requirement, result.verdict
    transcript = next((one for one in run.transcripts if one.scenario == verdict.scenario), None)
    lines = [quote_with_notice(row), *(entry_lines(transcript, verdict.evidence) if transcript else ())]
    lines += [context.replays[verdict.scenario]] if verdict.scenario in context.replays else []
    return escape("\n".join(escape_unprintable(line) for line in lines))


def _is_skipped(result: Result) -> bool:
    return not result.is_violation and result.verdict.outcome != "pass"


def _class_name(run: Run) -> str:
    return _attribute(f"conformance.{run.suite.name}")


def _attribute(text: str) -> str:
    return quoteattr(escape_unprintable(text))


# --- Markdown ---------------------------------------------------------------------------------------------------------


def render_markdown(run: Run, context: Context) -> str:
    """Render the report as Markdown."""
    return "\n".join(_markdown_lines(run, context)) + "\n"


def _markdown_lines(run: Run, context: Context) -> Iterator[str]:
    yield f"# {run.suite.title}"
    yield ""
    yield _fenced([escape_unprintable(shlex.join(context.command))])
    yield ""
    if run.obstacle:
        yield f"**Not judged**: {_escape_markdown(run.obstacle)}."
        return
    verdict = "Not conformant" if run.violations else "Conformant"
    yield f"**{verdict}**: {outcome_counts(run.results)}, of {len(run.results)} requirements in {run.seconds:.1f} s."
    for result in run.violations:
        yield ""
        yield from _markdown_failure(result, run, context)
    for outcome, title in NON_DECIDING.items():
        results = [result for result in run.results if result.reported == outcome]
        if results:
            yield ""
            yield f"{title}:"
        for result in results:
            yield ""
            yield from _markdown_failure(result, run, context)
    yield ""
    yield "| requirement | level | verdict | |"
    yield "|---|---|---|---|"
    for result in run.results:
        row, reason = result.requirement, _escape_markdown(result.verdict.reason)
        yield f"| {row.id} | {row.level} | {result.reported} | {_escape_markdown(row.text)} {reason} |"


def _markdown_failure(result: Result, run: Run, context: Context) -> Iterator[str]:
    row, verdict = result.requirement, result.verdict
    yield f"## {row.id}: {result.reported}"
    yield ""
    yield f"{_escape_markdown(row.text)} But {_escape_markdown(verdict.reason)}."
    yield ""
    yield f"> {silence_notice(row)}{row.source.quote}"
    yield ">"
    yield f"> [{DOCUMENTS[row.source.document].title}, {row.source.place}]({link(row.source)})"
    transcript = next((one for one in run.transcripts if one.scenario == verdict.scenario), None)
    if transcript is not None and verdict.evidence:
        yield ""
        yield _fenced(list(entry_lines(transcript, verdict.evidence)))
    if verdict.scenario in context.replays:
        yield ""
        yield _fenced([context.replays[verdict.scenario]])


def _fenced(lines: list[str]) -> str:
    """Return a code block whose fence no line can close."""
    fence = "```"
    while any(fence in line for line in lines):
        fence += "`"
    return "\n".join([fence, *lines, fence])


def _escape_markdown(text: str) -> str:
    """Escape foreign text for a line of Markdown."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in escape_unprintable(text))


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """A kind of report file."""

    title: str
    render: Callable[[Run, Context], str]


REPORTS: Final = {
    "json": Report("JSON, described by `rewindow help conformance-formats`", render_json),
    "junit": Report("JUnit XML", render_junit),
    "markdown": Report("Markdown", render_markdown),
    "html": Report("HTML, one file", html_page.render),
}
"""By the option that writes the file."""
