"""`explain`: a requirement with the sentence it quotes, the scenario that shows it, its judge, and a violation."""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from typing import Final

from conformance.cli import UsageError
from conformance.documents import DOCUMENTS, link, readable
from conformance.requirement import Requirement
from conformance.suite import Suite
from conformance.suites import SUITES

_EPILOG: Final = """\
examples:
  rewindow-conformance explain ACP1-A-CANCEL-001
"""
_MEANINGS: Final = {
    "mandatory": "a failure makes the program not conformant",
    "capability": "a failure makes a program that advertises the capability not conformant",
    "advisory": "it is reported and never decides",
    "informational": "it is recorded and never decides: the specification is silent, or contradicts itself",
}

_ALIKE: Final = 4
"""Requirements whose ids hold what was asked for are named up to so many."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.epilog = _EPILOG
    parser.add_argument("ids", nargs="+", metavar="ID", help="such as ACP1-A-CANCEL-001")


def run(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status."""
    suites = [load() for load in SUITES.values()]
    sys.stdout.write("\n".join(explained(*_find(suites, name)) for name in arguments.ids))
    return 0


def _find(suites: list[Suite], name: str) -> tuple[Suite, Requirement]:
    for suite in suites:
        for row in suite.requirements:
            if row.id.upper() == name.upper():
                return suite, row
    alike = [row.id for suite in suites for row in suite.requirements if name.upper() in row.id]
    advice = f"there is {' and '.join(alike)}" if 0 < len(alike) <= _ALIKE else "see `rewindow-conformance list`"
    raise UsageError(f"there is no requirement {name}; {advice}")


def explained(suite: Suite, row: Requirement) -> str:
    """All there is to say about a requirement, in plain text."""
    document = DOCUMENTS[row.source.document]
    scenario = next((one for one in suite.every_scenario() if one.name == row.scenario), None)
    lines = [
        f"{row.id} ({row.level}: {_MEANINGS[row.level]})",
        _wrapped(row.text),
        "",
        f"Source: {document.title}, {row.source.place}",
        _wrapped(readable(row.source)),
        f"  {link(row.source)}",
        f"  {document.version}",
        "",
        f"Applies to: {'programs that advertise ' + row.applies if row.applies else 'every program'}",
        f"Scenario:   {f'{scenario.name}: {scenario.text}' if scenario else 'none: every transcript is judged'}",
        f"Judge:      {_judge(row)}",
        f"Violation:  {row.violation}",
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="  ")


def _judge(row: Requirement) -> str:
    """Where the judge stands in the code, so that it can be read."""
    code = inspect.unwrap(row.judge).__code__
    place = code.co_filename.rpartition("conformance/")[2]
    return f"conformance/{place}, line {code.co_firstlineno}"
