"""The command `rewindow-conformance`: its grammar, exit codes and interrupts, and the table of commands.

Imports a command's module only when that command is named, to keep `--help` fast.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple, NoReturn, cast

from conformance.cli.streams import Output, discard_output, standard_output

_INTERRUPTED: Final = 130
_USAGE: Final = 2
_CLOSED: Final = 128 + signal.SIGPIPE
"""The exit status that a shell reports for a process killed by this signal."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class CommandRow(NamedTuple):
    """A command's module in `conformance.cli`, and its line in `--help`."""

    module: str
    help: str


COMMANDS: Final = {
    "acp": CommandRow("programs", "judge an agent that speaks the Agent Client Protocol on stdio"),
    "acp-client": CommandRow(
        "programs", ("judge a client that starts an agent and speaks the Agent Client Protocol with it")
    ),
    "mcp": CommandRow("programs", "judge a server that speaks the Model Context Protocol on stdio"),
    "vectors": CommandRow("programs", "judge an implementation of the View or of request cycles by test vectors"),
    "trace": CommandRow("trace", "record the traffic between a client and a program, and judge both"),
    "fuzz": CommandRow("fuzz", "send random messages to a program, and keep the shortest sequence that makes it fail"),
    "judge": CommandRow("transcripts", "judge saved transcripts"),
    "replay": CommandRow("transcripts", "run a saved scenario again"),
    "list": CommandRow("requirements", "list the requirements"),
    "explain": CommandRow("requirements", "show a requirement, its source, and how it is judged"),
}
"""By name. Each module has its own COMMANDS with the functions."""

_EPILOG: Final = """\
examples:
  rewindow-conformance acp -- my-agent --acp        judge an agent and print a report
  rewindow-conformance acp-client -- my-client --agent {agent} "Hello."
  rewindow-conformance acp -k CANCEL -- my-agent    only requirements about cancelling
  rewindow-conformance acp --json report.json -- my-agent
  rewindow-conformance mcp -- my-server             judge an MCP server in both protocol versions
  rewindow-conformance explain ACP1-A-CANCEL-001    why this is required, and what violates it
  rewindow-conformance list --level mandatory

exit status: 0 conformant, 1 not conformant, 2 wrong usage, 3 not judged (the program did not answer initialize,
needs authentication, or speaks another version), 130 interrupted, 141 output pipe closed

Every requirement quotes the specification that it follows from.
"""


class UsageError(Exception):
    """Raised for an unusable command line. The text is for the user."""


class Command(NamedTuple):
    """The functions of a command: add options to a parser; run, and return the exit status."""

    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str], output: Output | None = None) -> int:
    """Run a command line and return the exit status. All output goes through `output`."""
    output = output or standard_output()
    with output.standard():
        return _main(arguments, output)


def _main(arguments: Sequence[str], output: Output) -> int:
    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        code = _run(arguments, output)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return _CLOSED
    except OSError as error:
        discard_output()
        named = f": {error.filename}" if error.filename else ""
        print(f"rewindow-conformance: {error.strerror or error}{named}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        print("rewindow-conformance: interrupted; all programs were stopped", file=sys.stderr)
        return _INTERRUPTED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def _run(arguments: Sequence[str], output: Output) -> int:
    own, program = split(arguments)
    parser = _parser(own[0] if own else "")
    try:
        parsed, unknown = parser.parse_known_args(own)
        if unknown:
            raise UsageError(_misplaced(parsed.command, unknown, program))
        parsed.program, parsed.output = program, output
        for number in _ENDING:
            signal.signal(number, _interrupt)
        return _command(parsed.command).run(parsed)
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else _USAGE
    except UsageError as error:
        print(f"rewindow-conformance: {error}", file=sys.stderr)
        return _USAGE


def _misplaced(command: str, words: Sequence[str], program: Sequence[str]) -> str:
    """Explain words that match no option. The usual cause is a missing `--` in front of the program."""
    if program or any(word.startswith("-") for word in words[:1]):
        return f"{command} has no option {' '.join(words)}; see `rewindow-conformance {command} --help`"
    return f"name the program after `--`: rewindow-conformance {command} -- {shlex.join(words)}"


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at the first `--` into ours and the program's command line."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    position = words.index("--")
    return words[:position], words[position + 1 :]


def _interrupt(_number: int, _frame: object) -> NoReturn:
    # Ignore further signals: a second one would interrupt the clean-up, which takes a few seconds at most.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


class _PrintVersion(argparse.Action):
    def __call__(self, *_: object) -> NoReturn:
        from importlib.metadata import version  # imported here because it costs as much as all of `--help`

        print(f"rewindow-conformance {version('rewindow')}")
        raise SystemExit(0)


def _parser(named: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rewindow-conformance",
        description="Tests programs that speak agent protocols by the messages they exchange.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (_, text) in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == named:
            _command(name).configure(sub)
    return parser


def _command(name: str) -> Command:
    commands = import_module(f"conformance.cli.{COMMANDS[name].module}").COMMANDS
    return cast("dict[str, Command]", commands)[name]
