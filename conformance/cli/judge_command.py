"""`judge`: judges saved transcripts: those that failures leave, and those that `trace` records of any two programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from conformance.cli import UsageError
from conformance.cli.judging_runs import report
from conformance.reports import REPORTS
from conformance.runner import Run
from conformance.suite import Suite
from conformance.suites import SUITES
from conformance.transcript import Transcript, TranscriptFormatError, load
from conformance.values import as_text

_EPILOG: Final = """\
examples:
  rewindow-conformance judge failures/cancel.jsonl
  rewindow-conformance judge --suite acp session-of-another-client.jsonl

A transcript shows what its scenario was for, and the requirements that any traffic shows.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.epilog = _EPILOG
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a transcript, in JSON lines")
    parser.add_argument("--suite", choices=sorted(SUITES), help="what to judge by (default: what the file says)")
    parser.add_argument("--verbose", action="store_true", help="list every requirement, passed ones too")
    for name in REPORTS:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write a report in {REPORTS[name].title}")


def run(arguments: argparse.Namespace) -> int:
    """Judges; returns the exit status."""
    transcripts = [read(path) for path in arguments.files]
    suite = suite_of(transcripts[0], arguments.suite)
    shown = {transcript.scenario for transcript in transcripts}
    chosen = {row.id: row for row in suite.requirements if row.scenario is None or row.scenario in shown}
    arguments.keep = None
    return report(Run(suite, suite.judge(transcripts, chosen), transcripts, "", 0.0, saved=True), arguments)


def read(path: Path) -> Transcript:
    """A transcript. Raises UsageError."""
    try:
        return load(path)
    except TranscriptFormatError as error:
        raise UsageError(f"{path} is no transcript: {error.why}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def suite_of(transcript: Transcript, named: str | None = None) -> Suite:
    """The suite that a transcript belongs to. Raises UsageError."""
    name = named or as_text(transcript.facts.get("suite"))
    if name not in SUITES:
        raise UsageError(
            f"the transcript does not say which suite it is for: choose one with --suite {'|'.join(SUITES)}"
        )
    return SUITES[name]()
