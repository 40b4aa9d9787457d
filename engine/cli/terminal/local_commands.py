"""The slash commands of the terminal itself, beside those of the session: what an editor has menus for.

One row each. Must not know how anything is shown. Called by `interaction` and by completion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from ...context.tail.feed import entered_sentence
from ...context.tail.results import result_text
from ...core.text import as_printed, code_span, fenced
from ...log.events.session import DomainEntered
from ...session.commands.table import help_line
from ...session.policy import MODES, OPTIONS
from ...session.session import Session


class LocalCommand(Struct, frozen=True):
    """One command. `run` answers in a sentence; None ends the program. `values` are what its argument can be."""

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
    lines = [
        f"- `{name}` is `{session.options.values[name]}`: {text}. It can be {_choices(values)}."
        for name, (_, text, values) in OPTIONS.items()
    ]
    return "\n".join([*lines, "", "`/option NAME VALUE` sets one."])


def _choices(values: Mapping[str, str]) -> str:
    return " or ".join(f"`{value}` ({meaning[:1].lower()}{meaning[1:]})" for value, meaning in values.items())


def _open(session: Session, argument: str) -> str:
    cells = session.cells
    number = argument.strip() or (str(cells[-1].index) if cells else "")
    cell = next((cell for cell in cells if str(cell.index) == number), None)
    if cell is None or cell.finished is None:
        return f"There is no result of a statement {code_span(number)}." if number else "No statement has run yet."
    result = as_printed(result_text(cell.finished))
    return f"Statement {number}:\n{fenced(result)}" if result else f"Statement {number} gave nothing."


def _sandbox(session: Session, _argument: str) -> str:
    entered = next((event for event in reversed(session.path) if isinstance(event, DomainEntered)), None)
    return (
        "No statement of a model has run yet, so nothing is sandboxed."
        if entered is None
        else (entered_sentence(entered))
    )


def _exit(_session: Session, _argument: str) -> None:
    return None


LOCAL_COMMANDS: Final[dict[str, LocalCommand]] = {
    command.name: command
    for command in (
        LocalCommand("mode", f"[{' | '.join(MODES)}]", "Show the mode, or set it", _mode, tuple(MODES)),
        LocalCommand("option", "[NAME VALUE]", "Show the session's options, or set one", _option, tuple(OPTIONS)),
        LocalCommand(
            "open", "[K]", "Show the whole result of statement K; Ctrl-O opens the last that is folded", _open
        ),
        LocalCommand("sandbox", "", "Show what statements may do by themselves, and what asks", _sandbox),
        LocalCommand("exit", "", "Leave; so do `quit` and Ctrl-D", _exit),
    )
}
"""By name, in the order in which they are listed."""
LEAVING: Final = ("exit", "quit", "exit()", "quit()")
"""Lines that leave as `/exit` does, because other prompts take them so."""


def local_command_in(text: str) -> tuple[LocalCommand | None, str]:
    """The terminal's own command that a line names, if it does, and its argument."""
    if text.strip() in LEAVING:
        return LOCAL_COMMANDS["exit"], ""
    first, *rest = text.split(maxsplit=1) or [""]
    command = LOCAL_COMMANDS.get(first[1:]) if first.startswith("/") else None
    return command, rest[0].strip() if rest else ""


def local_help() -> str:
    """A line for each of them, as `/help` lists the session's."""
    return "\n".join(help_line(row.name, row.usage, row.description) for row in LOCAL_COMMANDS.values())
