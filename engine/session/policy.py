"""The user's decisions for a session: mode, options, remembered permissions and what each covers."""

from __future__ import annotations

import os
import re
import shlex
from bisect import bisect_right
from typing import ClassVar, Final, Literal, get_args

import msgspec
from msgspec import Struct

from ..core.errors import InvalidRequestError
from ..core.text import cut_line, printable
from ..log.events import Event
from ..log.events.session import ConfigChanged, Mode, ModeChanged, OthersWrote, PermissionAnswered, TitleChanged
from ..log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionSubject,
    RebuildSubject,
    ServerCallSubject,
    StatementSubject,
    TreeSubject,
)

# What a remembered answer covers: all statements, the files below a path, commands that begin with some words, or the
# calls of one tool of an MCP server.
#
# A scope is a text on the log. Pure. Must not know who asks or what was answered. Used by `policy` and `questions`.
#
# A command is a text for a shell, so a prefix of it as text covers nothing: `git status` begins `git status; rm -rf
# .`. It is covered by its words (for a program that is named by its path, by its place), and only where the shell
# makes of them what is written: no operator, no expansion, no substitution, no comment, no assignment. Whatever is
# not certain to be such has no words: an answer covers exactly the same text in the same directory, and nothing that
# begins like it.

STATEMENTS: Final = "statements"
_FILES: Final = "files:"
_COMMANDS: Final = "commands:"
_SAME: Final = "command:"
"""A directory, a command of which each character counts, and whether it runs outside of the sandbox."""
_CALLS: Final = "calls:"
_PLAIN: Final = re.compile(r"""[\w ./:,+@%='"-]+""")
"""A command of these characters means what its words say; quotation marks need no expansion to be harmless."""
_ASSIGNMENT: Final = re.compile(r"\w+\+?=")
_PHRASE_CHARS: Final = 60
_MOST_CHARS: Final = 2_000
"""Of a command whose words are looked at, because shlex takes longer the longer they are, and nobody reads them."""


def scope_of(subject: PermissionSubject, roots: tuple[str, ...]) -> str:
    """What an answer that is remembered would cover; empty where nothing but this could be meant.

    For a file that is its directory, or the file alone where that is a whole root of the workspace.
    """
    match subject:
        case RebuildSubject():
            return ""
        case FileSubject() | TreeSubject() if subject.protected:
            return ""
        case StatementSubject(note=note):
            return "" if note else STATEMENTS
        case FileSubject(path=path):
            directory = os.path.dirname(path)
            return _FILES + (path if directory in map(os.path.realpath, roots) else os.path.join(directory, ""))
        case TreeSubject(paths=paths):
            scopes = {scope_of(FileSubject(path=path), roots) for path in paths}
            return scopes.pop() if len(scopes) == 1 else ""
        case CommandSubject():
            words = _placed_words(subject)
            return _COMMANDS + msgspec.json.encode(words).decode() if words else _same(subject)
        case ServerCallSubject(server=server, tool=tool):
            return _CALLS + msgspec.json.encode([server, tool]).decode()


def covers(scope: str, subject: PermissionSubject) -> bool:
    """Whether an answer with this scope is one to this, too."""
    match subject:
        case RebuildSubject():
            return False
        case FileSubject() | TreeSubject() if subject.protected:
            return False  # because what other programs run is decided about each time
        case StatementSubject(note=note):
            return scope == STATEMENTS and not note
        case FileSubject(path=path):
            prefix = scope.removeprefix(_FILES)
            return scope.startswith(_FILES) and (path == prefix or (prefix.endswith("/") and path.startswith(prefix)))
        case TreeSubject(paths=paths):
            return bool(paths) and all(covers(scope, FileSubject(path=path)) for path in paths)
        case ServerCallSubject():
            return scope == scope_of(subject, ())
        case CommandSubject():
            if scope.startswith(_SAME):
                return scope == _same(subject)
            if not scope.startswith(_COMMANDS) or (words := _placed_words(subject)) is None:
                return False
            prefix = msgspec.json.decode(scope.removeprefix(_COMMANDS), type=list[str])
            return words[: len(prefix)] == prefix


def phrase(scope: str, cwd: str) -> str:
    """The scope in a few words, as the object of "allow": paths below `cwd` are relative to it."""
    if scope == STATEMENTS:
        return "all statements of this session"
    if scope.startswith(_FILES):
        path = scope.removeprefix(_FILES)
        inside = path.startswith(f"{os.path.realpath(cwd)}/")
        shown = path.removeprefix(f"{os.path.realpath(cwd)}/") if inside else path
        return f"changes of {cut_line(shown, _PHRASE_CHARS)}"
    if scope.startswith(_CALLS):
        server, tool = msgspec.json.decode(scope.removeprefix(_CALLS), type=tuple[str, str])
        return f"calls of {cut_line(printable(tool), _PHRASE_CHARS)} of the MCP server {printable(server)}"
    if scope.startswith(_SAME):
        _, command, _ = msgspec.json.decode(scope.removeprefix(_SAME), type=tuple[str, str, bool])
        return f"exactly this command: {cut_line(printable(command), _PHRASE_CHARS)}"
    if scope.startswith(_COMMANDS):
        words = msgspec.json.decode(scope.removeprefix(_COMMANDS), type=list[str])
        here = f"{os.path.realpath(cwd)}/"
        if words[0].startswith(here):
            words[0] = f"./{words[0].removeprefix(here)}"
        return f"commands that begin with {cut_line(shlex.join(words), _PHRASE_CHARS)}"
    return ""


def _same(subject: CommandSubject) -> str:
    """The scope of exactly this command; empty for one that is too long to be remembered."""
    if len(subject.command) > _MOST_CHARS or not subject.command.strip():
        return ""
    return _SAME + msgspec.json.encode([subject.cwd, subject.command, subject.outside]).decode()


