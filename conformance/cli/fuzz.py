"""`fuzz`: sends random messages of a protocol to a program, and keeps the shortest sequence that makes it fail."""

from __future__ import annotations

import argparse
import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from conformance.cli import Command, UsageError
from conformance.cli.runs import (
    KEEP_HELP,
    StatusLine,
    parse_variables,
    save_transcripts,
    server_starter,
    working_directory,
)
from conformance.driver import Options
from conformance.fuzzing.campaign import Campaign, FuzzRun, Outcome, play, read_steps
from conformance.fuzzing.targets import TARGETS, Step
from conformance.judging import no_opening_reason
from conformance.peers.peer import PeerStartError
from conformance.peers.process import kill_orphans
from conformance.reports.terminal import escape_unprintable, last_log_lines
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from conformance.values import truncate

_NOT_JUDGED: Final = 3
_SHOWN: Final = 400
_FUZZ_EPILOG: Final = """\
examples:
  rewindow-conformance fuzz acp -- my-agent
  rewindow-conformance fuzz mcp --seconds 600 --seed 7 -- my-server
  rewindow-conformance replay fuzz.jsonl -- my-agent          repeat a finding

Sends valid and nearly valid messages: boundary values, missing, unknown and mistyped fields, deep nesting, bursts, and
cancels. The program must stay alive, answer each request once, and write only messages. A failure is shortened as far
as possible and saved. Use a model that costs nothing: prompts are mostly the word `hello`. Commands and addresses in
the messages do not exist.
"""


def configure_fuzz(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fuzz`."""
    parser.usage = "rewindow-conformance fuzz PROTOCOL [OPTIONS] -- PROGRAM [ARGS ...]"
    parser.epilog = _FUZZ_EPILOG
    parser.add_argument("protocol", choices=sorted(TARGETS), metavar="PROTOCOL", help=" or ".join(sorted(TARGETS)))
    parser.add_argument(
        "--seed", type=int, metavar="N", help="send the same messages each time (default: new messages)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long to run, in seconds (60)")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="S", help="seconds to wait for a response (10)")
    parser.add_argument("--cwd", type=Path, metavar="DIR", help="the working directory (default: an empty directory)")
    parser.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="set an environment variable for the program"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help=KEEP_HELP)


def run_fuzz(arguments: argparse.Namespace) -> int:
    """Fuzz. Return 0 if nothing was found, 1 for a finding, 3 if the program does not start or never writes."""
    if not arguments.program:
        raise UsageError("name the program after `--`: rewindow-conformance fuzz acp -- PROGRAM ARGS")
    if arguments.seconds <= 0 or arguments.timeout <= 0:
        raise UsageError("--seconds and --timeout must be above 0")
    seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    status = StatusLine()
    with kill_orphans(), working_directory(arguments.cwd) as cwd:
        campaign = Campaign(
            TARGETS[arguments.protocol](),
            server_starter(arguments.program, parse_variables(arguments.env)),
            Options(cwd=str(cwd), timeout=arguments.timeout, scenario_timeout=60 * arguments.timeout),
            seed,
            arguments.seconds,
        )
        try:
            outcome = campaign.run(
                lambda sent, runs: status.show(f"{sent:,} messages in {runs} runs, of {arguments.seconds:g} s")
            )
        except PeerStartError as error:
            sys.stdout.write(f"Not judged: {error}.\n")
            return _NOT_JUDGED
        finally:
            status.clear()
    return _report(outcome, campaign, arguments)


def _report(outcome: Outcome, campaign: Campaign, arguments: argparse.Namespace) -> int:
    sent = f"{outcome.messages:,} messages in {outcome.starts} runs, {outcome.seconds:.0f} s, seed {campaign.seed}"
    if outcome.found is None:
        sys.stdout.write(f"Nothing found: {sent}.\n")
        return 0
    if outcome.is_mute:
        _print_mute(outcome.found)
        return _NOT_JUDGED
    facts = outcome.found.transcript.facts
    facts |= {"suite": arguments.protocol, "command": arguments.program, "options": asdict(campaign.options)}
    print_finding(outcome.found)
    sys.stdout.write(f"Found after {sent}.\n")
    for command in save_transcripts([outcome.found.transcript], arguments).values():
        sys.stdout.write(f"again: {command}\n")
    return 1


def replay_fuzz(saved: Transcript, arguments: argparse.Namespace, options: Options) -> int:
    """Send the steps of a saved transcript again. Return the exit status."""
    try:
        steps = read_steps(saved.facts.get("fuzz"))
        target = TARGETS[str(saved.facts.get("suite"))]()[0]
    except (KeyError, TypeError):
        raise UsageError(f"{arguments.file} does not record the sent messages") from None
    try:
        played = play(steps, server_starter(arguments.program, parse_variables(arguments.env)), target, options)
    except PeerStartError as error:
        sys.stdout.write(f"Not judged: {error}.\n")
        return _NOT_JUDGED
    if played.finding is None:
        sys.stdout.write("The program no longer fails.\n")
        return 0
    print_finding(played)
    return 1


def print_finding(played: FuzzRun) -> None:
    """Print the steps and the failure."""
    assert played.finding is not None
    sys.stdout.write(f"FAIL {played.finding.kind}\n    {played.finding.text}\n  sent:\n")
    sys.stdout.writelines(f"    {_step_line(step)}\n" for step in played.steps)


def _print_mute(played: FuzzRun) -> None:
    """Report that the program did not answer the very first request, with its last log lines."""
    traffic = Traffic(played.transcript)
    sys.stdout.write(f"Not judged: {no_opening_reason(traffic, 'program', played.steps[0].method)}.\n")
    sys.stdout.writelines(f"  it printed: {line}\n" for line in last_log_lines(played.transcript))


def _step_line(step: Step) -> str:
    text = (
        f"line {escape_unprintable(step.params)}"
        if step.kind == "line"
        else f"{step.kind} {step.method} {step.params!a}"
    )
    return truncate(text, _SHOWN)


COMMANDS: Final = {
    "fuzz": Command(configure_fuzz, run_fuzz),
}
