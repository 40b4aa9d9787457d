"""The commands there are, in the order of the help: a command is a file and a row here.

A row holds all that the list of commands shows, so that a help text waits for no command's module. A module is imported
where the command line names its command. Must not know what a command does. Called by `cli` and its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple, cast

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
Another program's conversation becomes an ordinary session, which an editor can load and go on with.
What is no text becomes a note in the text; what was noted and what was left out is counted.
"""
_RUN_EXAMPLES: Final = """\b
Examples:
  rewindow run                                 a new session in this directory
  rewindow run -c                              on with the latest one of this directory
  rewindow run ses_0193 --mode auto            on with that one; statements run without asking
  rewindow run ses_0193 --cwd ~/moved          on with it in another directory
  rewindow run -p 'ls(".")'                    one prompt, its output as plain text
  cat task.md | rewindow run --mode auto       the same from a pipe

\b
Enter sends; Meta-Enter (Esc, then Enter) or a backslash at the end of the line begins a
new line. Tab completes names, /commands, and paths in quotes or after an @. Shift-Tab
changes the mode, Ctrl-C cancels what runs or clears the line, Ctrl-D leaves.
With -p or a pipe nobody can be asked: what would ask is refused. The exit code is 0 when
the turn ended well; 1 when it did not, something was refused or the statement that was
given failed; 2 for wrong usage; 130 when it was interrupted. More: docs/terminal.md.
"""
_REWIND_EXAMPLES: Final = """\b
Examples:
  rewindow rewind ses_0193 --to 3              back to where statement 3 had ended, on a new branch
  rewindow rewind ses_0193 --to 0              back to the beginning
  rewindow rewind ses_0193 --to 3 --keep-files the conversation and the names alone
  rewindow rewind ses_0193 --to 3 --json | jq .left

\b
Files that statements wrote since hold again what they held, whether a tool wrote them or
the statement's own code. One that somebody else has changed since, or of which the earlier
content was not kept (it held a secret, or more than 64 MiB), is left as it is and named.
What child processes and C code wrote is not covered. What came after K stays on its
branch: `/branch NAME` in the session goes over to it.
"""
_REPLAY_EXAMPLES: Final = """\b
Examples:
  rewindow replay ses_0193 --from 3            statements 3 to the newest, with the recorded answers
  rewindow replay ses_0193 --from 3 --to 5     these three
  rewindow replay ses_0193 --from 3 --mode dry as far as the first that asks for an effect
  rewindow replay ses_0193 --from 3 --edit new.py    new.py in the place of 3, then those behind it
  rewindow replay ses_0193 --from 1 --json | jq .divergences

\b
Nothing but the record is new afterwards, and names and files stay as they are, but for `--mode live`
and for `--edit`, which makes a branch. The exit code is 1 where it did not come to its end, for
instance because a statement took too long.
"""
_DIFF_EXAMPLES: Final = """\b
Examples:
  rewindow diff ses_0193 main b1               what two branches differ in
  rewindow diff ses_0193 main                  what one differs in from the active one
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
    Command("sessions", ".sessions", "sessions", "List the sessions, the most recently used first."),
    Command(
        "show",
        ".show",
        "show",
        "Show a session's timeline, oldest first: that of the branch that is active.",
        _SHOW_EXAMPLES,
    ),
    Command(
        "rewind",
        ".rewind",
        "rewind",
        "Go back to where a statement had ended: conversation, namespace and files, on a new branch.",
        _REWIND_EXAMPLES,
    ),
    Command(
        "replay",
        ".replay",
        "replay",
        "Run statements of a session again, and say what comes out differently.",
        _REPLAY_EXAMPLES,
    ),
    Command("branches", ".branches", "branches", "List the branches of a session, the oldest first."),
    Command(
        "diff",
        ".diff",
        "diff",
        "Compare two branches of a session: their statements, the names these bound, and the files.",
        _DIFF_EXAMPLES,
    ),
    Command(
        "export",
        "..exchange.commands.export_session",
        "export_session",
        "Write a session with everything it refers to as JSON lines, which `rewindow import` reads.",
    ),
    Command(
        "import",
        "..exchange.commands.import_session",
        "import_session",
        "Add an exported session or another program's conversation; nothing is added where anything is wrong with it.",
        _IMPORT_EXAMPLES,
    ),
    Command(
        "delete", ".delete", "delete", "Delete sessions with all they refer to; `rewindow gc` gives the space back."
    ),
    Command("gc", ".gc", "gc", "Delete the sessions that nobody has used for a while; those in use stay."),
    Command("doctor", ".doctor", "doctor", "Check that sessions can be kept and statements can run here."),
    Command(
        "vectors-adapter",
        "..exchange.vectors.adapter",
        "vectors_adapter",
        "Answer the questions of `rewindow-conformance vectors` about this engine's View and request cycles.",
        hidden=True,
    ),
)
