"""The check of arguments: valid ones pass, and each invalid one gets a sentence that says what is valid."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.levels import LEVELS_OF_DETAIL
from mcp_tools.replies import ArgumentError
from mcp_tools.tools import PYTHON_TOOLS, TOOLS
from mcp_tools.tools.schema import ToolRow, check_arguments

ROWS = {row.name: row for row in (*TOOLS, *PYTHON_TOOLS)}


@pytest.mark.parametrize(
    ("tool", "given", "sentence"),
    [
        (
            "view",
            {"pth": "a"},
            "view has no argument `pth`; the arguments are name, path, pos, scroll, tokens, lod, follow, refresh,",
        ),
        ("view", {"pth": "a"}, "Did you mean `path`?"),
        ("view", {"path": 5}, "`path` must be a string, not 5."),
        ("view", {"path": ""}, "`path` is empty."),
        ("view", {"path": "a" * 4097}, "`path` may have at most 4,096 characters, not 4,097."),
        ("view", {"tokens": 0}, "`tokens` must be from 1 to 20,000, not 0."),
        ("view", {"tokens": 20_001}, "`tokens` must be from 1 to 20,000, not 20001."),
        ("tick", {"wait": float("nan")}, "`wait` must be a number, not NaN."),
        ("tick", {"wait": float("inf")}, "`wait` must be from 0 to 25, not inf."),
        ("tick", {"since": 2**53}, "`since` must be an integer from -9,007,199,254,740,991 to 9,007,199,254,740,991."),
        ("view", {"scroll": -(10**5000)}, "`scroll` must be an integer from "),
        ("view", {"tokens": True}, "`tokens` must be an integer, not True."),
        ("view", {"tokens": 1.5}, "`tokens` must be an integer, not 1.5."),
        ("view", {"lod": 9}, f"`lod` must be from 0 to {len(LEVELS_OF_DETAIL) - 1}, not 9."),
        ("view", {"pos": []}, "`pos` must be an integer or a string, not []."),
        ("view", {"pos": -1}, "`pos` must be at least 0, not -1."),
        ("view", {"follow": 1}, "`follow` must be true or false, not 1."),
        ("group", {}, "group needs `name`: the group's name."),
        ("group", {"name": None}, "group needs `name`"),
        ("group", {"name": "g", "add": "a"}, "`add` must be a list, not 'a'."),
        ("group", {"name": "g", "add": ["a", 5]}, "`add[2]` must be a string, not 5."),
        ("group", {"name": "g", "add": ["a"] * 65}, "`add` may have at most 64 entries, not 65."),
        ("tick", {"wait": 26}, "`wait` must be from 0 to 25, not 26."),
        ("timeline", {"statement": 0}, "`statement` must be at least 1, not 0."),
        ("run", {"code": "x" * (1 << 20) + "y"}, "`code` may have at most 1,048,576 characters"),
        ("rewind", {}, "rewind needs `to`: statement number; 0 is the start."),
        ("rewind", {"to": -1}, "`to` must be at least 0, not -1."),
        ("rewind", {"to": 1, "files": "no"}, "`files` must be true or false, not 'no'."),
        ("run", {"code": "x", "seconds": 601}, "`seconds` must be from 0.1 to 600, not 601."),
    ],
)
def test_invalid_arguments(tool: str, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        check_arguments(tool, ROWS[tool].schema, given)
    assert sentence in str(refused.value)


def test_valid_arguments_pass_without_nulls() -> None:
    given = {"name": "a", "pos": 12, "tokens": 20_000, "follow": False, "path": None}
    assert check_arguments("view", ROWS["view"].schema, given) == {
        key: value for key, value in given.items() if value is not None
    }
    assert check_arguments("tick", ROWS["tick"].schema, {"wait": 0.5, "since": 10**12}) == {
        "wait": 0.5,
        "since": 10**12,
    }
    assert check_arguments("view", ROWS["view"].schema, {}) == {}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_argument_is_described(row: ToolRow) -> None:
    assert row.schema["additionalProperties"] is False
    assert all(each["description"] for each in row.schema["properties"].values())
    assert set(row.schema.get("required", ())) <= set(row.schema["properties"])
