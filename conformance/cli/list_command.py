"""`list`: the requirements of a suite, one on a line, or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from conformance.cli.judging_runs import having
from conformance.reports.rows import requirement_row
from conformance.requirement import LEVELS
from conformance.suites import SUITES

_EPILOG: Final = """\
examples:
  rewindow-conformance list
  rewindow-conformance list --level mandatory -k CANCEL
  rewindow-conformance list --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.epilog = _EPILOG
    parser.add_argument("--suite", choices=sorted(SUITES), help="one suite (default: all)")
    parser.add_argument("--level", choices=LEVELS, help="one level")
    parser.add_argument("-k", action="append", default=[], metavar="WORD", help="only ids or scenarios with this word")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status."""
    suites = [SUITES[name]() for name in ([arguments.suite] if arguments.suite else SUITES)]
    rows = [row for suite in suites for row in suite.requirements]
    chosen = having(rows, arguments.k) if arguments.k else rows
    found = [row for row in chosen if arguments.level in (None, row.level)]
    if arguments.json:
        sys.stdout.write(json.dumps([requirement_row(row) for row in found], ensure_ascii=False, indent=2) + "\n")
    else:
        width = max((len(row.id) for row in found), default=0)
        sys.stdout.writelines(f"{row.id:{width}}  {row.level:13}  {row.text}\n" for row in found)
    return 0
