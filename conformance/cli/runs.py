"""Shared by the commands that run a program: their options, the run itself, reports, and saved transcripts."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from itertools import count
from pathlib import Path
from typing import Final

from conformance.cli import UsageError
from conformance.cli.requirements import matching_requirements
from conformance.cli.streams import Output, discard_output
from conformance.driver import Options
from conformance.judging import Requirement
from conformance.peers.client import AGENT, ClientPeer
from conformance.peers.peer import Peer
from conformance.peers.process import ProcessPeer, kill_orphans
from conformance.reports import terminal
from conformance.reports.files import REPORTS
from conformance.reports.terminal import Context
from conformance.runner import Plan, Run, run
from conformance.suite import Suite
from conformance.suites.registry import SUITES
from conformance.transcript import Transcript
from conformance.values import Object, is_object

_PROMPTS: Final = {
    "prompt": "Reply with one short sentence. Use no tools.",
    "slow_prompt": "Without any tool, count from 1 to 300 in words, one number on each line.",
    "tool_prompt": "Use your tools to write the line `ok` to the file conformance.txt in the working directory, "
    "then to run the command `true` in a shell.",
}


AddOptions = Callable[[argparse.ArgumentParser], None]
KEEP_HELP: Final = "save transcripts of failures here; they are raw and contain all sent keys"


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for agents."""
    prompts = parser.add_argument_group("instructions for the agent")
    prompts.add_argument("--prompt", default=_PROMPTS["prompt"], help="a prompt with a quick answer")
    prompts.add_argument(
        "--slow-prompt", default=_PROMPTS["slow_prompt"], help="a prompt whose turn takes several seconds"
    )
    prompts.add_argument(
        "--tool-prompt", default=_PROMPTS["tool_prompt"], help="a prompt that makes the agent use tools"
    )
    prompts.add_argument("--auth", metavar="METHOD", help="authenticate with this method first")
    prompts.add_argument(
        "--allow-always",
        action="store_true",
        help=('also answer permissions with "always", which an agent may remember'),
    )
    prompts.add_argument("--allow-logout", action="store_true", help="log out once, if the agent supports it")


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for servers."""
    tools = parser.add_argument_group("which tools to call")
    tools.add_argument("--tool", metavar="NAME", help="the tool to call (default: a tool marked read-only)")
    tools.add_argument(
        "--arguments", type=_parse_object, metavar="JSON", help="arguments of --tool (default: made from its schema)"
    )
    tools.add_argument(
        "--slow-tool", metavar="NAME", help=("a tool whose call takes seconds, to test cancellation and progress")
    )
    tools.add_argument(
        "--slow-arguments",
        type=_parse_object,
        metavar="JSON",
        help="arguments of --slow-tool (default: made from its schema)",
    )
    tools.add_argument("--allow-destructive", action="store_true", help="also call tools that are not marked read-only")


def add_run_options(parser: argparse.ArgumentParser, *more: AddOptions) -> None:
    """Add the options for running a program and for reports. `more` adds those of one kind of program."""
    for add in more:
        add(parser)
    surroundings = parser.add_argument_group("how to start the program")
    surroundings.add_argument(
        "--cwd", type=Path, metavar="DIR", help="the working directory (default: an empty directory)"
    )
    surroundings.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="set an environment variable for the program"
    )
    limits = parser.add_argument_group("limits, in seconds")
    limits.add_argument("--timeout", type=_parse_seconds, default=10.0, metavar="S", help="per response (10)")
    limits.add_argument("--scenario-timeout", type=_parse_seconds, default=30.0, metavar="S", help="per scenario (30)")
    limits.add_argument("--budget", type=_parse_seconds, default=300.0, metavar="S", help="for the whole run (300)")
    limits.add_argument("--jobs", type=_parse_count, default=4, metavar="N", help="scenarios that run in parallel (4)")
    output = parser.add_argument_group("selection and reports")
    output.add_argument(
        "-k", action="append", default=[], metavar="WORD", help="only ids or scenarios that contain this word"
    )
    output.add_argument("--keep", type=Path, metavar="DIR", help=KEEP_HELP)
    output.add_argument("--verbose", action="store_true", help="list every requirement, including passed requirements")
    for name in REPORTS:
        output.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write a report as {REPORTS[name].title}")


_DAY: Final = 86_400
_MOST_JOBS: Final = 64
"""More scenarios at once only slow each other down."""


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < _DAY:
        raise argparse.ArgumentTypeError("give a number of seconds above 0 and below a day")
    return seconds


def _parse_object(text: str) -> Object:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not is_object(value):
        raise argparse.ArgumentTypeError(f"give a JSON object, not {text!r}")
    return value


def _parse_count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MOST_JOBS:
        raise argparse.ArgumentTypeError(f"give a number from 1 to {_MOST_JOBS}")
    return number


def judge_program(name: str, arguments: argparse.Namespace) -> int:
    """Run a suite against the program on the command line and write the reports. Return the exit status."""
    return write_reports(run_suite(name, arguments), arguments)


def run_suite(name: str, arguments: argparse.Namespace) -> Run:
    """Run a suite against the program on the command line."""
    if not arguments.program:
        raise UsageError(f"name the program after `--`: rewindow-conformance {name} -- PROGRAM ARGS")
    suite = SUITES[name]()
    chosen = select_requirements(suite, arguments.k)
    with kill_orphans(), working_directory(arguments.cwd) as cwd:
        given = {one.name: getattr(arguments, one.name) for one in fields(Options) if hasattr(arguments, one.name)}
        options = replace(Options(**given), cwd=str(cwd))
        facts = {"suite": name, "command": arguments.program, "options": asdict(options)}
        plan = Plan(
            suite=suite,
            start=program_starter(suite, arguments.program, parse_variables(arguments.env), cwd),
            options=options,
            facts=facts,
            chosen=chosen,
            jobs=arguments.jobs,
            budget=arguments.budget,
        )
        status, names = StatusLine(), count(1)
        of = len(suite.every_scenario())
        outcome = run(plan, lambda done: status.show(f"{next(names)}/{of} scenarios, {done.scenario} finished"))
        status.clear()
    return outcome


def select_requirements(suite: Suite, words: Iterable[str]) -> Mapping[str, Requirement] | None:
    """Return the requirements that match the words, or None for all. Raises UsageError if none matches."""
    if not (wanted := list(words)):
        return None
    return {row.id: row for row in matching_requirements(suite.requirements, wanted)}


def parse_variables(pairs: Iterable[str]) -> dict[str, str]:
    """Parse `K=V` arguments. Raises UsageError."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--env takes NAME=VALUE, not {pair!r}")
        found[name] = value
    return found


