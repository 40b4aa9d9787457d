"""The models that need no provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.context.model import ModelError, ModelSignal, Prompt, ReasoningDelta, ReplyEnded, StatementAsked, TextDelta
from engine.context.models import make_model
from engine.context.models.local import statement_in
from engine.core.errors import InvalidRequestError
from engine.core.ids import MessageId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import ToolCall, ToolResult, UserMessage

pytestmark = pytest.mark.anyio


async def reply(model: str, *messages: Event) -> list[ModelSignal]:
    prompt = Prompt(instructions="", messages=messages, tail="")
    return [signal async for signal in make_model(model).reply(prompt)]


def user(text: str) -> UserMessage:
    return UserMessage(message_id=MessageId("m"), text=text)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("x = 1", "x = 1"),
        ("```python\nx = 1\n```", "x = 1"),
        ("```py\nx = (\n```", "x = ("),
        ('Sure.\n<script type="text/x-python">\nx = 1\n</script>', "x = 1\n"),
        ('<script type="text/x-python">' * 50_000, None),
        ("what is in here?", None),
        ("", None),
        ("x = 'a\0b'", None),
        ("(" * 500, None),
    ],
    ids=lambda text: (text or "none")[:20],
)
async def test_which_part_of_a_prompt_is_the_statement(text: str, source: str | None) -> None:
    assert statement_in(text) == source


async def test_direct_runs_typed_text_without_a_comment() -> None:
    assert await reply("direct", user("6 * 7")) == [StatementAsked("6 * 7", typed=True), ReplyEnded()]
    call = ToolCall(tool_call_id=ToolCallId("c"), tool="python")
    result = ToolResult(tool_call_id=ToolCallId("c"), status="ok", text="42")
    assert await reply("direct", user("6 * 7"), call, result) == [ReplyEnded()]


async def test_direct_answers_prose_with_what_this_is() -> None:
    first, _ = await reply("direct", user("please fix the tests"))
    assert isinstance(first, TextDelta)
    assert "No language model is configured" in first.text


async def test_scripted_plays_its_lines_and_then_ends_every_turn(tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text('{"reasoning": "hm", "text": "abcde", "chunk": 2, "statement": "1"}\n\n{"error": "down"}\n')
    model = make_model(f"scripted:{script}")
    prompt = Prompt(instructions="", messages=(), tail="")
    assert [signal async for signal in model.reply(prompt)] == [
        ReasoningDelta("hm"),
        TextDelta("ab"),
        TextDelta("cd"),
        TextDelta("e"),
        StatementAsked("1"),
        ReplyEnded(),
    ]
    with pytest.raises(ModelError, match="down"):
        [signal async for signal in model.reply(prompt)]
    assert [signal async for signal in model.reply(prompt)] == [ReplyEnded()]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("gpt", "unknown model 'gpt'; use one of direct, scripted"),
        ("direct:x", "takes no argument"),
        ("scripted", "needs a file"),
        ("scripted:/no/such/file", "cannot be read"),
    ],
)
async def test_a_model_that_cannot_be_made_is_said(spec: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        make_model(spec)


@pytest.mark.parametrize("line", ['{"txt": "x"}', "nonsense", '{"chunk": "2"}', "[]"])
async def test_a_line_that_is_no_reply_is_named(tmp_path: Path, line: str) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text(f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(InvalidRequestError, match="line 2"):
        make_model(f"scripted:{script}")
