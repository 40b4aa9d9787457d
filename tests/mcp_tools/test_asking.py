"""`ask` in Python that an MCP client runs: a form for clients that show them, else no answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from mcp_tools.requests import NOT_ASKED, NOT_SHOWN
from tests.support.mcp_clients import served

pytestmark = pytest.mark.anyio
CODE = '[ask("Which one?", ["this", "that"])]'


class User:
    """Answers with the result of `answer`, and notes the questions."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer
        self.asked: list[types.ElicitRequestFormParams] = []

    async def __call__(self, _context: object, params: types.ElicitRequestParams) -> Any:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.asked.append(params)
        return self._answer()


async def test_client_with_forms_is_asked(tmp_path: Path) -> None:
    user = User(lambda: types.ElicitResult(action="accept", content={"answer": "that"}))
    async with served(tmp_path, era="legacy", runs=True, elicitation_callback=user) as caller:
        assert "['that']" in await caller.text("run", code=CODE)
    assert user.asked[0].message == "Which one?"
    assert user.asked[0].requested_schema["properties"]["answer"]["enum"] == ["this", "that"]


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (types.ElicitResult(action="decline"), ""),
        (types.ElicitResult(action="cancel"), ""),
        (types.ElicitResult(action="accept", content={"answer": 7}), "does not fit"),
        (types.ElicitResult(action="accept"), "does not fit"),
        (types.ErrorData(code=-32603, message="broken"), NOT_SHOWN),
    ],
)
async def test_other_answers_are_none(tmp_path: Path, answer: Any, note: str) -> None:
    async with served(tmp_path, era="legacy", runs=True, elicitation_callback=User(lambda: answer)) as caller:
        text = await caller.text("run", code=CODE)
        assert "[None]" in text
        assert note in text


async def test_client_without_forms_and_the_newer_era_are_not_asked(tmp_path: Path) -> None:
    async with served(tmp_path, era="legacy", runs=True) as caller:
        text = await caller.text("run", code=CODE)
        assert "[None]" in text
        assert NOT_ASKED in text
    user = User(lambda: types.ElicitResult(action="decline"))
    async with served(tmp_path, era="auto", runs=True, elicitation_callback=user) as caller:
        assert NOT_ASKED in await caller.text("run", code=CODE)
    assert user.asked == []