def program_starter(suite: Suite, command: list[str], env: Mapping[str, str], cwd: Path) -> Callable[[], Peer]:
    """Return a function that starts the program. Raises UsageError if a client command does not name its agent."""
    if suite.subject == "server":
        return server_starter(command, env)
    if not any(AGENT in word for word in command):
        raise UsageError(f"mark the place of the agent in the client's command with {AGENT}: my-client --agent {AGENT}")
    words = [word.replace("{cwd}", str(cwd)) for word in command]
    return lambda: ClientPeer(words, Path.cwd(), env)


def server_starter(command: list[str], env: Mapping[str, str]) -> Callable[[], Peer]:
    """Return a function that starts a server or an agent."""
    return lambda: ProcessPeer(command, Path.cwd(), env)


@contextmanager
def working_directory(named: Path | None) -> Generator[Path]:
    """Yield the given directory, or an empty temporary one. Raises UsageError."""
    if named is None:
        with tempfile.TemporaryDirectory(prefix="rewindow-conformance-", ignore_cleanup_errors=True) as folder:
            yield Path(folder).resolve()
    elif named.is_dir():
        yield named.resolve()
    else:
        raise UsageError(f"--cwd: {named} is not a directory")


def write_reports(outcome: Run, arguments: argparse.Namespace) -> int:
    """Print and write the reports and save the transcripts of failures. Return the exit status."""
    context = Context(command=arguments.program, replays=_save_failures(outcome, arguments))
    code = outcome.code
    if not _print(terminal.render(outcome, context, verbose=arguments.verbose, color=_color())):
        code = code or 2
    for name, kind in REPORTS.items():
        path: Path | None = getattr(arguments, name)
        if path is not None and not _write_report(arguments.output, path, kind.render(outcome, context)):
            code = code or 2
    return code


def _print(text: str) -> bool:
    """Print a report; False on failure. A closed pipe is not a failure, because file reports still follow."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        discard_output()
        _print_error(f"the report cannot be printed: {error.strerror or error}")
        return False
    return True


def _save_failures(outcome: Run, arguments: argparse.Namespace) -> dict[str, str]:
    """Save the transcripts of failures of any level. Return the replay command of each scenario."""
    names = {result.verdict.scenario for result in outcome.results if result.is_shown}
    wanted = [transcript for transcript in outcome.transcripts if transcript.scenario in names]
    return {} if outcome.saved else save_transcripts(wanted, arguments)


def save_transcripts(transcripts: Sequence[Transcript], arguments: argparse.Namespace) -> dict[str, str]:
    """Save transcripts and return the replay command of each scenario. Errors are printed."""
    replays: dict[str, str] = {}
    if not transcripts:
        return replays
    try:
        folder = arguments.keep or Path(tempfile.mkdtemp(prefix="rewindow-conformance-failures-"))
        folder.mkdir(parents=True, exist_ok=True)
        for transcript in transcripts:
            path = folder / f"{transcript.scenario}.jsonl"
            transcript.save(path)
            command = ["rewindow-conformance", "replay", str(path), "--", *arguments.program]
            replays[transcript.scenario] = shlex.join(command)
    except OSError as error:
        _print_error(f"transcripts cannot be saved: {error}")
    return replays


def _write_report(output: Output, path: Path, text: str) -> bool:
    try:
        output.save(path, text)
    except OSError as error:
        _print_error(f"the report {path} cannot be written: {error.strerror or error}")
        return False
    return True


def _print_error(text: str) -> None:
    sys.stderr.write(f"rewindow-conformance: {text}\n")


def _color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


class StatusLine:
    """A progress line on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        self.show("")
