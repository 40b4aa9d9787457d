"""The commands `list` and `explain`, and the selection of requirements by words."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from conformance.cli import Command, UsageError
from conformance.documents import DOCUMENTS, link, quote_text
from conformance.judging import LEVELS, Requirement
from conformance.reports.files import requirement_row
from conformance.suite import Suite
from conformance.suites.registry import SUITES

_LIST_EPILOG: Final = """\
examples:
  rewindow-conformance list
  rewindow-conformance list --level mandatory -k CANCEL
  rewindow-conformance list --json
"""


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Add the options of `list`."""
    parser.epilog = _LIST_EPILOG
    parser.add_argument("--suite", choices=sorted(SUITES), help="one suite (default: all)")
    parser.add_argument("--level", choices=LEVELS, help="one level")
    parser.add_argument(
        "-k", action="append", default=[], metavar="WORD", help="only ids or scenarios that contain this word"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run_list(arguments: argparse.Namespace) -> int:
    """Print the requirements. Return the exit status."""
    suites = [SUITES[name]() for name in ([arguments.suite] if arguments.suite else SUITES)]
    rows = [row for suite in suites for row in suite.requirements]
    chosen = matching_requirements(rows, arguments.k) if arguments.k else rows
    found = [row for row in chosen if arguments.level in (None, row.level)]
    if arguments.json:
        sys.stdout.write(json.dumps([requirement_row(row) for row in found], ensure_ascii=False, indent=2) + "\n")
    else:
        width = max((len(row.id) for row in found), default=0)
        sys.stdout.writelines(f"{row.id:{width}}  {row.level:13}  {row.text}\n" for row in found)
    return 0


# --- explain ----------------------------------------------------------------------------------------------------------


_EXPLAIN_EPILOG: Final = """\
examples:
  rewindow-conformance explain ACP1-A-CANCEL-001
"""
_MEANINGS: Final = {
    "mandatory": "a failure makes the program not conformant",
    "capability": "a failure makes the program not conformant, if it advertises the capability",
    "advisory": "reported, but never decides the verdict",
    "informational": "recorded, but never decides the verdict: the specification says nothing, or contradicts itself",
}

_ALIKE: Final = 4
"""The most similar ids that an error message lists."""


def configure_explain(parser: argparse.ArgumentParser) -> None:
    """Add the options of `explain`."""
    parser.epilog = _EXPLAIN_EPILOG
    parser.add_argument("ids", nargs="+", metavar="ID", help="such as ACP1-A-CANCEL-001")


def run_explain(arguments: argparse.Namespace) -> int:
    """Print explanations. Return the exit status."""
    suites = [load() for load in SUITES.values()]
    sys.stdout.write("\n".join(explanation(*_find_requirement(suites, name)) for name in arguments.ids))
    return 0


def matching_requirements(rows: Iterable[Requirement], words: Sequence[str]) -> list[Requirement]:
    """Return the rows whose id or scenario contains one of the words. Raises UsageError if none does."""
    wanted = [word.lower() for word in words]
    found = [row for row in rows if any(word in f"{row.id} {row.scenario or ''}".lower() for word in wanted)]
    if not found:
        raise UsageError(
            f"no requirement has {' or '.join(words)} in its id or scenario; see `rewindow-conformance list`"
        )
    return found


def _find_requirement(suites: list[Suite], name: str) -> tuple[Suite, Requirement]:
    for suite in suites:
        for row in suite.requirements:
            if row.id.upper() == name.upper():
                return suite, row
    alike = [row.id for suite in suites for row in suite.requirements if name.upper() in row.id]
    advice = f"did you mean {' or '.join(alike)}?" if 0 < len(alike) <= _ALIKE else "see `rewindow-conformance list`"
    raise UsageError(f"unknown requirement {name}; {advice}")


def explanation(suite: Suite, row: Requirement) -> str:
    """Describe a requirement in plain text."""
    document = DOCUMENTS[row.source.document]
    scenario = next((one for one in suite.every_scenario() if one.name == row.scenario), None)
    lines = [
        f"{row.id} ({row.level}: {_MEANINGS[row.level]})",
        _wrapped(row.text),
        "",
        f"Source: {document.title}, {row.source.place}",
        _wrapped(quote_text(row.source)),
        f"  {link(row.source)}",
        f"  {document.version}",
        "",
        f"Applies to: {'programs that advertise ' + row.applies if row.applies else 'every program'}",
        f"Scenario:   {f'{scenario.name}: {scenario.text}' if scenario else 'none: every transcript is judged'}",
        f"Judge:      {_judge_location(row)}",
        f"Violation:  {row.violation}",
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="  ")


def _judge_location(row: Requirement) -> str:
    """Return the file and line of the judge."""
    judge = row.judge
    while isinstance(judge, partial):
        judge = judge.func
    code = inspect.unwrap(judge).__code__
    place = code.co_filename.rpartition("conformance/")[2]
    return f"conformance/{place}, line {code.co_firstlineno}"


COMMANDS: Final = {
    "list": Command(configure_list, run_list),
    "explain": Command(configure_explain, run_explain),
}
