"""The command for people: `rewindow`. One file per command, one row each in COMMANDS.

Owns exit codes and how errors are shown. May be slow to import (typer, rich); nothing on the protocols' start-up path
comes here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from ..errors import EngineError
from . import doctor, sessions, show

EXAMPLES: Final = """\b
Examples:
  rewindow sessions                 the sessions there are, newest first
  rewindow show ses_0193f2a1        the timeline of one (any unique start of its id)
  rewindow show ses_0193f2a1 --events   its whole log as JSON lines
  rewindow doctor                   is everything in place, and if not, what to do

\b
Editors start the agent themselves: configure the command `rewindow-acp`.
Where sessions are kept, and everything else that can be set: docs/configuration.md.
"""

COMMANDS: Final = (sessions.sessions, show.show, doctor.doctor)


def _app() -> typer.Typer:
    app = typer.Typer(
        help="See and examine the sessions of the Rewindow agent.",
        epilog=EXAMPLES,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for command in COMMANDS:
        app.command()(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # slow, and only for --version

        typer.echo(f"rewindow {version('rewindow')}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_print_version, is_eager=True),
) -> None:
    del version


def main(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code: 0 done, 1 could not be done, 2 wrong usage, 130 interrupted."""
    try:
        code = _app()(list(arguments), prog_name="rewindow", standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        return 130
    except EngineError as error:
        sys.stderr.write(f"rewindow: {error}\n")
        return 1
    except BrokenPipeError:
        # Because the reader (a pager) has left; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not hasattr(error, "exit_code"):  # typer's own usage errors carry one and know how to show themselves
            raise
        error.show()  # pyright: ignore
        return int(error.exit_code)  # pyright: ignore
    return int(code or 0)
