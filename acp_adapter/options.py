"""The options of a session: shapes, as version 1 names their fields, and the options with their values.

Lists of options are always complete. Ids of options that the protocol does not define start with an underscore. Source
of the shapes: ACP v1 schema, `SessionConfigOption`.
"""

from typing import Annotated, Literal

from pydantic import Field

from acp_adapter.requests import MODE, option_id
from acp_adapter.wire import WireModel, given
from engine import MODES, ON, OptionRow, OptionValues


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
    """A choice of one value: a flat list or groups, never mixed."""

    type: Literal["select"] = "select"
    current_value: str
    options: list[SelectOption] | list[SelectGroup]


class BooleanConfigOption(_ConfigOption):
    """On or off. Only for clients that advertise `session.configOptions.boolean`."""

    type: Literal["boolean"] = "boolean"
    current_value: bool


ConfigOption = Annotated[SelectConfigOption | BooleanConfigOption, Field(discriminator="type")]


def config_options(values: OptionValues, *, booleans: bool) -> list[ConfigOption]:
    """Return every option with its value, the mode first. `booleans`: those that are on or off have no list."""
    mode = SelectConfigOption(
        id=MODE,
        name="Mode",
        category=MODE,
        current_value=values.mode,
        options=[SelectOption(value=mode, name=name, description=text) for mode, (name, text) in MODES.items()],
    )
    return [mode, *(_config_option(row, values.value(row), booleans) for row in values.rows)]


def _config_option(row: OptionRow, value: str, booleans: bool) -> ConfigOption:
    option_name = option_id(row.name, row.category)
    category = given(category=row.category)
    if booleans and row.is_switch:
        return BooleanConfigOption(
            id=option_name, name=row.title, description=row.text, current_value=value == ON, **category
        )
    return SelectConfigOption(
        id=option_name,
        name=row.title,
        description=row.text,
        current_value=value,
        **category,
        options=[SelectOption(value=choice, name=meaning) for choice, meaning in row.values.items()],
    )
