"""The options of a session as a client is offered them, its mode first; and what the ids of these options mean.

Ids of options that the protocol does not define start with an underscore, in every version of it. Must not know how an
option looks on the wire. Used by handlers, and by the translation of events that change an option.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.replies import Choice, Option, Options
from engine import MODES, OPTIONS, OptionValues, cut_line
from engine.core.errors import InvalidRequestError

MODE: Final = "mode"
"""The option that is the session's mode; the one id that the protocol defines."""
_SHOWN_CHARS: Final = 60


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


def chosen(values: OptionValues, option_id: str, value: str | bool) -> tuple[str, str]:
    """Return the engine's name of an option, and the value.

    Raises:
        InvalidRequestError: the id or the value was never offered; the message names those that were.
    """
    offered = {option.option_id: option for option in options_of(values).all}
    if option_id not in offered:
        shown = cut_line(repr(option_id), _SHOWN_CHARS)
        raise InvalidRequestError(f"there is no option {shown}; the options are {', '.join(offered)}")
    choices = [choice.value for choice in offered[option_id].choices]
    if isinstance(value, bool) or value not in choices:
        shown = "a boolean" if isinstance(value, bool) else cut_line(repr(value), _SHOWN_CHARS)
        raise InvalidRequestError(f"{option_id} cannot be {shown}; it is one of {', '.join(choices)}")
    return option_id.removeprefix("_"), value
