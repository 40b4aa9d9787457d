"""The commands in the order of the help, and how a command line ends: exit codes, and errors as one line.

A row contains all that the list of commands shows. Each command's module is imported only if the command line names
it, so that a help text loads none. Must not import the rest of the engine, because every start loads this module.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection
from enum import IntEnum
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar, cast

import typer
from typer.core import TyperCommand

from ..core.text import cut_line, visible


class ExitCode(IntEnum):
    """How a command ended. Codes above 128 are 128 and the number of the signal, as in shells."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_MODEL = 3
    STOPPED = 4
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: Final = {
    ExitCode.DONE: "success; with -p, the prompt was answered",
    ExitCode.FAILED: "an error, or your statement failed",
    ExitCode.USAGE: "wrong usage",
    ExitCode.NO_MODEL: "the prompt needs a model, but none is configured",
    ExitCode.STOPPED: "refused, or stopped by a limit",
    ExitCode.HANGUP: "the terminal was closed",
    ExitCode.INTERRUPTED: "cancelled (Ctrl-C)",
    ExitCode.TERMINATED: "terminated (SIGTERM)",
}


def exit_code_lines() -> str:
    """Return the table of exit codes as lines for a help text."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())


Choice = TypeVar("Choice", bound=str)
_SHOWN_CHARS: Final = 60
_NO_NAMES: Final = frozenset({"A", "An", "No", "Nothing", "Statement", "That", "The", "There", "This"})
"""First words of our sentences that begin with a capital only as first words."""
_NUMBER: Final = re.compile(r"-?[0-9]{1,30}")


def complaint(error: object) -> str:
    """Return the line that reports an error, without a newline.

    A single sentence has no full stop, and does not begin with a capital unless its first word is a name.
    """
    text = visible(str(error))
    sentence = text.removesuffix(".")
    if ". " in sentence or sentence.endswith("."):
        return f"rewindow: {text}"
    first, space, rest = sentence.partition(" ")
    return f"rewindow: {first.lower() if first in _NO_NAMES else first}{space}{rest}"


def chosen(option: str, given: str, choices: Collection[Choice]) -> Choice:
    """Return the choice that equals `given`.

    Raises:
        typer.BadParameter: none of the choices does; there are at least two.
    """
    for choice in choices:
        if choice == given:
            return choice
    *most, last = choices
    shown = cut_line(visible(given), _SHOWN_CHARS)
    raise typer.BadParameter(f"{option} must be {', '.join(most)} or {last}, not {shown!r}")


def number_from(least: int | None) -> Callable[[str | int], int]:
    """Return a parser of whole numbers for an argument or option: at least `least`, or any.

    The parser raises typer.BadParameter, which names the argument.
    """

    def parse(given: str | int) -> int:
        text = str(given)
        if _NUMBER.fullmatch(text) and (least is None or int(text) >= least):
            return int(text)
        shown = cut_line(visible(text), _SHOWN_CHARS)
        bound = "" if least is None else f", at least {least}"
        raise typer.BadParameter(f"must be a whole number{bound}, not {shown!r}")

    return parse


class PlainCommand(TyperCommand):
    """A command whose help shows arguments by their names alone, without types and brackets of typer's own.

    The types of typer's contexts and formatters are private to it.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As `click`: an argument that may be left out is in brackets."""
        names = (each.metavar if each.required else f"[{each.metavar}]" for each in self._arguments())
        return [
            str(self.options_metavar),
            *(f"{name}..." if each.nargs != 1 else name for each, name in zip(self._arguments(), names, strict=True)),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options."""
        if arguments := self._arguments():
            with formatter.section("Arguments"):
                formatter.write_dl([(each.metavar, each.help) for each in arguments])
        options = [each for each in self.get_params(ctx) if each.param_type_name == "option"]
        with formatter.section("Options"):
            formatter.write_dl(list(filter(None, (each.get_help_record(ctx) for each in options))))

    def _arguments(self) -> list[Any]:
        return [each for each in self.params if each.param_type_name == "argument"]


def abandon_output() -> None:
    """Discard unwritten output.

    Otherwise the interpreter would try to write it at exit, and report another error.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


_SHOW_EXAMPLES: Final = """\b
Examples:
  rewindow show ses_0193f2a1                   messages and statements, oldest first
  rewindow show ses_0193 --cycles              each request with its steps and outcome
  rewindow show ses_0193 --cycles --json | jq .cycles[0].rounds
  rewindow show ses_0193 --projection 3        the prompt and the cost of model call 3
  rewindow show ses_0193 --events | grep tool_result
  rewindow show ses_0193 --json | jq .files    everything, for programs: `rewindow help session-json`
"""
_PAGE_EXAMPLES: Final = """\b
Examples:
  rewindow page                                the list of your sessions, in a browser
  rewindow page ses_0193                       one session, live
  rewindow page ses_0193 --no-browser          only print the address

\b
The page shows branches, statements, files, model calls and what they took. It can rewind,
edit, replay, prompt and answer questions in a session that no other program has open.
Only this machine can reach it, and only with the address that is printed. For a page to
send to somebody: `rewindow show SESSION --html FILE`.
"""
_IMPORT_EXAMPLES: Final = """\b
Examples:
  rewindow import kept.jsonl                   a session that `rewindow export` wrote, unchanged
  rewindow import chat.json --cwd ~/project    messages of OpenAI or Anthropic, as JSON or JSON Lines
  cat events/*.json | rewindow import -        an OpenHands conversation

\b
Another program's conversation becomes an ordinary session, which an editor can load and continue.
Images and other parts that are not text become notes in the text; the command counts the
parts that it changed or left out.
"""
_RUN_EXAMPLES: Final = f"""\b
Examples:
  rewindow run                                 a new session in this directory
  rewindow run -c                              continue the latest one of this directory
  rewindow run ses_0193 --mode auto            continue this session; statements run without asking
  rewindow run ses_0193 --cwd ~/moved          continue it in another directory
  rewindow run -p 'ls(".")'                    run one prompt, print its answer
  cat task.md | rewindow run --mode auto       the same from a pipe
  rewindow run -p 'ls()' --output-format json  print the answer and all its steps as JSON

\b
Enter sends; Meta-Enter (Esc, then Enter) or a backslash at the end of the line begins a
new line. Tab completes names, /commands, and paths in quotes or after an @. Shift-Tab
changes the mode, Ctrl-C cancels the turn or clears the line, Ctrl-D leaves.
With -p or a pipe everything that needs permission is refused. The answer is on standard
output, everything else on standard error. More: `rewindow help scripts`.

\b
Exit codes:
{exit_code_lines()}
"""
_UNDO_EXAMPLES: Final = """\b
Examples:
  rewindow undo ses_0193                       undo the last statement that changed files
  rewindow undo ses_0193 3                     undo statement 3, if later ones left its files alone
  rewindow undo ses_0193 --dry-run             only print the planned changes
  rewindow redo ses_0193

\b
Variables and the conversation stay. Later changes by others are merged. If both changed the same lines,
the file is unchanged, and the report names it. A second undo goes back further.
"""
_CHANGES_EXAMPLES: Final = """\b
Examples:
  rewindow changes ses_0193
  rewindow changes ses_0193 --since 3
  rewindow changes ses_0193 --patch | git -C copy apply
  rewindow changes ses_0193 --left             changes that the last undo or rewind skipped
"""
_REWIND_EXAMPLES: Final = """\b
Examples:
  rewindow rewind ses_0193 --to 3              back to the end of statement 3, on a new branch
  rewindow rewind ses_0193 --to 0              back to the beginning
  rewindow rewind ses_0193 --to 3 --keep-files only the conversation and the variables
  rewindow rewind ses_0193 --to 3 --json | jq .left

\b
Files that statements have changed since get back their earlier content, whether a tool, a
command or the statement's own code changed them. Later text changes by others are merged. A file
stays unchanged, and the report names it, if both changed the same lines, or if the earlier
content was not saved (a secret, or more than 64 MiB). Files that `.gitignore` leaves out are not
restored. Statements after K stay on their branch: `/branch NAME` in the
session switches to it.
"""
_REPLAY_EXAMPLES: Final = """\b
Examples:
  rewindow replay ses_0193 --from 3            statements 3 to the newest, with the recorded answers
  rewindow replay ses_0193 --from 3 --to 5     only these three
  rewindow replay ses_0193 --from 3 --mode dry stop at the first effect
  rewindow replay ses_0193 --from 3 --edit new.py    new.py in place of 3, then the later ones
  rewindow replay ses_0193 --from 1 --json | jq .divergences
  rewindow replay --all --since 30d            copies of all sessions of a month, side by side

\b
Variables and files stay unchanged, except with `--mode live`, and with `--edit`, which makes a branch.
The exit code is 1 if the replay did not reach its end, for instance because a statement took too long;
with `--all`, also if a session differs. More: `rewindow help how-to/try-an-upgrade`.
"""
_DIFF_EXAMPLES: Final = """\b
Examples:
  rewindow diff ses_0193 main b1               compare two branches
  rewindow diff ses_0193 main                  compare one with the active branch
  rewindow diff ses_0193 main b1 --json | jq .names
"""


_AUTH_EXAMPLES: Final = """\b
Examples:
  rewindow auth                                asks for a provider and its key
  rewindow auth add anthropic                  asks for a key, and stores it in your keyring
  pass show openai | rewindow auth add openai  takes the key from a pipe
  rewindow auth add openai --file              stores it in a file that only you can read
  rewindow auth list                           which providers have a key, and where it comes from
  rewindow auth test openai                    asks the provider for its models, with the key
  rewindow auth remove openai

\b
A key in the environment (such as ANTHROPIC_API_KEY) is used before a stored key. Keys are never
shown. More: `rewindow help signing-in`.
"""


class Command(NamedTuple):
    """One row. `module` is relative to this package; `help` is the function's docstring; `examples` follow it.

    A `hidden` command is for programs, and appears in no list.
    """

    name: str
    module: str
    function: str
    help: str
    examples: str | None = None
    hidden: bool = False

    def load(self) -> Callable[..., None]:
        """Import the command's module, and return the function."""
        return cast("Callable[..., None]", getattr(import_module(self.module, __package__), self.function))


SUBCOMMANDS: Final = (
    Command("run", ".run", "run", "Work in a session in this terminal.", _RUN_EXAMPLES),
    Command(
        "sessions",
        ".sessions",
        "sessions",
        "List the sessions, most recently used first. Archived sessions are listed separately.",
    ),
    Command(
        "show",
        ".show",
        "show",
        "Show the timeline of a session's active branch, oldest first.",
        _SHOW_EXAMPLES,
    ),
    Command(
        "page",
        "session_page.command",
        "page",
        "Show sessions as a page in your browser.",
        _PAGE_EXAMPLES,
    ),
    Command(
        "rewind",
        ".going_back",
        "rewind",
        "Go back to the end of a statement, files included. The session continues on a new branch.",
        _REWIND_EXAMPLES,
    ),
    Command(
        "replay",
        ".going_back",
        "replay",
        "Run statements again and report the differences.",
        _REPLAY_EXAMPLES,
    ),
    Command("undo", ".changes", "undo", "Undo only the file changes of a statement.", _UNDO_EXAMPLES),
    Command("redo", ".changes", "redo", "Redo the file changes of the last undo."),
    Command("changes", ".changes", "changes", "List the files that a session has changed.", _CHANGES_EXAMPLES),
    Command("branches", ".sessions", "branches", "List the branches of a session, oldest first."),
    Command(
        "diff",
        ".going_back",
        "diff",
        "Compare two branches: statements, variables and files.",
        _DIFF_EXAMPLES,
    ),
    Command(
        "export",
        ".transfer.commands",
        "export_session",
        "Write a session as JSON lines, for `rewindow import`. The file has all its stored contents.",
    ),
    Command(
        "import",
        ".transfer.commands",
        "import_session",
        "Add an exported session or another program's conversation. An invalid file adds nothing.",
        _IMPORT_EXAMPLES,
    ),
    Command(
        "delete",
        ".sessions",
        "delete",
        "Delete sessions with all their contents. `rewindow gc` frees the disk space.",
    ),
    Command("gc", ".sessions", "gc", "Delete sessions that were not used for a while. Sessions in use are kept."),
    Command("auth", ".auth", "auth", "Store, list, test and remove keys of model providers.", _AUTH_EXAMPLES),
    Command("doctor", ".doctor", "doctor", "Check that sessions can be saved and statements can run."),
    Command("help", ".help", "help_page", "Show a page of the documentation, or list the pages."),
    Command(
        "vectors-adapter",
        ".vectors",
        "vectors_adapter",
        "Answer the requests of `rewindow-conformance vectors` about this engine's View and request cycles.",
        hidden=True,
    ),
)
