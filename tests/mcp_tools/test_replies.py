"""Replies for programs: with `--structured` they match each tool's `outputSchema`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp_types import Tool

from tests.support.mcp_clients import ERAS, Era, served, text_of

pytestmark = pytest.mark.anyio


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("view", {}),
    ("view", {"path": "a.txt", "name": "a", "follow": True}),
    ("view", {"name": "a", "tokens": 1}),
    ("view", {"name": "nobody"}),
    ("view", {}),
    ("group", {"name": "g", "add": ["a", "*.txt"]}),
    ("group", {"name": "g", "close": True}),
    ("tick", {}),
    ("tick", {"since": 0}),
    ("timeline", {}),
    ("timeline", {"statement": 1}),
    ("timeline", {"statement": 99}),
    ("run", {"code": "print('\\udcff'); 1 / 0"}),
    ("run", {"code": "'out'"}),
    ("rewind", {"to": 7}),
    ("rewind", {"to": 99}),
    ("replay", {"from": 1, "to": 2}),
    ("replay", {"from": 99}),
)


def valid(tool: Tool, structured: object) -> None:
    assert tool.output_schema is not None
    Draft202012Validator.check_schema(tool.output_schema)
    Draft202012Validator(tool.output_schema).validate(structured)


@pytest.mark.parametrize("era", ERAS)
async def test_structured_replies_match_their_schema(tmp_path: Path, era: Era) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    async with served(tmp_path, era=era, runs=True, structured=True) as caller:
        tools = {tool.name: tool for tool in (await caller.client.list_tools()).tools}
        for name, arguments in CALLS:
            result = await caller.result(name, **arguments)
            valid(tools[name], result.structured_content)
            facts = {key.removeprefix("rewindow/"): value for key, value in (result.meta or {}).items() if "/" in key}
            facts = {key: value for key, value in facts.items() if "/" not in key}
            assert result.structured_content == {"text": text_of(result), **facts}
        shown = (await caller.result("view", name="a", tokens=60)).structured_content or {}
        assert shown["handle"]["title"] == "a.txt"
        assert shown["text"].endswith("1\tone\n2\ttwo\n")
        assert ((await caller.result("tick")).structured_content or {})["cursor"] > 0
        ran = (await caller.result("run", code="1 / 0")).structured_content or {}
        assert (ran["status"], ran["statement"]) == ("error", 8)


@pytest.mark.parametrize("era", ERAS)
async def test_replies_are_unstructured_by_default(tmp_path: Path, era: Era) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with served(tmp_path, era=era, runs=True) as caller:
        assert [tool.output_schema for tool in (await caller.client.list_tools()).tools] == [None] * 7
        for name, arguments in CALLS:
            assert (await caller.result(name, **arguments)).structured_content is None
