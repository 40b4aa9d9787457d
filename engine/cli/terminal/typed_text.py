"""What a typed text means: where Enter ends it, `@path` mentions, the terminal's own commands, and completions.

Pure, except that it lists directories. Must not know the terminal, nor how anything is shown. Called by `keyboard` and
`interaction`; `one_prompt` reads mentions with it.
"""

from __future__ import annotations

import builtins
import codeop
import keyword
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from ...context.tail.results import shown_text
from ...core.python_source import parsed
from ...core.text import as_printed, code_span, fenced, plural
from ...core.toolbox import INJECTED, TOOLS
from ...log.branches import BranchRow
from ...log.events.conversation import Attachment
from ...log.timeline import Cell
from ...session.commands.context import TAIL
from ...session.commands.table import COMMANDS, help_line
from ...session.journal import CommandRow
from ...session.policy import MODES, OPTIONS
from ...session.session import Session
from ..output import shown

# Where Enter ends the text. If the text runs as Python, Enter works as in a Python shell: a complete statement ends, an
# open bracket or string continues, and a block continues until an empty line. If a model reads the text, Enter always
# ends it. In both cases a backslash at the end of the line is removed, and the text continues.

_INDENT: Final = "    "
_LEADING: Final = re.compile(r"[ \t]*")
_COMMENT: Final = re.compile(r"#.*\Z")


def after_enter(text: str, is_python: bool) -> str | None:
    """Return the text with what Enter adds at its end; None if Enter ends it."""
    if text.endswith("\\") and not text.endswith("\\\\"):
        return text + "\n" if is_python else text[:-1] + "\n"
    if not is_python or text.startswith("/") or not text.strip():
        return None
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1].strip():
        return None if _is_complete(text) else text + "\n"
    if _is_complete(text) and not _ends_in_block(text):
        return None
    return text + "\n" + _indent_after(lines[-1])


def _is_complete(text: str) -> bool:
    """Whether the text is a complete statement. Invalid Python is complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the error is reported when it runs
        try:
            return codeop.compile_command(text + "\n", symbol="exec") is not None
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return True


def _ends_in_block(text: str) -> bool:
    """Whether the last statement has an indented body, which may continue."""
    tree = parsed(text)
    last = tree.body[-1] if tree is not None and tree.body else None
    return last is not None and bool(getattr(last, "body", None)) and last.end_lineno != last.lineno


def _indent_after(line: str) -> str:
    match = _LEADING.match(line)
    indent = match[0] if match else ""
    return indent + _INDENT if _COMMENT.sub("", line).rstrip().endswith(":") else indent


_MENTION: Final = re.compile(r"(?<!\S)@(\S+)")
_AFTER: Final = ".,;:!?)]}'\""
"""Punctuation that ends a sentence or bracket, and does not belong to the path before it."""


def with_mentions(text: str, cwd: str) -> Sequence[str | Attachment]:
    """Split the text at each `@path` that exists, and attach that file.

    Any other word that begins with `@` stays text.
    """
    blocks: list[str | Attachment] = []
    taken = 0
    for match in _MENTION.finditer(text):
        path = _existing(match[1], cwd)
        if path is None:
            continue
        before = text[taken : match.start()]
        blocks += [before] if before else []
        blocks.append(Attachment(uri=Path(cwd, os.path.expanduser(path)).absolute().as_uri(), name=path))
        taken = match.start(1) + len(path)
    rest = text[taken:]
    return [*blocks, rest] if rest or not blocks else blocks


def _existing(spelled: str, cwd: str) -> str | None:
    """Return the path if it exists.

    If it does not, try it without the punctuation at its end.
    """
    for path in (spelled, spelled.rstrip(_AFTER)):
        try:
            if path and os.path.exists(os.path.join(cwd, os.path.expanduser(path))):
                return path
        except ValueError:  # a NUL
            return None
    return None


# The terminal's own slash commands, for what an editor has menus for.


class LocalCommand(Struct, frozen=True):
    """One command. `run` returns the answer; None ends the program.

    `values` are the possible arguments.
    """

    name: str
    usage: str
    description: str
    run: Callable[[Session, str], str | None]
    values: tuple[str, ...] = ()


def _mode(session: Session, argument: str) -> str:
    if argument:
        session.set_mode(argument)
    name, meaning = MODES[session.options.mode]
    return f"{name}: {meaning}."


def _option(session: Session, argument: str) -> str:
    if argument:
        name, _, value = argument.partition(" ")
        session.set_option(name, value.strip())
    options = session.options
    lines = [
        f"- `{row.name}` is `{options.value(row)}`: {row.text}. It can be {_choices(row.values)}."
        for row in options.rows
        if not row.is_open
    ]
    return "\n".join([*lines, "", "`/option NAME VALUE` sets an option."])


def _choices(values: Mapping[str, str]) -> str:
    return " or ".join(f"`{value}` ({meaning[:1].lower()}{meaning[1:]})" for value, meaning in values.items())


def _open(session: Session, argument: str) -> str:
    cells = session.cells
    number = argument.strip() or (str(cells[-1].index) if cells else "")
    cell = next((cell for cell in cells if str(cell.index) == number), None)
    if cell is None or cell.finished is None:
        return f"Statement {code_span(number)} has no result." if number else "No statement has run yet."
    result = as_printed(shown_text(cell.finished))
    return f"Statement {number}:\n{fenced(result)}" if result else f"Statement {number} has no output."


def _exit(_session: Session, _argument: str) -> None:
    return None


LOCAL_COMMANDS: Final[dict[str, LocalCommand]] = {
    command.name: command
    for command in (
        LocalCommand("mode", f"[{' | '.join(MODES)}]", "Show the mode, or set it", _mode, tuple(MODES)),
        LocalCommand("option", "[NAME VALUE]", "Show the session's options, or set one", _option, tuple(OPTIONS)),
        LocalCommand("open", "[K]", "Show the whole result of statement K; Ctrl-O opens the last folded result", _open),
        LocalCommand("exit", "", "Leave; so do `quit` and Ctrl-D", _exit),
    )
}
"""By name, in the order of the list."""
LEAVING: Final = ("exit", "quit", "exit()", "quit()")
"""Lines that leave as `/exit` does, because other prompts accept them."""


def local_command_in(text: str) -> tuple[LocalCommand | None, str]:
    """Return the local command that a line names, and its argument."""
    if text.strip() in LEAVING:
        return LOCAL_COMMANDS["exit"], ""
    first, *rest = text.split(maxsplit=1) or [""]
    command = LOCAL_COMMANDS.get(first[1:]) if first.startswith("/") else None
    return command, rest[0].strip() if rest else ""


def local_help() -> str:
    """Return a line for each local command, as `/help` lists the session's."""
    return "\n".join(help_line(row.name, row.usage, row.description) for row in LOCAL_COMMANDS.values())


