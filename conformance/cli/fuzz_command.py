"""`fuzz`: sends a program random messages of its protocol, and keeps the shortest that make it fail."""

from __future__ import annotations

import argparse
import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from conformance.cli import UsageError
from conformance.cli.judging_runs import KEEP_HELP, StatusLine, directory, keep, server_starter, variables
from conformance.fuzzing.campaign import Campaign, Outcome
from conformance.fuzzing.play import Played, play, steps_of
from conformance.fuzzing.targets import TARGETS, Step
from conformance.judging import not_answered
from conformance.options import Options
from conformance.peers.orphans import no_orphans
from conformance.peers.peer import PeerStartError
from conformance.reports.terminal import printed, visible
from conformance.traffic import Traffic
from conformance.transcript import Transcript

_NOT_JUDGED: Final = 3
_SHOWN: Final = 400
_EPILOG: Final = """\
examples:
  rewindow-conformance fuzz acp -- my-agent
  rewindow-conformance fuzz mcp --seconds 600 --seed 7 -- my-server
  rewindow-conformance replay fuzz.jsonl -- my-agent          what was found, once more

Sends what the protocol's schema allows and what nearly does: values at the edges, fields that are missing, unknown or
of another type, deep nesting, several messages at once, cancels. The program has to stay alive, answer each request
once and write nothing but messages. What fails is made as short as it gets and kept. Use a model that costs nothing:
prompts are mostly the word `hello`. Commands and addresses in the messages lead nowhere.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.usage = "rewindow-conformance fuzz PROTOCOL [OPTIONS] -- PROGRAM [ARGS ...]"
    parser.epilog = _EPILOG
    parser.add_argument("protocol", choices=sorted(TARGETS), metavar="PROTOCOL", help=" or ".join(sorted(TARGETS)))
    parser.add_argument("--seed", type=int, metavar="N", help="the same messages each time (default: new ones)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="for how long (60)")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="S", help="seconds for a response (10)")
    parser.add_argument("--cwd", type=Path, metavar="DIR", help="the directory to work in (default: an empty one)")
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable for the program")
    parser.add_argument("--keep", type=Path, metavar="DIR", help=KEEP_HELP)


def run(arguments: argparse.Namespace) -> int:
    """Plays; returns the exit status: 0 nothing found, 1 something, 3 the program does not start or says nothing."""
    if not arguments.program:
        raise UsageError("name the program after `--`: rewindow-conformance fuzz acp -- PROGRAM ARGS")
    if arguments.seconds <= 0 or arguments.timeout <= 0:
        raise UsageError("give seconds above 0")
    seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    status = StatusLine()
    with no_orphans(), directory(arguments.cwd) as cwd:
        campaign = Campaign(
            TARGETS[arguments.protocol](),
            server_starter(arguments.program, variables(arguments.env)),
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
    return _reported(outcome, campaign, arguments)


def _reported(outcome: Outcome, campaign: Campaign, arguments: argparse.Namespace) -> int:
    sent = f"{outcome.messages:,} messages in {outcome.starts} runs, {outcome.seconds:.0f} s, seed {campaign.seed}"
    if outcome.found is None:
        sys.stdout.write(f"Nothing found: {sent}.\n")
        return 0
    if outcome.is_mute:
        _show_mute(outcome.found)
        return _NOT_JUDGED
    facts = outcome.found.transcript.facts
    facts |= {"suite": arguments.protocol, "command": arguments.program, "options": asdict(campaign.options)}
    show(outcome.found)
    sys.stdout.write(f"Found after {sent}.\n")
    for command in keep([outcome.found.transcript], arguments).values():
        sys.stdout.write(f"again: {command}\n")
    return 1


def again(saved: Transcript, arguments: argparse.Namespace, options: Options) -> int:
    """Plays what a transcript holds once more; returns the exit status."""
    try:
        steps = steps_of(saved.facts.get("fuzz"))
        target = TARGETS[str(saved.facts.get("suite"))]()[0]
    except (KeyError, TypeError):
        raise UsageError(f"{arguments.file} does not say what was sent") from None
    try:
        played = play(steps, server_starter(arguments.program, variables(arguments.env)), target, options)
    except PeerStartError as error:
        sys.stdout.write(f"Not judged: {error}.\n")
        return _NOT_JUDGED
    if played.finding is None:
        sys.stdout.write("Nothing is wrong with it any more.\n")
        return 0
    show(played)
    return 1


def show(played: Played) -> None:
    """What was sent, and what is wrong."""
    assert played.finding is not None
    sys.stdout.write(f"FAIL {played.finding.kind}\n    {played.finding.text}\n  sent:\n")
    sys.stdout.writelines(f"    {_line(step)}\n" for step in played.steps)


def _show_mute(played: Played) -> None:
    """That the program did not answer the first request of all, and what it printed."""
    traffic = Traffic(played.transcript)
    sys.stdout.write(f"Not judged: {not_answered(traffic, 'program', played.steps[0].method)}.\n")
    sys.stdout.writelines(f"  it printed: {line}\n" for line in printed(played.transcript))


def _line(step: Step) -> str:
    text = f"line {visible(step.params)}" if step.kind == "line" else f"{step.kind} {step.method} {step.params!a}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."
