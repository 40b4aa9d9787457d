"""Options and slash commands of a session, as this version names their fields.

Source of the shapes: ACP v2 schema, `SessionConfigOption` and `AvailableCommand`.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from acp_adapter import options
from acp_adapter.updates import shapes
from acp_adapter.wire import WireModel, given


class SelectOption(WireModel):
    value: str
    name: str
    description: str | None = None


class SelectGroup(WireModel):
    group_id: str
    name: str
    options: Annotated[list[SelectOption], Field(min_length=1)]


class _ConfigOption(WireModel):
    config_id: str
    name: str
    description: str | None = None
    category: str | None = None


class SelectConfigOption(_ConfigOption):
    """A choice of one value: a flat list or groups, never mixed."""

    type: Literal["select"] = "select"
    current_value: str
    options: Annotated[list[SelectOption] | list[SelectGroup], Field(min_length=1)]


class BooleanConfigOption(_ConfigOption):
    """On or off."""

    type: Literal["boolean"] = "boolean"
    current_value: bool


ConfigOption = Annotated[SelectConfigOption | BooleanConfigOption, Field(discriminator="type")]


class CommandInput(WireModel):
    """Free text after the command's name; the client shows `hint` until the user types."""

    type: Literal["text"] = "text"
    hint: str


class AvailableCommand(WireModel):
    type: Literal["command"] = "command"
    name: str
    description: str
    input: CommandInput | None = None


def config_options(shown: Iterable[options.ConfigOption]) -> list[ConfigOption]:
    """Return options as this version names their fields."""
    return [_config_option(option) for option in shown]


def _config_option(option: options.ConfigOption) -> ConfigOption:
    common = given(description=option.description, category=option.category)
    if isinstance(option, options.BooleanConfigOption):
        return BooleanConfigOption(config_id=option.id, name=option.name, current_value=option.current_value, **common)
    return SelectConfigOption(
        config_id=option.id,
        name=option.name,
        current_value=option.current_value,
        options=[
            SelectOption(value=each.value, name=each.name, **given(description=each.description))
            for each in option.options
            if isinstance(each, options.SelectOption)
        ],
        **common,
    )


def available_commands(commands: Iterable[shapes.AvailableCommand]) -> list[AvailableCommand]:
    """Return slash commands as this version names their fields."""
    return [
        AvailableCommand(
            name=command.name,
            description=command.description,
            **given(input=None if command.input is None else CommandInput(hint=command.input.hint)),
        )
        for command in commands
    ]
