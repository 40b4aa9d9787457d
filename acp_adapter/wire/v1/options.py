"""Modes and configuration options in version 1, always as complete lists, and the requests that set them.

Version 1 shows a session's mode twice: as one of its `modes`, and as an option for clients that know options alone.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.replies import Choice, Option, Options
from acp_adapter.requests import SetMode, SetOption
from acp_adapter.wire.codec import Json
from acp_adapter.wire.model import from_wire, given, to_wire
from acp_adapter.wire.v1.shapes.options import (
    ConfigOption,
    SelectConfigOption,
    SelectOption,
    SessionMode,
    SessionModeState,
    SetConfigOptionRequest,
    SetConfigOptionResponse,
    SetModeRequest,
)


def mode_state(options: Options) -> SessionModeState:
    """The modes there are, and the one in force."""
    modes = [
        SessionMode(id=choice.value, name=choice.name, **given(description=choice.description))
        for choice in options.mode.choices
    ]
    return SessionModeState(current_mode_id=options.mode.value, available_modes=modes)


def config_options(options: Options) -> list[ConfigOption]:
    """Every option with its value."""
    return [_config_option(option) for option in options.all]


def _config_option(option: Option) -> SelectConfigOption:
    return SelectConfigOption(
        id=option.option_id,
        name=option.name,
        **given(description=option.description, category=option.category),
        current_value=option.value,
        options=[_select_option(choice) for choice in option.choices],
    )


def _select_option(choice: Choice) -> SelectOption:
    return SelectOption(value=choice.value, name=choice.name, **given(description=choice.description))


def _read_set_mode(params: object) -> SetMode:
    request = from_wire(SetModeRequest, params)
    return SetMode(request.session_id, request.mode_id)


def _read_set_option(params: object) -> SetOption:
    request = from_wire(SetConfigOptionRequest, params)
    return SetOption(request.session_id, request.config_id, request.value)


def _write_options(options: Options) -> Json:
    return to_wire(SetConfigOptionResponse(config_options=config_options(options)))


READERS: Final = {"session/set_mode": _read_set_mode, "session/set_config_option": _read_set_option}
WRITERS: Final = {"session/set_config_option": _write_options}
