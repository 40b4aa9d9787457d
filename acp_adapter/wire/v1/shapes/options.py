"""Modes and configuration options of a session, and the requests that set them.

Source: ACP v1 schema, `SessionModeState`, `SessionConfigOption` and the two setters. Every answer and every update
about options carries the complete list.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from acp_adapter.wire.model import ForgivingModel, WireModel


class SessionMode(WireModel):
    id: str
    name: str
    description: str | None = None


class SessionModeState(WireModel):
    current_mode_id: str
    available_modes: list[SessionMode]


class SelectOption(WireModel):
    value: str
    name: str
    description: str | None = None


class SelectGroup(WireModel):
    group: str
    name: str
    options: list[SelectOption]


class _ConfigOption(WireModel):
    id: str
    name: str
    description: str | None = None
    category: str | None = None


class SelectConfigOption(_ConfigOption):
    """One of several values: a flat list or groups, never mixed."""

    type: Literal["select"] = "select"
    current_value: str
    options: list[SelectOption] | list[SelectGroup]


class BooleanConfigOption(_ConfigOption):
    """On or off; only for clients that advertise `session.configOptions.boolean`."""

    type: Literal["boolean"] = "boolean"
    current_value: bool


ConfigOption = Annotated[SelectConfigOption | BooleanConfigOption, Field(discriminator="type")]


class SetModeRequest(ForgivingModel):
    session_id: str
    mode_id: str


class SetConfigOptionRequest(ForgivingModel):
    """`value` is a boolean only with `type` "boolean"; a string is the id of a value, whatever the type says."""

    session_id: str
    config_id: str
    value: str | bool
    type: Any = None

    @model_validator(mode="after")
    def _boolean_only_when_announced(self) -> Self:
        if isinstance(self.value, bool) and self.type != "boolean":
            raise ValueError('value must be a string unless type is "boolean"')
        return self


class SetConfigOptionResponse(WireModel):
    config_options: list[ConfigOption]
