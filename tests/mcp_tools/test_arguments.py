"""Arguments of calls: what the schemas allow passes, and of everything else a sentence says what would work."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tools.arguments import ArgumentError, checked
from mcp_tools.tools import RUNNING, TOOLS
from mcp_tools.tools.row import ToolRow

ROWS = {row.name: row for row in (*TOOLS, *RUNNING)}


@pytest.mark.parametrize(
    ("tool", "given", "sentence"),
    [
        (
            "view",
            {"pth": "a"},
            "view has no argument `pth`; it takes name, path, pos, scroll, tokens, lod, follow, refresh,",
        ),
        ("view", {"pth": "a"}, "Did you mean `path`?"),
        ("view", {"path": 5}, "`path` is a text, not 5."),
        ("view", {"path": ""}, "`path` is empty."),
        ("view", {"path": "a" * 4097}, "`path` has at most 4,096 characters, not 4,097."),
        ("view", {"tokens": 0}, "`tokens` is from 1 to 20,000, not 0."),
        ("view", {"tokens": 20_001}, "`tokens` is from 1 to 20,000, not 20001."),
        ("tick", {"wait": float("nan")}, "`wait` is a number, not NaN."),
        ("tick", {"wait": float("inf")}, "`wait` is from 0 to 25, not inf."),
        ("tick", {"since": 2**53}, "`since` is a whole number from -9,007,199,254,740,991 to 9,007,199,254,740,991."),
        ("view", {"scroll": -(10**5000)}, "`scroll` is a whole number from "),
        ("view", {"tokens": True}, "`tokens` is a whole number, not True."),
        ("view", {"tokens": 1.5}, "`tokens` is a whole number, not 1.5."),
        ("view", {"lod": 4}, "`lod` is from 0 to 3, not 4."),
        ("view", {"pos": []}, "`pos` is a whole number or a text, not []."),
        ("view", {"pos": -1}, "`pos` is at least 0, not -1."),
        ("view", {"follow": 1}, "`follow` is true or false, not 1."),
        ("group", {}, "group needs `name`: the group's name."),
        ("group", {"name": None}, "group needs `name`"),
        ("group", {"name": "g", "add": "a"}, "`add` is a list, not 'a'."),
        ("group", {"name": "g", "add": ["a", 5]}, "`add[2]` is a text, not 5."),
        ("group", {"name": "g", "add": ["a"] * 65}, "`add` has at most 64 entries, not 65."),
        ("tick", {"wait": 26}, "`wait` is from 0 to 25, not 26."),
        ("timeline", {"statement": 0}, "`statement` is at least 1, not 0."),
        ("run", {"code": "x" * (1 << 20) + "y"}, "`code` has at most 1,048,576 characters"),
        ("rewind", {}, "rewind needs `to`: its number; 0 is the beginning."),
        ("rewind", {"to": -1}, "`to` is at least 0, not -1."),
        ("rewind", {"to": 1, "files": "no"}, "`files` is true or false, not 'no'."),
        ("run", {"code": "x", "seconds": 601}, "`seconds` is from 0.1 to 600, not 601."),
    ],
)
def test_what_cannot_be_is_a_sentence(tool: str, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        checked(tool, ROWS[tool].schema, given)
    assert sentence in str(refused.value)


def test_what_can_be_passes_without_what_is_null() -> None:
    given = {"name": "a", "pos": 12, "tokens": 20_000, "follow": False, "path": None}
    assert checked("view", ROWS["view"].schema, given) == {
        key: value for key, value in given.items() if value is not None
    }
    assert checked("tick", ROWS["tick"].schema, {"wait": 0.5, "since": 10**12}) == {"wait": 0.5, "since": 10**12}
    assert checked("view", ROWS["view"].schema, {}) == {}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_argument_is_described_and_no_other_is_taken(row: ToolRow) -> None:
    assert row.schema["additionalProperties"] is False
    assert all(each["description"] for each in row.schema["properties"].values())
    assert set(row.schema.get("required", ())) <= set(row.schema["properties"])
