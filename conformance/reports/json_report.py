"""The report for programs. Its shape is described in docs/conformance-formats.md, and changes with `version` alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from conformance.reports.rows import result_row
from conformance.reports.terminal import shown

if TYPE_CHECKING:
    from conformance.reports.context import Context
    from conformance.runner import Run

VERSION: Final = 2
_WORDS: Final = {0: "conformant", 1: "not conformant", 3: "not judged"}


def render(run: Run, context: Context) -> str:
    """The whole report, with a newline at its end."""
    transcripts = {transcript.scenario: transcript for transcript in run.transcripts}
    report = {
        "format": "rewindow-conformance report",
        "version": VERSION,
        "suite": run.suite.name,
        "command": context.command,
        "verdict": _WORDS[run.code],
        "obstacle": run.obstacle,
        "seconds": round(run.seconds, 3),
        "counts": dict(Counter(result.standing for result in run.results)),
        "results": [
            result_row(result, list(shown(result, transcripts, context)) if result.is_shown else [])
            for result in run.results
        ],
        "scenarios": [
            {"name": one.scenario, "ms": round(one.entries[-1].ms, 3) if one.entries else 0} for one in run.transcripts
        ],
        "replays": dict(context.replays),
    }
    return json.dumps(report, ensure_ascii=False, indent=2) + "\n"
