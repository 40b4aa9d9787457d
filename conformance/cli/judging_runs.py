"""What commands that run a program share: their options, the run, its reports, and the files that failures leave."""

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
from conformance.cli.streams import Output, discard_output
from conformance.options import Options
from conformance.peers.client import AGENT, ClientPeer
from conformance.peers.orphans import no_orphans
from conformance.peers.peer import Peer
from conformance.peers.process import ProcessPeer
from conformance.reports import REPORTS, terminal
from conformance.reports.context import Context
from conformance.requirement import Requirement
from conformance.runner import Plan, Run, run
from conformance.suite import Suite
from conformance.suites import SUITES
from conformance.transcript import Transcript
from conformance.values import Object, is_object

_PROMPTS: Final = {
    "prompt": "Reply with one short sentence. Use no tools.",
    "slow_prompt": "Without any tool, count from 1 to 300 in words, one number on each line.",
    "tool_prompt": "Use your tools to write the line `ok` to the file conformance.txt in the working directory, "
    "then to run the command `true` in a shell.",
}


AddOptions = Callable[[argparse.ArgumentParser], None]
KEEP_HELP: Final = "where the transcripts of failures go; they are raw, and hold the keys that were sent"


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """What agents are told."""
    prompts = parser.add_argument_group("what the agent is told")
    prompts.add_argument("--prompt", default=_PROMPTS["prompt"], help="a prompt that is answered at once")
    prompts.add_argument("--slow-prompt", default=_PROMPTS["slow_prompt"], help="one whose turn takes seconds")
    prompts.add_argument("--tool-prompt", default=_PROMPTS["tool_prompt"], help="one that makes it use tools")
    prompts.add_argument("--auth", metavar="METHOD", help="authenticate by this method first")
    prompts.add_argument(
        "--allow-always", action="store_true", help="permit and refuse tools for ever too, which an agent may remember"
    )
    prompts.add_argument("--allow-logout", action="store_true", help="log out once, where the agent can")


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """What servers are called with."""
    tools = parser.add_argument_group("what the server is called with")
    tools.add_argument("--tool", metavar="NAME", help="the tool to call (default: one that says it changes nothing)")
    tools.add_argument("--arguments", type=_object, metavar="JSON", help="its arguments (default: from its schema)")
    tools.add_argument("--slow-tool", metavar="NAME", help="a tool whose call takes seconds: for cancels and progress")
    tools.add_argument(
        "--slow-arguments", type=_object, metavar="JSON", help="its arguments (default: from its schema)"
    )
    tools.add_argument(
        "--allow-destructive", action="store_true", help="call tools too that do not say that they change nothing"
    )


def add_run_options(parser: argparse.ArgumentParser, *more: AddOptions) -> None:
    """Options that say what to do with a program, and what to report; `more` adds those of its kind."""
    for add in more:
        add(parser)
    surroundings = parser.add_argument_group("what the program is given")
    surroundings.add_argument(
        "--cwd", type=Path, metavar="DIR", help="the directory to work in (default: an empty one)"
    )
    surroundings.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable for the program")
    limits = parser.add_argument_group("limits, in seconds")
    limits.add_argument("--timeout", type=_seconds, default=10.0, metavar="S", help="for a response (10)")
    limits.add_argument("--scenario-timeout", type=_seconds, default=30.0, metavar="S", help="for a scenario (30)")
    limits.add_argument("--budget", type=_seconds, default=300.0, metavar="S", help="for all of them (300)")
    limits.add_argument("--jobs", type=_count, default=4, metavar="N", help="scenarios at once (4)")
    output = parser.add_argument_group("what is judged and reported")
    output.add_argument("-k", action="append", default=[], metavar="WORD", help="only ids or scenarios with this word")
    output.add_argument("--keep", type=Path, metavar="DIR", help=KEEP_HELP)
    output.add_argument("--verbose", action="store_true", help="list every requirement, passed ones too")
    for name in REPORTS:
        output.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write a report in {REPORTS[name].title}")


_DAY: Final = 86_400
_MOST_JOBS: Final = 64
"""More only get in each other's way."""


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < _DAY:
        raise argparse.ArgumentTypeError("give seconds, more than 0 and less than a day")
    return seconds


def _object(text: str) -> Object:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not is_object(value):
        raise argparse.ArgumentTypeError(f"give a JSON object, not {text!r}")
    return value


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MOST_JOBS:
        raise argparse.ArgumentTypeError(f"give a number from 1 to {_MOST_JOBS}")
    return number


def judge_program(name: str, arguments: argparse.Namespace) -> int:
    """Runs a suite against the program of the command line and reports; returns the exit status."""
    return report(judged(name, arguments), arguments)


