"""The commands there are, in the order of the help: a command is a file and a row here.

A row holds all that the list of commands shows, so that a help text waits for no command's module. A module is imported
where the command line names its command. Must not know what a command does. Called by `cli` and its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple, cast

from .complaints import exit_code_lines

_SHOW_EXAMPLES: Final = """\b
Examples:
  rewindow show ses_0193f2a1                   what was said and what ran, oldest first
  rewindow show ses_0193 --cycles              each request with its steps and how it ended
  rewindow show ses_0193 --cycles --json | jq .cycles[0].rounds
  rewindow show ses_0193 --projection 3        what model call 3 was sent, and what it cost
  rewindow show ses_0193 --events | grep tool_result
"""
_IMPORT_EXAMPLES: Final = """\b
Examples:
  rewindow import kept.jsonl                   what `rewindow export` wrote, exactly as it was
  rewindow import chat.json --cwd ~/project    messages of OpenAI or Anthropic, as JSON or JSON Lines
  cat events/*.json | rewindow import -        a conversation of OpenHands

\b
Another program's conversation becomes an ordinary session, which an editor can load and continue.
Images and other parts that are not text become notes in the text; the command counts what it changed so, and
what it left out.
"""
_RUN_EXAMPLES: Final = f"""\b
Examples:
  rewindow run                                 a new session in this directory
  rewindow run -c                              continue the latest one of this directory
  rewindow run ses_0193 --mode auto            continue that one; statements run without asking
  rewindow run ses_0193 --cwd ~/moved          continue it in another directory
  rewindow run -p 'ls(".")'                    run one prompt, print its answer
  cat task.md | rewindow run --mode auto       the same from a pipe
  rewindow run -p 'ls()' --output-format json  print the answer and all that led to it as JSON

\b
Enter sends; Meta-Enter (Esc, then Enter) or a backslash at the end of the line begins a
new line. Tab completes names, /commands, and paths in quotes or after an @. Shift-Tab
changes the mode, Ctrl-C cancels what runs or clears the line, Ctrl-D leaves.
With -p or a pipe nobody can be asked, so whatever would ask is refused. The answer is on
standard output, everything else on standard error. More: `rewindow help scripts`.

\b
Exit codes:
{exit_code_lines()}
"""
_REWIND_EXAMPLES: Final = """\b
Examples:
  rewindow rewind ses_0193 --to 3              back to the end of statement 3, on a new branch
  rewindow rewind ses_0193 --to 0              back to the beginning
  rewindow rewind ses_0193 --to 3 --keep-files only the conversation and the names
  rewindow rewind ses_0193 --to 3 --json | jq .left

\b
Files that statements have written since get back their earlier content, whether a tool or
the statement's own code wrote them. A file that somebody else has changed since, or whose
earlier content was not kept (it held a secret, or more than 64 MiB), is left as it is and
named. What child processes and C code wrote is not covered. What came after K stays on its
branch: `/branch NAME` in the session switches to it.
"""
_REPLAY_EXAMPLES: Final = """\b
Examples:
  rewindow replay ses_0193 --from 3            statements 3 to the newest, with the recorded answers
  rewindow replay ses_0193 --from 3 --to 5     only these three
  rewindow replay ses_0193 --from 3 --mode dry stop at the first that would act
  rewindow replay ses_0193 --from 3 --edit new.py    new.py in place of 3, then those after it
  rewindow replay ses_0193 --from 1 --json | jq .divergences

\b
Names and files stay as they are, except with `--mode live`, and with `--edit`, which makes a branch.
The exit code is 1 if the replay did not reach its end, for instance because a statement took too long.
"""
_DIFF_EXAMPLES: Final = """\b
Examples:
  rewindow diff ses_0193 main b1               compare two branches
  rewindow diff ses_0193 main                  compare one with the active one
  rewindow diff ses_0193 main b1 --json | jq .names
"""


class Command(NamedTuple):
    """One row. `module` is relative to this package; `help` is the function's docstring; `examples` stand below it.

    A `hidden` one is for programs, and in no list of commands.
    """

    name: str
    module: str
    function: str
    help: str
    examples: str | None = None
    hidden: bool = False

    def load(self) -> Callable[..., None]:
        """The function that performs the command."""
        return cast("Callable[..., None]", getattr(import_module(self.module, __package__), self.function))


COMMANDS: Final = (
    Command("run", ".run", "run", "Work in a session in this terminal.", _RUN_EXAMPLES),
    Command("sessions", ".sessions", "sessions", "List the sessions, most recently used first."),
    Command(
        "show",
        ".show",
        "show",
        "Show the timeline of a session, oldest first. It is that of the active branch.",
        _SHOW_EXAMPLES,
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
        "Run statements again and report what comes out differently.",
        _REPLAY_EXAMPLES,
    ),
    Command("branches", ".sessions", "branches", "List the branches of a session, oldest first."),
    Command(
        "diff",
        ".going_back",
        "diff",
        "Compare two branches: statements, names and files.",
        _DIFF_EXAMPLES,
    ),
    Command(
        "export",
        ".transfer.commands",
        "export_session",
        "Write a session as JSON lines, for `rewindow import`. Everything it refers to is included.",
    ),
    Command(
        "import",
        ".transfer.commands",
        "import_session",
        "Add an exported session or another program's conversation. If anything is wrong with it, nothing is added.",
        _IMPORT_EXAMPLES,
    ),
    Command(
        "delete",
        ".sessions",
        "delete",
        "Delete sessions with everything they refer to. `rewindow gc` gives the disk space back.",
    ),
    Command("gc", ".sessions", "gc", "Delete sessions that nobody has used for a while. Those in use stay."),
    Command("doctor", ".doctor", "doctor", "Check that sessions can be kept and statements can run."),
    Command("help", ".help", "help_page", "Show a page of the documentation, or list the pages."),
    Command(
        "vectors-adapter",
        ".transfer.vectors",
        "vectors_adapter",
        "Answer the questions of `rewindow-conformance vectors` about this engine's View and request cycles.",
        hidden=True,
    ),
)
