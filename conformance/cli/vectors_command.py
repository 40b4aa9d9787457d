"""`vectors`: asks an implementation of the View or of request cycles about events whose outcome is known."""

from __future__ import annotations

import argparse
from typing import Final

from conformance.cli.judging_runs import add_run_options, judge_program

_EPILOG: Final = """\
examples:
  rewindow-conformance vectors -- my-adapter
  rewindow-conformance vectors -k CYCLES -- my-adapter
  rewindow-conformance vectors -- rewindow vectors-adapter      Rewindow's own engine

An adapter is a program of a few lines around the implementation: it reads questions from standard input and writes
answers to standard output. `rewindow help conformance-formats` says how; `explain ID` shows where a vector and its
outcome are.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.usage = "rewindow-conformance vectors [OPTIONS] -- ADAPTER [ARGS ...]"
    parser.epilog = _EPILOG
    add_run_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judges; returns the exit status."""
    return judge_program("vectors", arguments)