def judged(name: str, arguments: argparse.Namespace) -> Run:
    """Runs a suite against the program of the command line."""
    if not arguments.program:
        raise UsageError(f"name the program after `--`: rewindow-conformance {name} -- PROGRAM ARGS")
    suite = SUITES[name]()
    chosen = choose(suite, arguments.k)
    with no_orphans(), directory(arguments.cwd) as cwd:
        given = {one.name: getattr(arguments, one.name) for one in fields(Options) if hasattr(arguments, one.name)}
        options = replace(Options(**given), cwd=str(cwd))
        facts = {"suite": name, "command": arguments.program, "options": asdict(options)}
        plan = Plan(
            suite=suite,
            start=starter(suite, arguments.program, variables(arguments.env), cwd),
            options=options,
            facts=facts,
            chosen=chosen,
            jobs=arguments.jobs,
            budget=arguments.budget,
        )
        status, names = StatusLine(), count(1)
        of = len(suite.every_scenario())
        outcome = run(plan, lambda done: status.show(f"{next(names)}/{of} scenarios, {done.scenario} has ended"))
        status.clear()
    return outcome


def choose(suite: Suite, words: Iterable[str]) -> Mapping[str, Requirement] | None:
    """The requirements whose id or scenario holds one of these words; None for all. Raises UsageError for none."""
    if not (wanted := list(words)):
        return None
    return {row.id: row for row in having(suite.requirements, wanted)}


def having(rows: Iterable[Requirement], words: Sequence[str]) -> list[Requirement]:
    """Those whose id or scenario holds one of these words. Raises UsageError where none does."""
    wanted = [word.lower() for word in words]
    found = [row for row in rows if any(word in f"{row.id} {row.scenario or ''}".lower() for word in wanted)]
    if not found:
        raise UsageError(f"no requirement has {' or '.join(words)} in its id or scenario; see `list`")
    return found


def variables(pairs: Iterable[str]) -> dict[str, str]:
    """`K=V` arguments. Raises UsageError."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--env takes NAME=VALUE, not {pair!r}")
        found[name] = value
    return found


def starter(suite: Suite, command: list[str], env: Mapping[str, str], cwd: Path) -> Callable[[], Peer]:
    """What starts the program anew. Raises UsageError for a client's command in which no word names its agent."""
    if suite.subject == "server":
        return server_starter(command, env)
    if not any(AGENT in word for word in command):
        raise UsageError(f"say with {AGENT} where the client's command names its agent: my-client --agent {AGENT}")
    words = [word.replace("{cwd}", str(cwd)) for word in command]
    return lambda: ClientPeer(words, Path.cwd(), env)


def server_starter(command: list[str], env: Mapping[str, str]) -> Callable[[], Peer]:
    """What starts a program that serves clients anew."""
    return lambda: ProcessPeer(command, Path.cwd(), env)


@contextmanager
def directory(named: Path | None) -> Generator[Path]:
    """The directory that the user named, or an empty one for as long as it takes. Raises UsageError."""
    if named is None:
        with tempfile.TemporaryDirectory(prefix="rewindow-conformance-", ignore_cleanup_errors=True) as folder:
            yield Path(folder).resolve()
    elif named.is_dir():
        yield named.resolve()
    else:
        raise UsageError(f"--cwd: {named} is no directory")


def report(outcome: Run, arguments: argparse.Namespace) -> int:
    """Prints and writes the reports and keeps the transcripts of failures; returns the exit status."""
    context = Context(command=arguments.program, replays=_keep(outcome, arguments))
    code = outcome.code
    if not _print(terminal.render(outcome, context, verbose=arguments.verbose, color=_color())):
        code = code or 2
    for name, kind in REPORTS.items():
        path: Path | None = getattr(arguments, name)
        if path is not None and not _write(arguments.output, path, kind.render(outcome, context)):
            code = code or 2
    return code


def _print(text: str) -> bool:
    """Whether it could be printed. A reader who has seen enough and has gone is no failure: other reports follow."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        discard_output()
        _complain(f"the report cannot be printed: {error.strerror or error}")
        return False
    return True


def _keep(outcome: Run, arguments: argparse.Namespace) -> dict[str, str]:
    """Saves the transcripts that failures of any level are about; by scenario, the command that repeats each."""
    names = {result.verdict.scenario for result in outcome.results if result.is_shown}
    wanted = [transcript for transcript in outcome.transcripts if transcript.scenario in names]
    return {} if outcome.saved else keep(wanted, arguments)


def keep(transcripts: Sequence[Transcript], arguments: argparse.Namespace) -> dict[str, str]:
    """Saves transcripts; by scenario, the command that repeats each. What cannot be saved is said."""
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
        _complain(f"transcripts cannot be kept: {error}")
    return replays


def _write(output: Output, path: Path, text: str) -> bool:
    try:
        output.save(path, text)
    except OSError as error:
        _complain(f"the report {path} cannot be written: {error.strerror or error}")
        return False
    return True


def _complain(text: str) -> None:
    sys.stderr.write(f"rewindow-conformance: {text}\n")


def _color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


class StatusLine:
    """One line on a terminal's standard error that says how far it is; nothing where nobody looks."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """In place of what it said before."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        """At the end."""
        self.show("")