def _placed_words(subject: CommandSubject) -> list[str] | None:
    """The words of the command, with the place of a program that is named from the directory where it runs.

    Because `./check` is another program in each directory.
    """
    words = words_of(subject.command)
    if words and "/" in words[0]:
        while words[0].startswith("./"):
            words[0] = words[0][2:].lstrip("/")
        words[0] = os.path.join(subject.cwd, words[0])
    return words


def words_of(command: str) -> list[str] | None:
    """The words of a command that is nothing but a program and its arguments; None for any other."""
    if len(command) > _MOST_CHARS or not _PLAIN.fullmatch(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return None if not words or not words[0] or _ASSIGNMENT.match(words[0]) else words


# policy:
# What the user has decided for a session: mode, options, remembered permissions, title. A fold over its log.
#
# Owns defaults and which values there are. Must not ask anybody. Read by the loop before it acts, and by adapters
# that show it, who may be behind the log and ask how it was at the event that they show.

MODES: Final[dict[Mode, tuple[str, str]]] = {
    "ask": ("Ask", "Asks before a model changes something or runs a command"),
    "auto": ("Auto", "Statements run without asking, and may change the session's directories"),
    "plan": ("Plan", "Statements run without asking, and every change to your files is refused"),
}
"""Name and description of each mode, the default first."""

OPTIONS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "while_running": (
        "While running",
        "What happens to a prompt that comes while a turn is running",
        {"queue": "It waits for its own turn", "steer": "It joins the turn that is running"},
    ),
    "ask_about": (
        "Ask about",
        "What the mode Ask asks about: each statement that a model wrote, with everything that it does, or each "
        "file that it writes and each command that it runs. Only a sandbox holds back what else its code does",
        {
            "by_sandbox": "Each act if there is a sandbox, else each statement",
            "statements": "Each statement, once",
            "acts": "Each act, sandbox or not",
        },
    ),
    "network": (
        "Network",
        "Whether statements in the sandbox, and what they start, may use TCP",
        {"off": "Off", "on": "On"},
    ),
}
"""Name, description and values of each further option, the default value first."""

_SHOWN_CHARS: Final = 60
"""Of a value that there is not."""


class OptionValues(Struct, frozen=True, kw_only=True):
    """The mode, and the value of each row of OPTIONS."""

    mode: Mode = next(iter(MODES))
    values: dict[str, str]


_DEFAULTS: Final = OptionValues(values={name: next(iter(values)) for name, (_, _, values) in OPTIONS.items()})


class Policy:
    """The decisions so far. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (ModeChanged, ConfigChanged, OthersWrote, PermissionAnswered, TitleChanged)
    )

    def __init__(self) -> None:
        self.title: str | None = None
        self._remembered: dict[str, bool] = {}
        self._changed_at: list[int] = [-1]
        self._history = [_DEFAULTS]

    def apply(self, event: Event) -> None:
        match event:
            case ModeChanged(mode=mode):
                self._change(event, OptionValues(mode=mode, values=self.options.values))
            case ConfigChanged(option=option, value=value):
                self._change(event, OptionValues(mode=self.mode, values={**self.options.values, option: value}))
            case PermissionAnswered(scope=scope, outcome=outcome, remembered=True):
                self._remembered.pop(scope, None)
                self._remembered[scope] = outcome == "allowed"
            case OthersWrote(by="import"):  # whose decisions these were, nobody knows
                self._remembered.clear()
                self._change(event, _DEFAULTS)
            case TitleChanged(title=title):
                self.title = title
            case _:
                pass

    def _change(self, event: Event, options: OptionValues) -> None:
        self._changed_at.append(event.seq)
        self._history.append(options)

    @property
    def options(self) -> OptionValues:
        """Mode and options in force."""
        return self._history[-1]

    def options_at(self, seq: int) -> OptionValues:
        """Mode and options as they were when the event at `seq` had been taken."""
        return self._history[bisect_right(self._changed_at, seq) - 1]

    @property
    def mode(self) -> Mode:
        return self.options.mode

    def option(self, name: str) -> str:
        """The value of an option."""
        return self.options.values[name]

    def asks_about(self, *, held: bool) -> Literal["statements", "acts"] | None:
        """What the user is asked about before a model does it; None in modes that do not ask.

        With the default option that depends on whether statements are `held`: then they can do nothing but ask.
        """
        if self.mode != "ask":
            return None
        match self.option("ask_about"):
            case "acts":
                return "acts"
            case "by_sandbox" if held:
                return "acts"
            case _:
                return "statements"

    def remembered(self, subject: PermissionSubject) -> bool | None:
        """What the latest remembered answer that covers it says; None where there is none."""
        return next((allowed for scope, allowed in reversed(self._remembered.items()) if covers(scope, subject)), None)


def known_mode(mode: str) -> Mode:
    """`mode`, if there is such a one. Raises InvalidRequestError."""
    for known in get_args(Mode):
        if mode == known:
            return known
    raise InvalidRequestError(f"there is no mode {_shown(mode)}; the modes are {', '.join(MODES)}")


def check_option(name: str, value: str) -> None:
    """Raises InvalidRequestError for an option or a value that there is not."""
    if name not in OPTIONS:
        raise InvalidRequestError(f"there is no option {_shown(name)}; the options are mode, {', '.join(OPTIONS)}")
    values = OPTIONS[name][2]
    if value not in values:
        raise InvalidRequestError(f"{name} cannot be {_shown(value)}; it is one of {', '.join(values)}")


def _shown(text: str) -> str:
    return cut_line(repr(text), _SHOWN_CHARS)
