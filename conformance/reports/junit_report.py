"""The report for CI servers: JUnit's XML, a test case for each requirement.

Failures that do not decide are skipped cases with their reason, so that a server is red where the exit status is 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from conformance.reports.terminal import cited, shown_entries, visible
from conformance.suite import Result

if TYPE_CHECKING:
    from conformance.reports.context import Context
    from conformance.runner import Run


def render(run: Run, context: Context) -> str:
    """The whole report."""
    cases = [_case(result, run, context) for result in run.results]
    if run.obstacle:
        cases.append(
            f'  <testcase classname={_name(run)} name="judged"><error message={_attribute(run.obstacle)}/></testcase>'
        )
    failed = len(run.violations)
    silent = sum(_skips(result) for result in run.results)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{int(bool(run.obstacle))}" skipped="{silent}"'
    head = f'<testsuite name={_name(run)} {counts} time="{run.seconds:.3f}">'
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>"]) + "\n"


def _case(result: Result, run: Run, context: Context) -> str:
    row, verdict = result.requirement, result.verdict
    start = f"  <testcase classname={_name(run)} name={_attribute(f'{row.id} {row.text}')}"
    body = _shown(result, run, context)
    if result.is_violation:
        return f"{start}><failure message={_attribute(verdict.reason)}>{body}</failure></testcase>"
    if _skips(result):
        return (
            f"{start}><skipped message={_attribute(f'{result.standing}: {verdict.reason}')}>{body}</skipped></testcase>"
        )
    return f"{start}/>"


def _shown(result: Result, run: Run, context: Context) -> str:
    """The quote of a failure, the lines that show it, and the command that repeats it."""
    if not result.is_shown:
        return ""
    row, verdict = result.requirement, result.verdict
    transcript = next((one for one in run.transcripts if one.scenario == verdict.scenario), None)
    lines = [cited(row), *(shown_entries(transcript, verdict.evidence) if transcript else ())]
    lines += [context.replays[verdict.scenario]] if verdict.scenario in context.replays else []
    return escape("\n".join(visible(line) for line in lines))


def _skips(result: Result) -> bool:
    return not result.is_violation and result.verdict.outcome != "pass"


def _name(run: Run) -> str:
    return _attribute(f"conformance.{run.suite.name}")


def _attribute(text: str) -> str:
    return quoteattr(visible(text))
