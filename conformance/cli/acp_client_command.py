"""`acp-client`: judges a client that starts agents which speak the Agent Client Protocol."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from conformance.cli import UsageError
from conformance.cli.judging_runs import add_run_options, judge_program, report

_EPILOG: Final = """\
examples:
  rewindow-conformance acp-client -- acpx --agent {agent} --cwd {cwd} --approve-all exec "Hello."
  rewindow-conformance acp-client -- sh -c 'echo Hello. | my-client "$0"' {agent}
  rewindow-conformance acp-client --editor
  rewindow-conformance acp-client -k TERM -- my-client --agent {agent}

The client is started once for each scenario, in a process group of its own, and ended with everything it started. Its
command names the agent that it is to start: {agent} becomes an executable without arguments, which plays the agent of
the scenario. The client has to connect, open a session and send one prompt by itself. It may open the session in any
directory; {cwd} becomes an empty one. Files that it is asked for are in a directory within that of its session, which
is removed afterwards. Tell it to permit what the agent asks, where it can be told: what it refuses counts as not done.
It is interrupted (SIGINT), as by Ctrl-C in a terminal, where a turn is to be cancelled.

With --editor nothing is started. One path is printed: enter it in the editor as the command of an agent, open a chat,
and type `all`, or the id of a requirement. Ctrl-C here ends it, with a report of everything that was run.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.usage = "rewindow-conformance acp-client [OPTIONS] -- CLIENT [ARGS ...] {agent}"
    parser.epilog = _EPILOG
    parser.add_argument(
        "--editor", action="store_true", help="print an agent's path to enter in an editor, and serve it"
    )
    add_run_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judges; returns the exit status."""
    if not arguments.editor:
        return judge_program("acp-client", arguments)
    from conformance.cli import editor  # loads every requirement, which --help need not

    if arguments.program:
        raise UsageError("--editor starts no client: enter the path that it prints in the editor")
    transcripts = editor.serve(_show)
    return report(editor.outcome(transcripts), arguments)


def _show(path: str) -> None:
    sys.stdout.write(f"{path}\n")
    sys.stdout.flush()
    sys.stderr.write("Enter this path in the editor as the command of an agent; Ctrl-C ends it.\n")
