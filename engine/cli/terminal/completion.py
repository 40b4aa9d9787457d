"""What a person may mean who presses Tab: names, slash commands with their arguments, paths. Pure but for directories.

A path is completed within quotes, and after an `@`, which attaches the file to a prompt. Must not know the terminal.
Called by the line editor.
"""

from __future__ import annotations

import builtins
import keyword
import os
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from ...core.text import plural
from ...core.toolbox import INJECTED, TOOLS
from ...log.timeline import Cell
from ...session.branch_rows import BranchRow
from ...session.commands.context import TAIL
from ...session.commands.table import COMMANDS
from ..output.printing import shown
from .local_commands import LOCAL_COMMANDS

MOST: Final = 200
"""Entries of a directory that are offered."""
_NAME: Final = re.compile(r"(?<![\w.])[^\W\d]\w*\Z")
_COMMAND: Final = re.compile(r"\A/(\w*)\Z")
_ARGUMENT: Final = re.compile(r"\A/(\w+) +((?:\S+ +)*)(\S*)\Z")
_SOURCE: Final = re.compile(r"\A/(\w+)\s+(.*)\Z", re.DOTALL)
_EDITED: Final = re.compile(r"\A/(\w+)[^\n]*\n(.*)\Z", re.DOTALL)
_OPTION: Final = re.compile(r"--[a-z-]+")
_PLACE: Final = re.compile(r"\b[A-Z]+\b")
"""Of a command's usage: what it may be given."""
_QUOTED: Final = re.compile(r"""["']([^"'\n]*)\Z""")
_MENTIONED: Final = re.compile(r"(?:\A|\s)@(\S*)\Z")


class Completion(NamedTuple):
    """`text` takes the place of the last `replaced` characters; `about` says what it is."""

    text: str
    replaced: int
    about: str = ""


class Facts(Protocol):
    """What completions are made of; a session is one."""

    @property
    def cwd(self) -> str: ...
    @property
    def names(self) -> Iterable[str]: ...
    @property
    def cells(self) -> Sequence[Cell]: ...
    @property
    def branches(self) -> Sequence[BranchRow]: ...


def completions(before: str, facts: Facts, is_python: bool) -> list[Completion]:
    """What may follow, given the text before the cursor.

    Args:
        is_python: what is typed runs as it is, so that all of Python's own names belong to it.
    """
    if match := _COMMAND.match(before):
        return _commands(match[1])
    if (match := _SOURCE.match(before)) and _takes(match[1]) == "source":
        return completions(match[2], facts, is_python=True)
    if (match := _EDITED.match(before)) and _takes(match[1]) == "edit":
        return completions(match[2], facts, is_python=True)
    if match := _ARGUMENT.match(before):
        return _arguments(match[1], match[2].split(), match[3], facts)
    if match := _MENTIONED.search(before):
        # Where Python is typed it may be a decorator, too.
        names = _names(match[1], facts, is_python) if is_python and match[1].isidentifier() else []
        return [*names, *_paths(match[1], facts.cwd)]
    if is_python and (match := _QUOTED.search(before)):
        return _paths(match[1], facts.cwd)
    match = _NAME.search(before)
    return _names(match[0], facts, is_python) if match else []


def common_start(texts: Sequence[str]) -> str:
    """The longest text that all of them start with."""
    first, last = min(texts, default=""), max(texts, default="")  # all others lie between them
    length = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return first[:length]


def _commands(start: str) -> list[Completion]:
    rows = [(row.name, row.description) for row in (*COMMANDS.values(), *LOCAL_COMMANDS.values())]
    return [Completion(name, len(start), description) for name, description in rows if name.startswith(start)]


def _takes(command: str) -> str:
    return COMMANDS[command].takes if command in COMMANDS else "nothing"


def _arguments(command: str, given: Sequence[str], start: str, facts: Facts) -> list[Completion]:
    if command in LOCAL_COMMANDS:
        values = LOCAL_COMMANDS[command].values if not given else ()
        return [Completion(value, len(start)) for value in values if value.startswith(start)]
    if command not in COMMANDS:
        return []
    usage = COMMANDS[command].usage
    options = _OPTION.findall(usage)
    if start.startswith("-"):
        return [Completion(each, len(start)) for each in options if each.startswith(start) and each not in given]
    if len([each for each in given if each not in options]) >= len(_PLACE.findall(usage)):
        return []
    return [Completion(text, len(start), about) for text, about in _offered(command, facts) if text.startswith(start)]


def _offered(command: str, facts: Facts) -> list[tuple[str, str]]:
    """What a command takes, each with what it is."""
    match _takes(command):
        case "call":
            return [(TAIL, "")]
        case "branch":
            return [
                (row.name, f"{row.last} {plural(row.last, 'statement')}{', active' * row.is_active}")
                for row in facts.branches
            ]
        case "statement" | "edit":
            cells = [cell.statement for cell in reversed(facts.cells)]
            return [(str(each.index), shown(each.source.strip().partition("\n")[0])) for each in cells]
        case _:
            return []


def _names(start: str, facts: Facts, is_python: bool) -> list[Completion]:
    about = dict.fromkeys(facts.names, "")
    for name in INJECTED:
        about.setdefault(name, TOOLS[name].doc.partition(".")[0] if name in TOOLS else "")
    if is_python:
        for name in (*keyword.kwlist, *dir(builtins)):
            about.setdefault(name, "")
    return [
        Completion(name, len(start), about[name])
        for name in sorted(about)
        if name.startswith(start) and (start.startswith("_") or not name.startswith("_"))
    ]


def _paths(start: str, cwd: str) -> list[Completion]:
    directory, _, name = start.rpartition("/")
    place = os.path.join(cwd, os.path.expanduser(f"{directory}/" if directory or start.startswith("/") else ""))
    try:
        with os.scandir(place) as entries:
            found = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in entries
                if entry.name.startswith(name) and (name or not entry.name.startswith("."))
            ]
    except (OSError, ValueError):
        return []
    # Of a name that is no Unicode there is nothing that could be typed.
    return [Completion(entry, len(name)) for entry in sorted(found)[:MOST] if entry.isprintable()]
