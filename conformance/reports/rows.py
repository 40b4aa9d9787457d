"""Requirements and results as JSON: the rows of the JSON report and of `list --json`."""

from __future__ import annotations

from typing import Any

from conformance.documents import DOCUMENTS, link
from conformance.requirement import Requirement
from conformance.suite import Result


def requirement_row(row: Requirement) -> dict[str, Any]:
    """A requirement."""
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
    """A requirement with its verdict. `report` are the lines that the terminal shows of a failure."""
    verdict = result.verdict
    return {
        **requirement_row(result.requirement),
        "outcome": result.standing,
        "violation": result.is_violation,
        "reason": verdict.reason,
        "shown_by": verdict.scenario,
        "evidence": list(verdict.evidence),
        "report": report,
    }