# What Tab offers: names, slash commands with their arguments, and paths. A path is completed inside quotes, and after
# an `@`, which attaches the file to a prompt.

MOST: Final = 200
"""The most entries of a directory that are offered."""
_NAME: Final = re.compile(r"(?<![\w.])[^\W\d]\w*\Z")
_COMMAND: Final = re.compile(r"\A/([\w.:-]*)\Z")
_ARGUMENT: Final = re.compile(r"\A/(\w+) +((?:\S+ +)*)(\S*)\Z")
_SOURCE: Final = re.compile(r"\A/(\w+)\s+(.*)\Z", re.DOTALL)
_EDITED: Final = re.compile(r"\A/(\w+)[^\n]*\n(.*)\Z", re.DOTALL)
_OPTION: Final = re.compile(r"--[a-z-]+")
_PLACE: Final = re.compile(r"\b[A-Z]+(?:\.[A-Z]+)?\b")
"""An argument in a command's usage; `N.M` is one."""
_QUOTED: Final = re.compile(r"""["']([^"'\n]*)\Z""")
_MENTIONED: Final = re.compile(r"(?:\A|\s)@(\S*)\Z")


class Completion(NamedTuple):
    """`text` replaces the last `replaced` characters; `about` describes it."""

    text: str
    replaced: int
    about: str = ""


class Facts(Protocol):
    """What completion knows about a session. A session implements it."""

    @property
    def cwd(self) -> str: ...
    @property
    def custom_commands(self) -> Sequence[CommandRow]: ...
    @property
    def names(self) -> Iterable[str]: ...
    @property
    def cells(self) -> Sequence[Cell]: ...
    @property
    def branches(self) -> Sequence[BranchRow]: ...


def completions(before: str, facts: Facts, is_python: bool) -> list[Completion]:
    """Return what may follow the text before the cursor.

    Args:
        is_python: whether the text runs as Python, so that Python's own names are offered.
    """
    if match := _COMMAND.match(before):
        return _commands(match[1], facts)
    if (match := _SOURCE.match(before)) and _takes(match[1]) == "source":
        return completions(match[2], facts, is_python=True)
    if (match := _EDITED.match(before)) and _takes(match[1]) == "edit":
        return completions(match[2], facts, is_python=True)
    if match := _ARGUMENT.match(before):
        return _arguments(match[1], match[2].split(), match[3], facts)
    if match := _MENTIONED.search(before):
        # In Python it may also be a decorator.
        names = _names(match[1], facts, is_python) if is_python and match[1].isidentifier() else []
        return [*names, *_paths(match[1], facts.cwd)]
    if is_python and (match := _QUOTED.search(before)):
        return _paths(match[1], facts.cwd)
    match = _NAME.search(before)
    return _names(match[0], facts, is_python) if match else []


def common_start(texts: Sequence[str]) -> str:
    """Return the longest text that all of them start with."""
    first, last = min(texts, default=""), max(texts, default="")  # all others sort between them
    length = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return first[:length]


def _commands(start: str, facts: Facts) -> list[Completion]:
    listed = (*COMMANDS.values(), *LOCAL_COMMANDS.values(), *facts.custom_commands)
    rows = [(row.name, shown(row.description)) for row in listed]
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
    places = max(len(_PLACE.findall(alternative)) for alternative in usage.split("|"))
    if len([each for each in given if each not in options]) >= places:
        return []
    return [Completion(text, len(start), about) for text, about in _offered(command, facts) if text.startswith(start)]


def _offered(command: str, facts: Facts) -> list[tuple[str, str]]:
    """Return the possible arguments of a command, each with a description."""
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
    # A name that is not Unicode cannot be typed.
    return [Completion(entry, len(name)) for entry in sorted(found)[:MOST] if entry.isprintable()]
