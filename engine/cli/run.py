"""The command line of `rewindow run [SESSION]`: a session in this terminal, or one prompt from `-p` or a pipe.

Owns what the options mean together. The modules that run a session are imported only after the command line was
checked, so that wrong usage is reported at once.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..core.errors import EngineError
from ..core.settings import load_settings
from ..core.text import cut_line
from .commands import chosen
from .output import working_directory

if TYPE_CHECKING:
    from .terminal.one_prompt import OnePrompt

LONGEST_PROMPT: Final = 50 << 20
"""Bytes that are read from a pipe; an editor may send as many in one message."""
FORMATS: Final = ("text", "json", "stream-json")
"""The keys of `terminal.prompt_result.FORMATS`, which is imported only for a valid command line."""


def run(
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it; default: a new one."),
    ] = None,
    continues: bool = typer.Option(False, "--continue", "-c", help="Continue the latest session of this directory."),
    prompt: str | None = typer.Option(
        None, "--prompt", "-p", metavar="TEXT", help="Run this one prompt, print its answer, and exit."
    ),
    output_format: str = typer.Option(
        FORMATS[0], "--output-format", metavar="|".join(FORMATS), help="The output of -p: the answer, or JSON."
    ),
    verbose: bool = typer.Option(
        False, "--verbose", help="With -p: print the whole transcript on standard error, too."
    ),
    cwd: str | None = typer.Option(
        None, "--cwd", metavar="DIR", help="Work in this directory, even if SESSION used another one."
    ),
    mode: str | None = typer.Option(None, "--mode", metavar="ask|auto|plan", help="Set the session's mode."),
    model: str | None = typer.Option(
        None, "--model", metavar="MODEL", help="`direct`, `provider:PROVIDER:MODEL`, or `scripted:FILE`."
    ),
) -> None:
    """Work in a session in this terminal."""
    if session is not None and continues:
        raise typer.BadParameter("use either --continue (the latest session) or SESSION")
    if session is not None and not session.replace("_", "").isalnum():
        raise typer.BadParameter(
            f"{cut_line(session, 60)!r} is not a session id; run a prompt with {_as_prompt(session)}"
        )
    text = _one_prompt(prompt)
    chosen("--output-format", output_format, FORMATS)
    if text is None and (verbose or output_format != FORMATS[0]):
        raise typer.BadParameter("--output-format and --verbose need a prompt: give one with -p TEXT or a pipe")

    # Imported late: see the top.
    from ..session.policy import MODES
    from .terminal.one_prompt import OnePrompt
    from .terminal.prompt_result import FORMATS as MAKERS

    if mode is not None:
        chosen("--mode", mode, MODES)
    one = None if text is None else OnePrompt(text, MAKERS[output_format](verbose), is_verbose=verbose)
    try:
        code = _run_session(one, session, continues, cwd, mode, model)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except (EngineError, OSError) as error:
        if one is not None:
            one.fail(error)
        raise
    if code:
        raise typer.Exit(code)


def _run_session(
    one: OnePrompt | None, session: str | None, continues: bool, cwd: str | None, mode: str | None, model: str | None
) -> int:
    from .terminal.program import Options
    from .terminal.program import run as run_program

    directory = _directory(cwd)
    moved_to = directory if session and cwd else None
    options = Options(session=session, cwd=directory, continues=continues, moved_to=moved_to, mode=mode, prompt=one)
    return run_program(options, load_settings(os.environ, {"model": model}))


def _one_prompt(prompt: str | None) -> str | None:
    """Return the one prompt from the option or a pipe; None if a person types.

    Raises:
        typer.BadParameter: the prompt is empty, too long or not UTF-8, or there is no terminal to show a session on.
    """
    if prompt is None and sys.stdin.isatty():
        if not sys.stdout.isatty():
            raise typer.BadParameter("the output is not a terminal; give the prompt with -p TEXT or on standard input")
        return None
    text = _read_pipe() if prompt is None else prompt
    _check(text)
    return text


def _as_prompt(prompt: str) -> str:
    return cut_line(f"rewindow run -p {shlex.quote(prompt)}", 100)


def _directory(cwd: str | None) -> str:
    named = os.path.expanduser(cwd or "")
    return os.path.normpath(named if os.path.isabs(named) else os.path.join(working_directory(), named))


def _read_pipe() -> str:
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
