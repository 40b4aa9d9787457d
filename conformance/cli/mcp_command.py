"""`mcp`: judges a server that speaks the Model Context Protocol on stdio."""

from __future__ import annotations

import argparse
from typing import Final

from conformance.cli.judging_runs import add_run_options, add_tool_options, judge_program

_EPILOG: Final = """\
examples:
  rewindow-conformance mcp -- my-server --its-arguments
  rewindow-conformance mcp --tool search --arguments '{"query": "x"}' -- my-server
  rewindow-conformance mcp --slow-tool build --slow-arguments '{"seconds": 5}' -k CANCEL -k PROG -- my-server
  rewindow-conformance mcp --cwd ~/project -- my-file-server ~/project

Both versions are judged, 2025-11-25 and 2026-07-28; what a server does not speak or advertise is skipped.

Which tools are called: the one that --tool names; else those whose annotations say readOnlyHint. Arguments are made
from the schema: defaults and examples first, else the smallest value; what is named like a path is --cwd. A tool that
does not say that it changes nothing is never called, unless --tool or --slow-tool names it, or --allow-destructive
allows all. Where no tool may be called, or none is known that takes seconds, what is required of calls is reported as
skipped or not tested.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.usage = "rewindow-conformance mcp [OPTIONS] -- SERVER [ARGS ...]"
    parser.epilog = _EPILOG
    add_run_options(parser, add_tool_options)


def run(arguments: argparse.Namespace) -> int:
    """Judges; returns the exit status."""
    return judge_program("mcp", arguments)
