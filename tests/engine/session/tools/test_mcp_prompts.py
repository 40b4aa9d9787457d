"""Prompts of MCP servers: names, arguments, and what a model reads of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from engine.log.events.conversation import Attachment
from engine.session.tools.mcp_prompts import (
    LEFT_OUT,
    MOST_PROMPTS,
    TEXT_CHARS,
    Prompt,
    PromptArgument,
    bound,
    prompts_of,
    read_prompt,
)

TWO = Prompt("greet", "greet", "", (PromptArgument("who", True), PromptArgument("how", False)))


def message(content: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_prompts_have_names_that_can_be_typed() -> None:
    found = prompts_of([{"name": name} for name in ("a b", "a/b", "", "\x1b", "x" * 200, "prompt")] + [{"name": 7}])
    assert [*found] == ["a_b", "a_b_2", "prompt", "prompt_2", "prompt_3"]  # a part of a long name may be one of a key
    assert found["a_b_2"].key == "a/b"


def test_descriptions_and_arguments_are_limited() -> None:
    arguments = [{"name": "who", "required": True}, {"name": "how"}, "x", {"name": 7}, {}]
    (prompt,) = prompts_of([{"name": "greet", "description": "one\ntwo\x1b", "arguments": arguments}]).values()
    assert (prompt.description, prompt.usage) == ("one two\\x1b", "who [how]")
    assert len(prompts_of([{"name": f"p{number}"} for number in range(MOST_PROMPTS + 5)])) == MOST_PROMPTS


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["Ann"], {"who": "Ann"}),
        (["Ann", "loudly"], {"who": "Ann", "how": "loudly"}),
        (["Ann", "very", "loudly"], {"who": "Ann", "how": "very loudly"}),
        (["how=loudly", "Ann", "Lee"], {"who": "Ann Lee", "how": "loudly"}),
        (["who=Ann", "x=1"], {"who": "Ann", "how": "x=1"}),
        (["who=a", "who=b"], {"who": "a", "how": "who=b"}),
    ],
)
def test_words_are_bound_by_name_and_in_order(words: list[str], arguments: dict[str, str]) -> None:
    assert bound(TWO, words) == arguments


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "the prompt needs who"),
        (["how=x"], "the prompt needs who"),
        (["who=a", "how=b", "c"], "the prompt takes no further argument: 'c'"),
    ],
)
def test_missing_and_further_arguments_are_refused(words: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        bound(TWO, words)


def test_texts_are_joined_and_a_dialogue_names_its_speakers() -> None:
    assert read_prompt([message(text("One.")), message(text("Two."))], "test") == ("One.\n\nTwo.", ())
    dialogue = [message(text("One.")), message(text("Two."), "assistant")]
    assert read_prompt(dialogue, "test")[0] == "User:\nOne.\n\nAssistant:\nTwo."


def test_embedded_texts_have_addresses_of_the_server() -> None:
    note = {"uri": "file:///home/me/a.py", "mimeType": "text/plain", "text": "x = 1"}
    link = {"type": "resource_link", "uri": "repo://b", "name": "b"}
    assert read_prompt([message({"type": "resource", "resource": note}), message(link)], "test") == (
        "[b](mcp://test/repo://b)",
        (Attachment(uri="mcp://test/file:///home/me/a.py", name="a.py", media_type="text/plain", text="x = 1"),),
    )


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"type": "image", "data": "", "mimeType": "image/png"}, "image"),
        ({"type": "resource", "resource": {"uri": "a://b", "blob": ""}}, "resource"),
        ({"type": "resource", "resource": {"uri": "a://\n", "text": ""}}, "resource"),
        ({}, "content"),
        (None, "content"),
    ],
)
def test_other_content_is_named(content: Any, kind: str) -> None:
    assert read_prompt([message(content)], "test") == (LEFT_OUT.format(kind=kind), ())


def test_long_answers_are_cut() -> None:
    long, _ = read_prompt([message(text("x" * TEXT_CHARS)), message(text("y"))], "test")
    assert long.startswith("x" * TEXT_CHARS + "\n...")
    _, embedded = read_prompt([message({"type": "resource", "resource": {"uri": "a://b", "text": "x"}})] * 50, "test")
    assert len(embedded) == 20
