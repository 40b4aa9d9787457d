"""`rewindow run [SESSION]`: a session in this terminal, or one prompt from the command line or a pipe."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated, Final

import typer

from ..config.settings import load_settings
from ..cutting import cut_line
from ..terminal.opened import working_directory
from .complaints import chosen

LONGEST_PROMPT: Final = 50 << 20
"""Bytes that are read from a pipe, as many as an editor may send in one message."""


def run(
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="The session's id, or the start of it; default: a new session."),
    ] = None,
    goes_on: bool = typer.Option(False, "--continue", "-c", help="Continue the latest session of this directory."),
    prompt: str | None = typer.Option(
        None, "--prompt", "-p", metavar="TEXT", help="Run this one prompt, print what comes of it, and exit."
    ),
    cwd: str | None = typer.Option(
        None, "--cwd", metavar="DIR", help="Work in this directory; a given SESSION continues there."
    ),
    mode: str | None = typer.Option(None, "--mode", metavar="ask|auto|plan", help="Set the session's mode."),
    model: str | None = typer.Option(
        None, "--model", metavar="MODEL", help="`direct`, `provider:PROVIDER:MODEL`, or `scripted:FILE`."
    ),
) -> None:
    """Work in a session in this terminal."""
    if session is not None and goes_on:
        raise typer.BadParameter("--continue means the latest session; give that or a SESSION")
    if session is not None and not session.replace("_", "").isalnum():
        raise typer.BadParameter(
            f"{cut_line(session, 60)!r} is no id of a session; carry out a prompt with {_meant(session)}"
        )
    if prompt is None and sys.stdin.isatty() and not sys.stdout.isatty():
        raise typer.BadParameter("the output is no terminal; give the prompt with -p TEXT or on standard input")
    text = _piped() if prompt is None and not sys.stdin.isatty() else prompt
    if text is not None:
        _check(text)
    settings = load_settings(os.environ, {"model": model})

    from ..console.program import Wanted  # only now, because a wrong usage waits for nothing
    from ..console.program import run as run_program
    from ..sessions.policy import MODES

    if mode is not None:
        chosen("--mode", mode, MODES)
    directory = _directory(cwd)
    wanted = Wanted(
        session=session, cwd=directory, goes_on=goes_on, moved_to=session and cwd and directory, mode=mode, prompt=text
    )
    code = run_program(wanted, settings)
    if code:
        raise typer.Exit(code)


def _meant(prompt: str) -> str:
    return cut_line(f"rewindow run -p {shlex.quote(prompt)}", 100)


def _directory(cwd: str | None) -> str:
    named = os.path.expanduser(cwd or "")
    return os.path.normpath(named if os.path.isabs(named) else os.path.join(working_directory(), named))


def _piped() -> str:
    data = sys.stdin.buffer.read(LONGEST_PROMPT + 1)
    if len(data) > LONGEST_PROMPT:
        raise typer.BadParameter(f"the prompt on standard input is longer than {LONGEST_PROMPT:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"the prompt on standard input is not UTF-8: byte {error.start:,}") from None


def _check(text: str) -> None:
    if not text.strip():
        raise typer.BadParameter("the prompt is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("the prompt is not UTF-8") from None
