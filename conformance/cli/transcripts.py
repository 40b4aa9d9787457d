"""The commands on saved transcripts: `judge` judges them again, `replay` runs their scenario or fuzz steps again."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from conformance.cli import Command, UsageError
from conformance.cli.fuzz import replay_fuzz
from conformance.cli.runs import (
    add_prompt_options,
    add_run_options,
    add_tool_options,
    parse_variables,
    program_starter,
    working_directory,
    write_reports,
)
from conformance.driver import Options
from conformance.fuzzing.campaign import SCENARIO
from conformance.peers.process import kill_orphans
from conformance.reports.files import REPORTS
from conformance.runner import Run, run_scenario
from conformance.suite import Suite
from conformance.suites.registry import SUITES
from conformance.transcript import Transcript, TranscriptFormatError, load
from conformance.values import as_object, as_text

_JUDGE_EPILOG: Final = """\
examples:
  rewindow-conformance judge failures/cancel.jsonl
  rewindow-conformance judge --suite acp session-of-another-client.jsonl

A transcript is judged by the requirements of its scenario, and by the requirements for all traffic.
"""


def configure_judge(parser: argparse.ArgumentParser) -> None:
    """Add the options of `judge`."""
    parser.epilog = _JUDGE_EPILOG
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a transcript (JSON lines)")
    parser.add_argument(
        "--suite", choices=sorted(SUITES), help="the suite to judge by (default: the suite named in the file)"
    )
    parser.add_argument("--verbose", action="store_true", help="list every requirement, including passed requirements")
    for name in REPORTS:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write a report as {REPORTS[name].title}")


def run_judge(arguments: argparse.Namespace) -> int:
    """Judge the files. Return the exit status."""
    transcripts = [read_transcript(path) for path in arguments.files]
    suite = suite_of(transcripts[0], arguments.suite)
    shown = {transcript.scenario for transcript in transcripts}
    chosen = {row.id: row for row in suite.requirements if row.scenario is None or row.scenario in shown}
    arguments.keep = None
    return write_reports(Run(suite, suite.judge(transcripts, chosen), transcripts, "", 0.0, saved=True), arguments)


def read_transcript(path: Path) -> Transcript:
    """Load a transcript. Raises UsageError."""
    try:
        return load(path)
    except TranscriptFormatError as error:
        raise UsageError(f"{path} is not a transcript: {error.why}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def suite_of(transcript: Transcript, named: str | None = None) -> Suite:
    """Return the suite that a transcript names. Raises UsageError."""
    name = named or as_text(transcript.facts.get("suite"))
    if name not in SUITES:
        raise UsageError(f"the transcript names no suite: choose one with --suite {'|'.join(SUITES)}")
    return SUITES[name]()


# --- replay -----------------------------------------------------------------------------------------------------------


_REPLAY_EPILOG: Final = """\
examples:
  rewindow-conformance replay failures/cancel.jsonl -- my-agent
  rewindow-conformance replay failures/cancel.jsonl --slow-prompt "Write a long story." -- my-agent

Options default to those of the transcript.
"""


def configure_replay(parser: argparse.ArgumentParser) -> None:
    """Add the options of `replay`."""
    parser.usage = "rewindow-conformance replay FILE [OPTIONS] -- PROGRAM [ARGS ...]"
    parser.epilog = _REPLAY_EPILOG
    parser.add_argument("file", type=Path, metavar="FILE", help="a transcript (JSON lines)")
    add_run_options(parser, add_prompt_options, add_tool_options)


def run_replay(arguments: argparse.Namespace) -> int:
    """Run and judge. Return the exit status."""
    saved = read_transcript(arguments.file)
    if not arguments.program:
        raise UsageError("name the program after `--`")
    with kill_orphans(), working_directory(arguments.cwd) as arguments.cwd:
        if saved.scenario == SCENARIO:
            return replay_fuzz(saved, arguments, _merge_options(saved, arguments))
        return _replay_scenario(saved, arguments)


def _replay_scenario(saved: Transcript, arguments: argparse.Namespace) -> int:
    suite = suite_of(saved)
    scenario = next((one for one in suite.every_scenario() if one.name == saved.scenario), None)
    if scenario is None:
        raise UsageError(f"{arguments.file} belongs to no scenario of this suite: use `judge` instead")
    start = program_starter(suite, arguments.program, parse_variables(arguments.env), arguments.cwd)
    facts = {**saved.facts, "command": arguments.program}
    transcript = run_scenario(scenario, start, _merge_options(saved, arguments), facts)
    chosen = {row.id: row for row in suite.requirements if row.scenario in (None, scenario.name)}
    obstacle = next((str(entry.value) for entry in transcript.entries if entry.label == "not-started"), "")
    judged = [] if obstacle else suite.judge([transcript], chosen)
    # A requirement without a scenario that this one does not exercise is no failure: a full run covers it elsewhere.
    results = [one for one in judged if one.requirement.scenario or one.verdict.outcome != "not-tested"]
    return write_reports(Run(suite, results, [transcript], obstacle, transcript.entries[-1].ms / 1000), arguments)


def _merge_options(saved: Transcript, arguments: argparse.Namespace) -> Options:
    """Return the options of the command line, and those of the transcript for the rest."""
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


COMMANDS: Final = {
    "judge": Command(configure_judge, run_judge),
    "replay": Command(configure_replay, run_replay),
}
