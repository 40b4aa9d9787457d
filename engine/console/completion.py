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

from ..sessions.commands import COMMANDS
from ..sessions.context_commands import TAIL
from ..terminal.printing import shown
from ..timeline.index import Cell
from ..toolbox import INJECTED, TOOLS
from .local_commands import LOCAL_COMMANDS

MOST: Final = 200
"""Entries of a directory that are offered."""
_NAME: Final = re.compile(r"(?<![\w.])[^\W\d]\w*\Z")
_COMMAND: Final = re.compile(r"\A/(\w*)\Z")
_ARGUMENT: Final = re.compile(r"\A/(\w+)\s+(\S*)\Z")
_SOURCE: Final = re.compile(r"\A/(\w+)\s+(.*)\Z", re.DOTALL)
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


def completions(before: str, facts: Facts, is_python: bool) -> list[Completion]:
    """What may follow, given the text before the cursor.

    Args:
        is_python: what is typed runs as it is, so that all of Python's own names belong to it.
    """
    if match := _COMMAND.match(before):
        return _commands(match[1])
    if (match := _SOURCE.match(before)) and _takes(match[1]) == "source":
        return completions(match[2], facts, is_python=True)
    if match := _ARGUMENT.match(before):
        return _arguments(match[1], match[2], facts)
    if not is_python and (match := _MENTIONED.search(before)):
        return _paths(match[1], facts.cwd)
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


def _arguments(command: str, start: str, facts: Facts) -> list[Completion]:
    if command in LOCAL_COMMANDS:
        values = LOCAL_COMMANDS[command].values
        return [Completion(value, len(start)) for value in values if value.startswith(start)]
    takes = _takes(command)
    if takes == "call":
        return [Completion(TAIL, len(start))] if TAIL.startswith(start) else []
    if takes != "statement":
        return []
    numbered = [(str(cell.statement.index), cell.statement.source) for cell in facts.cells]
    return [
        Completion(number, len(start), shown(source.strip().partition("\n")[0]))
        for number, source in reversed(numbered)
        if number.startswith(start)
    ]


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
