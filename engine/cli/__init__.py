"""The command `rewindow`: reads a command line, runs its command, and reports errors.

Owns the exit code, and how an error is shown. Must not know what a command does: `commands` has a row for each.
Called by `rewindow_startup`. An agent that an editor starts never imports this package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final

import typer

from ..core.errors import EngineError
from ..core.installation import __version__
from ..core.text import legible_line
from .commands import SUBCOMMANDS, ExitCode, PlainCommand, abandon_output, complaint, exit_code_lines

EXAMPLES: Final = f"""\b
Examples:
  rewindow                              a session in this terminal; `rewindow run -c` continues the latest
  rewindow sessions                     the sessions, most recently used first
  rewindow show ses_0193f2a1            the timeline of one session (a unique start of its id is enough)
  rewindow show ses_0193f2a1 --cycles   its requests and their outcomes
  rewindow rewind ses_0193f2a1 --to 3   go back to the end of statement 3, files included
  rewindow export ses_0193f2a1 -o kept.jsonl   save the whole session, for `rewindow import`
  rewindow import chat.json             continue another program's conversation here
  rewindow gc --older-than 30d          delete sessions unused for 30 days, and free their space
  rewindow doctor                       check the installation, with advice

\b
Exit codes:
{exit_code_lines()}

\b
Editors start the agent themselves: configure the command `rewindow-acp`. `rewindow acp` is the same,
for programs that can start only one command of a package.
All settings, such as where sessions are kept: `rewindow help configuration`.
"""


def _app(arguments: Sequence[str]) -> typer.Typer:
    app = typer.Typer(
        help="Work in sessions of the Rewindow agent, inspect them, go back in them, and manage them.",
        epilog=EXAMPLES,
        no_args_is_help=True,
        subcommand_metavar="[COMMAND [ARGS]...]",
        context_settings={"help_option_names": ["--help", "-h"]},
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for command in SUBCOMMANDS:
        function = command.load() if command.name in arguments else _not_named
        make = app.command(
            command.name, cls=PlainCommand, help=command.help, epilog=command.examples, hidden=command.hidden
        )
        make(function)
    return app


def _not_named() -> None:
    raise AssertionError("the command that runs is always loaded")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rewindow {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
    store: str = typer.Option(
        "", "--store", metavar="sqlite|ADDRESS", help="The database of sessions, before the command (REWINDOW_STORE)."
    ),
) -> None:
    del version
    if store:
        from ..core.settings import load_settings  # late, so that a help text does not wait for it

        load_settings({}, {"store": store})  # checks it
        os.environ["REWINDOW_STORE"] = store


def main(arguments: Sequence[str]) -> int:
    """Run a command line, and return its exit code: one of `ExitCode`."""
    _prepare_streams(arguments)
    if not arguments and sys.stdin.isatty() and sys.stdout.isatty():
        arguments = ("run",)
    try:
        code = _app(arguments)(list(arguments), prog_name="rewindow", standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except EngineError as error:
        sys.stderr.write(f"{complaint(error)}\n")
        return ExitCode.FAILED
    except (BrokenPipeError, SystemExit):  # typer raises SystemExit for a broken pipe, and for nothing else
        abandon_output()  # the reader has closed the pipe, as a pager does
        return ExitCode.DONE
    except OSError as error:
        sys.stderr.write(f"{complaint(error.strerror or error)}\n")
        abandon_output()
        return ExitCode.FAILED
    except Exception as error:
        if not hasattr(error, "exit_code"):  # typer's usage errors have an exit code and a method that prints them
            raise
        error.message = "\n".join(map(legible_line, error.message.split("\n")))  # pyright: ignore - the class is private to typer
        error.show()  # pyright: ignore - as above
        return int(error.exit_code)  # pyright: ignore - as above
    return int(code or 0)


def _prepare_streams(arguments: Sequence[str]) -> None:
    """Make output accept any text, and redact secrets in it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # tests may replace a stream
            stream.reconfigure(errors="backslashreplace")
    if any(command.name in arguments for command in SUBCOMMANDS):
        # Imported late, so that a help text does not wait for the engine.
        from ..log.redaction import without_secrets
        from .output import redactor

        hidden = redactor()
        sys.stdout, sys.stderr = without_secrets(sys.stdout, hidden), without_secrets(sys.stderr, hidden)
