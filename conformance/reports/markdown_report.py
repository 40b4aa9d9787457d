"""The report for a pull request or a page: Markdown, with each failure's quote, lines and command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from conformance.documents import DOCUMENTS, link
from conformance.reports.terminal import UNDECIDING, counted, shown_entries, silence, visible
from conformance.suite import Result

if TYPE_CHECKING:
    from conformance.reports.context import Context
    from conformance.runner import Run


def render(run: Run, context: Context) -> str:
    """The whole report."""
    return "\n".join(_lines(run, context)) + "\n"


def _lines(run: Run, context: Context) -> Iterator[str]:
    yield f"# {run.suite.title}"
    yield ""
    yield _fenced([visible(shlex.join(context.command))])
    yield ""
    if run.obstacle:
        yield f"**Not judged**: {_escaped(run.obstacle)}."
        return
    verdict = "Not conformant" if run.violations else "Conformant"
    yield f"**{verdict}**: {counted(run.results)}, of {len(run.results)} requirements in {run.seconds:.1f} s."
    for result in run.violations:
        yield ""
        yield from _failure(result, run, context)
    for standing, title in UNDECIDING.items():
        results = [result for result in run.results if result.standing == standing]
        if results:
            yield ""
            yield f"{title}:"
        for result in results:
            yield ""
            yield from _failure(result, run, context)
    yield ""
    yield "| requirement | level | verdict | |"
    yield "|---|---|---|---|"
    for result in run.results:
        row, reason = result.requirement, _escaped(result.verdict.reason)
        yield f"| {row.id} | {row.level} | {result.standing} | {_escaped(row.text)} {reason} |"


def _failure(result: Result, run: Run, context: Context) -> Iterator[str]:
    row, verdict = result.requirement, result.verdict
    yield f"## {row.id}: {result.standing}"
    yield ""
    yield f"{_escaped(row.text)} But {_escaped(verdict.reason)}."
    yield ""
    yield f"> {silence(row)}{row.source.quote}"
    yield ">"
    yield f"> [{DOCUMENTS[row.source.document].title}, {row.source.place}]({link(row.source)})"
    transcript = next((one for one in run.transcripts if one.scenario == verdict.scenario), None)
    if transcript is not None and verdict.evidence:
        yield ""
        yield _fenced(list(shown_entries(transcript, verdict.evidence)))
    if verdict.scenario in context.replays:
        yield ""
        yield _fenced([context.replays[verdict.scenario]])


def _fenced(lines: list[str]) -> str:
    """A block of code whose fence nothing in it can end."""
    fence = "```"
    while any(fence in line for line in lines):
        fence += "`"
    return "\n".join([fence, *lines, fence])


def _escaped(text: str) -> str:
    """A foreign program's text within a line of Markdown."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in visible(text))
