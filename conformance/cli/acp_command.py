"""`acp`: judges an agent that speaks the Agent Client Protocol on stdio."""

from __future__ import annotations

import argparse
from typing import Final

from conformance.cli.judging_runs import add_prompt_options, add_run_options, judge_program

_EPILOG: Final = """\
examples:
  rewindow-conformance acp -- my-agent --acp
  rewindow-conformance acp --env API_KEY=x --slow-prompt "Count to 500, a number on each line." -- my-agent
  rewindow-conformance acp --jobs 1 --timeout 30 --scenario-timeout 120 -- my-slow-agent
  rewindow-conformance acp -k LOAD -k RESUME -- my-agent

The agent is started once for each scenario, in a process group of its own, and ended with everything it started.
Sessions are opened in an empty directory that is removed afterwards, unless --cwd names one. Files and terminals that
the agent asks the client for are pretended; what the agent does by itself is done.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.usage = "rewindow-conformance acp [OPTIONS] -- AGENT [ARGS ...]"
    parser.epilog = _EPILOG
    add_run_options(parser, add_prompt_options)


def run(arguments: argparse.Namespace) -> int:
    """Judges; returns the exit status."""
    return judge_program("acp", arguments)
