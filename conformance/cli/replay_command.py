"""`replay`: runs the scenario of a saved transcript, or what `fuzz` found, again, and judges it."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from conformance.cli import UsageError
from conformance.cli.fuzz_command import again
from conformance.cli.judge_command import read, suite_of
from conformance.cli.judging_runs import (
    add_prompt_options,
    add_run_options,
    add_tool_options,
    directory,
    report,
    starter,
    variables,
)
from conformance.fuzzing.play import SCENARIO
from conformance.options import Options
from conformance.peers.orphans import no_orphans
from conformance.runner import Run, run_scenario
from conformance.transcript import Transcript
from conformance.values import as_object

_EPILOG: Final = """\
examples:
  rewindow-conformance replay failures/cancel.jsonl -- my-agent
  rewindow-conformance replay failures/cancel.jsonl --slow-prompt "Write a long story." -- my-agent

Options that are not given are those of the transcript.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.usage = "rewindow-conformance replay FILE [OPTIONS] -- PROGRAM [ARGS ...]"
    parser.epilog = _EPILOG
    parser.add_argument("file", type=Path, metavar="FILE", help="a transcript, in JSON lines")
    add_run_options(parser, add_prompt_options, add_tool_options)


def run(arguments: argparse.Namespace) -> int:
    """Runs and judges; returns the exit status."""
    saved = read(arguments.file)
    if not arguments.program:
        raise UsageError("name the program after `--`")
    with no_orphans(), directory(arguments.cwd) as arguments.cwd:
        if saved.scenario == SCENARIO:
            return again(saved, arguments, _options(saved, arguments))
        return _run_again(saved, arguments)


def _run_again(saved: Transcript, arguments: argparse.Namespace) -> int:
    suite = suite_of(saved)
    scenario = next((one for one in suite.every_scenario() if one.name == saved.scenario), None)
    if scenario is None:
        raise UsageError(f"{arguments.file} is of no scenario of this suite, so that it can be judged and not repeated")
    start = starter(suite, arguments.program, variables(arguments.env), arguments.cwd)
    facts = {**saved.facts, "command": arguments.program}
    transcript = run_scenario(scenario, start, _options(saved, arguments), facts)
    chosen = {row.id: row for row in suite.requirements if row.scenario in (None, scenario.name)}
    obstacle = next((str(entry.value) for entry in transcript.entries if entry.label == "not-started"), "")
    judged = [] if obstacle else suite.judge([transcript], chosen)
    # What any traffic may show, and this scenario does not, is no failure: a whole run shows it elsewhere.
    results = [one for one in judged if one.requirement.scenario or one.verdict.outcome != "not-tested"]
    return report(Run(suite, results, [transcript], obstacle, transcript.entries[-1].ms / 1000), arguments)


def _options(saved: Transcript, arguments: argparse.Namespace) -> Options:
    """What the command line says; where it says nothing, what the transcript was made with."""
    parser = argparse.ArgumentParser()
    add_run_options(parser, add_prompt_options, add_tool_options)
    before = as_object(saved.facts.get("options"))
    chosen: dict[str, Any] = {}
    for field in fields(Options):
        given = getattr(arguments, field.name, None)
        said = given is not None and given != parser.get_default(field.name)
        if said or field.name in before:
            chosen[field.name] = given if said else before[field.name]
    chosen["cwd"] = str(arguments.cwd.resolve())
    return Options(**chosen)
