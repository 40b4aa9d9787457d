"""`mcp`: judges a server that speaks the Model Context Protocol on stdio."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from conformance import official
from conformance.cli import UsageError
from conformance.cli.judging_runs import add_run_options, add_tool_options, judge_program, judged, report
from conformance.runner import Run
from conformance.suites import SUITES

_EPILOG: Final = """\
examples:
  rewindow-conformance mcp -- my-server --its-arguments
  rewindow-conformance mcp --tool search --arguments '{"query": "x"}' -- my-server
  rewindow-conformance mcp --slow-tool build --slow-arguments '{"seconds": 5}' -k CANCEL -k PROG -- my-server
  rewindow-conformance mcp --cwd ~/project -- my-file-server ~/project
  rewindow-conformance mcp --url http://127.0.0.1:8000/mcp

Both versions are judged, 2025-11-25 and 2026-07-28; what a server does not speak or advertise is skipped.

Which tools are called: the one that --tool names; else those whose annotations say readOnlyHint. Arguments are made
from the schema: defaults and examples first, else the smallest value; what is named like a path is --cwd. A tool that
does not say that it changes nothing is never called, unless --tool or --slow-tool names it, or --allow-destructive
allows all. Where no tool may be called, or none is known that takes seconds, what is required of calls is reported as
skipped or not tested.

Servers on HTTP are judged by the official suite, which speaks nothing else: --url runs both of its required sets.
Install it with `npm install @modelcontextprotocol/conformance@0.2.0-alpha.12`; it needs Node 22 or later. Most of its
scenarios call fixtures that only servers made for it have, and are reported without deciding. With a server after `--`
as well, both are judged, and the report holds both.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.usage = "rewindow-conformance mcp [OPTIONS] [--url URL] [-- SERVER [ARGS ...]]"
    parser.epilog = _EPILOG
    http = parser.add_argument_group("a server on HTTP")
    http.add_argument("--url", help="judge what listens there, by the official suite")
    http.add_argument("--official", type=Path, metavar="DIR", help="where npm installed it (default: here or above)")
    add_run_options(parser, add_tool_options)


def run(arguments: argparse.Namespace) -> int:
    """Judges; returns the exit status."""
    if arguments.url is None:
        return judge_program("mcp", arguments)
    try:
        command = official.find(arguments.official)
        ours = judged("mcp", arguments) if arguments.program else None
        theirs = _official(arguments.url, command, arguments.budget, arguments.k)
    except official.OfficialSuiteError as error:
        raise UsageError(str(error)) from None
    return report(theirs if ours is None else _merged(ours, theirs), arguments)


def _official(url: str, command: list[str], seconds: float, words: list[str]) -> Run:
    began = time.monotonic()
    suite = replace(SUITES["mcp"](), name="mcp-official", title=f"Model Context Protocol, official suite on {url}")
    obstacle = official.obstacle(url)
    results = [] if obstacle else official.judge(url, command, seconds)
    chosen = [one for one in results if not words or any(w.lower() in one.requirement.id.lower() for w in words)]
    return Run(suite, chosen, [], obstacle, time.monotonic() - began)


def _merged(ours: Run, theirs: Run) -> Run:
    """One report of both; not judged where either was not."""
    suite = replace(ours.suite, title=f"{ours.suite.title}, and the official suite")
    obstacle = ours.obstacle or theirs.obstacle
    results = [] if obstacle else [*ours.results, *theirs.results]
    return Run(suite, results, ours.transcripts, obstacle, ours.seconds + theirs.seconds)
