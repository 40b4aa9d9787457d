"""`trace`: stands between a real client and a real program, and judges what both sent by what any traffic shows."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from conformance.cli import UsageError
from conformance.cli.streams import Output
from conformance.peers.peer import PeerStartError
from conformance.reports import terminal
from conformance.reports.context import Context
from conformance.runner import Run
from conformance.suites import SUITES, suites_of
from conformance.tracing import Recorder, opened, trace
from conformance.transcript import Transcript

_PROTOCOLS: Final = sorted({name.partition("-")[0] for name in SUITES} - {"vectors"})
_RAW_HELP: Final = "keep the traffic, for `judge`, as it passes; it is raw, and holds the keys that were sent"
_EPILOG: Final = """\
examples:
  rewindow-conformance trace -- my-agent --acp          where an editor is told to start my-agent
  rewindow-conformance trace --report report.txt --transcript traffic.jsonl -- my-agent
  rewindow-conformance judge --suite acp --html report.html traffic.jsonl

Tell the client to start this command in place of the program. Every byte is passed on as it is, signals and the exit
status too; when the program ends, both sides are judged. Without --report the report goes to standard error. What the
traffic does not show is skipped: use `acp` to have everything tried.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.usage = "rewindow-conformance trace [OPTIONS] -- PROGRAM [ARGS ...]"
    parser.epilog = _EPILOG
    parser.add_argument("--protocol", choices=_PROTOCOLS, default="acp", help="what is spoken (acp)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where the report goes (default: standard error)")
    parser.add_argument("--transcript", type=Path, metavar="FILE", help=_RAW_HELP)
    parser.add_argument("--verbose", action="store_true", help="list every requirement, passed ones too")


def run(arguments: argparse.Namespace) -> int:
    """Passes on until the program ends; returns the program's exit status."""
    if not arguments.program:
        raise UsageError("name the program after `--`: rewindow-conformance trace -- PROGRAM ARGS")
    suites = suites_of(arguments.protocol)
    facts = {"suite": arguments.protocol, "command": arguments.program}
    transcript = Transcript("", facts)
    try:
        with opened(arguments.transcript) as file:
            recorder = Recorder(transcript, file)
            code = trace(arguments.program, recorder)
    except PeerStartError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--transcript: {arguments.transcript} cannot be written: {error.strerror}") from None
    if recorder.problem:
        sys.stderr.write(f"rewindow-conformance: {arguments.transcript} is not whole: {recorder.problem}\n")
    context = Context(command=arguments.program)
    texts: list[str] = []
    for suite in suites:
        passive = {row.id: row for row in suite.requirements if row.scenario is None}
        outcome = Run(suite, suite.judge([transcript], passive), [transcript], "", 0.0, saved=True)
        texts.append(terminal.render(outcome, context, verbose=arguments.verbose))
    _show("\n".join(texts), arguments.report, arguments.output)
    return code


def _show(text: str, path: Path | None, output: Output) -> None:
    if path is None:
        sys.stderr.write(text)
        return
    try:
        output.save(path, text)
    except OSError as error:
        sys.stderr.write(f"rewindow-conformance: the report {path} cannot be written: {error.strerror}\n{text}")
