"""Modes and configuration options of a session in the wire's shape, always as complete lists."""

from __future__ import annotations

from typing import Final

from acp_adapter.wire.v1.shapes.options import SelectConfigOption, SelectOption, SessionMode, SessionModeState
from engine.errors import InvalidRequestError
from engine.sessions.policy import MODES, OPTIONS, OptionValues

MODE: Final = "mode"
"""The option that mirrors the session's mode, for clients that know options and not modes."""


def mode_state(options: OptionValues) -> SessionModeState:
    """The modes there are, and the one in force."""
    modes = [SessionMode(id=mode, name=name, description=text) for mode, (name, text) in MODES.items()]
    return SessionModeState(current_mode_id=options.mode, available_modes=modes)


def config_options(options: OptionValues) -> list[SelectConfigOption]:
    """Every option with its value. Ids of options that the protocol does not define start with an underscore."""
    modes = [SelectOption(value=mode, name=name, description=text) for mode, (name, text) in MODES.items()]
    found = [SelectConfigOption(id=MODE, name="Mode", category="mode", current_value=options.mode, options=modes)]
    for option, (name, text, values) in OPTIONS.items():
        choices = [SelectOption(value=value, name=meaning) for value, meaning in values.items()]
        found.append(
            SelectConfigOption(
                id=f"_{option}", name=name, description=text, current_value=options.values[option], options=choices
            )
        )
    return found


def option_named(config_id: str) -> str:
    """The engine's name of an option. Raises InvalidRequestError for an id that was never offered."""
    if config_id == MODE or (config_id.startswith("_") and config_id[1:] in OPTIONS):
        return config_id.removeprefix("_")
    raise InvalidRequestError(f"there is no option {config_id!r}")
