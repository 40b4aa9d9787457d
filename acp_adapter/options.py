"""The options of a session as a client is offered them, its mode first; and what the ids of these options mean.

Ids of options that the protocol does not define start with an underscore, in every version of it. Must not know how an
option looks on the wire. Used by handlers, and by the translation of events that change an option.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.replies import Choice, Option, Options
from engine import MODES, OPTIONS, OptionValues
from engine.errors import InvalidRequestError

MODE: Final = "mode"
"""The option that is the session's mode; the one id that the protocol defines."""


def options_of(values: OptionValues) -> Options:
    """Every option with its value."""
    modes = tuple(Choice(mode, name, text) for mode, (name, text) in MODES.items())
    mode = Option(MODE, "Mode", values.mode, modes, category=MODE)
    others = (
        Option(f"_{option}", name, values.values[option], _choices(meanings), text)
        for option, (name, text, meanings) in OPTIONS.items()
    )
    return Options((mode, *others))


def _choices(meanings: dict[str, str]) -> tuple[Choice, ...]:
    return tuple(Choice(value, name) for value, name in meanings.items())


def option_named(option_id: str) -> str:
    """The engine's name of an option. Raises InvalidRequestError for an id that was never offered."""
    if option_id == MODE or (option_id.startswith("_") and option_id[1:] in OPTIONS):
        return option_id.removeprefix("_")
    raise InvalidRequestError(f"there is no option {option_id!r}")
