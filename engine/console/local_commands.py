"""The slash commands of the terminal itself, beside those of the session: what an editor has menus for.

One row each. Must not know how anything is shown. Called by `interaction` and by completion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from ..sessions.commands.table import help_line
from ..sessions.policy import MODES, OPTIONS
from ..sessions.session import Session


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


def _exit(_session: Session, _argument: str) -> None:
    return None


LOCAL_COMMANDS: Final[dict[str, LocalCommand]] = {
    command.name: command
    for command in (
        LocalCommand("mode", f"[{' | '.join(MODES)}]", "Show the mode, or set it", _mode, tuple(MODES)),
        LocalCommand("option", "[NAME VALUE]", "Show the session's options, or set one", _option, tuple(OPTIONS)),
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
