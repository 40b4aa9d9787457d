"""What a remembered answer covers: all statements, the files below a path, commands that begin with some
words, or the calls of one tool of an MCP server.

A scope is a text on the log. Pure. Must not know who asks or what was answered. Used by `policy` and `questions`.

A command is a text for a shell, so a prefix of it as text covers nothing: `git status` begins `git status; rm -rf .`.
It is covered by its words (for a program that is named by its path, by its place), and only where the shell makes of
them what is written: no operator, no expansion, no substitution, no comment, no assignment. Whatever is not certain to
be such has no words: an answer covers exactly the same text in the same directory, and nothing that begins like it.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Final

import msgspec

from ..core.text import cut_line, printable
from ..log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionSubject,
    RebuildSubject,
    ServerCallSubject,
    StatementSubject,
    TreeSubject,
)

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
