"""Reports of a run: one file for each kind, a row each here. They know results, and no protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from conformance.reports import html_report, json_report, junit_report, markdown_report
from conformance.reports.context import Context

if TYPE_CHECKING:
    from conformance.runner import Run


@dataclass(frozen=True, slots=True)
class Report:
    """One kind of file."""

    title: str
    render: Callable[[Run, Context], str]


REPORTS: Final = {
    "json": Report("JSON, described by `rewindow help conformance-formats`", json_report.render),
    "junit": Report("JUnit's XML", junit_report.render),
    "markdown": Report("Markdown", markdown_report.render),
    "html": Report("HTML, one file", html_report.render),
}
"""By the option that asks for them."""
