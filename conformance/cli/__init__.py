"""The command `rewindow-conformance`. One file for each command, a row each in COMMANDS.

Owns the command line's grammar, exit codes and interruption. A command's module is loaded when it is named, so that
`--help` costs nothing.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NoReturn, Protocol, cast

from conformance.cli.streams import Output, discard_output, standard_output

_INTERRUPTED: Final = 130
_USAGE: Final = 2
_CLOSED: Final = 128 + signal.SIGPIPE
"""As a shell says of programs that such a signal ends."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)

COMMANDS: Final = {
    "acp": "judge an agent that speaks the Agent Client Protocol on stdio",
    "acp-client": "judge a client that starts agents which speak the Agent Client Protocol",
    "mcp": "judge a server that speaks the Model Context Protocol on stdio",
    "vectors": "judge an implementation of the View or of request cycles by vectors",
    "trace": "stand between a client and a program, and judge what both send",
    "fuzz": "send a program random messages, and keep the shortest that make it fail",
    "judge": "judge saved transcripts",
    "replay": "run a saved scenario again",
    "list": "list the requirements",
    "explain": "say what a requirement is, where it comes from and how it is judged",
}
"""Each is the module `conformance.cli.COMMAND_command`, with `_` for `-`."""

_EPILOG: Final = """\
examples:
  rewindow-conformance acp -- my-agent --acp        judge an agent; the report is in this terminal
  rewindow-conformance acp-client -- my-client --agent {agent} "Hello."
  rewindow-conformance acp -k CANCEL -- my-agent    only what its id or scenario says of cancels
  rewindow-conformance acp --json report.json -- my-agent
  rewindow-conformance mcp -- my-server             judge an MCP server, in both versions of the protocol
  rewindow-conformance explain ACP1-A-CANCEL-001    why that is required, and what violates it
  rewindow-conformance list --level mandatory

exit status: 0 conformant, 1 not conformant, 2 wrong usage, 3 not judged (the program did not answer initialize,
needs authentication, or speaks another version), 130 interrupted, 141 the reader of the output has left

Everything a program sends is judged by what the specification says, which every requirement quotes.
"""


class UsageError(Exception):
    """Raised for a command line that cannot be carried out; its text is for the user."""


class Command(Protocol):
    """A command's module."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def main(arguments: Sequence[str], output: Output | None = None) -> int:
    """Run a command line and return the exit status. All that it writes goes through `output`."""
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
        print("rewindow-conformance: interrupted; every program was ended", file=sys.stderr)
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
    """Says what is wrong with words that no option takes: most often the `--` in front of the program was forgotten."""
    if program or any(word.startswith("-") for word in words[:1]):
        return f"{command} has no option {' '.join(words)}; see `rewindow-conformance {command} --help`"
    return f"name the program after `--`: rewindow-conformance {command} -- {shlex.join(words)}"


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the program's command line: what comes after the first `--`."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    position = words.index("--")
    return words[:position], words[position + 1 :]


def _interrupt(_number: int, _frame: object) -> NoReturn:
    # Once: a second one would cut off what ends the programs, which takes seconds at most.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


class _PrintVersion(argparse.Action):
    def __call__(self, *_: object) -> NoReturn:
        from importlib.metadata import version  # only here, because it costs as much as all of `--help`

        print(f"rewindow-conformance {version('rewindow')}")
        raise SystemExit(0)


def _parser(named: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rewindow-conformance",
        description="Tests programs that speak agent protocols by the messages that they exchange.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="show the program's version number and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
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
    return cast("Command", import_module(f"conformance.cli.{name.replace('-', '_')}_command"))
