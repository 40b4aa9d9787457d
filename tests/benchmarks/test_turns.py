"""The rows on turns through a model server: what is counted as read, and that a peer that is not there is named."""

from __future__ import annotations

from benchmarks.prompts import shared_tokens, text_of, tools_of
from engine.core.tokens import count


def test_tokens_shared_with_the_previous_prompt_are_counted() -> None:
    first, second = "tools; hello there", "tools; hello you, there"
    assert shared_tokens([first, second, second]) == count("tools; hello ") + count(second)
    assert shared_tokens([first]) == shared_tokens(["x", "y"]) == 0


def test_prompt_is_its_tools_and_then_its_messages() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    body = {"messages": [{"role": "user", "content": "hi"}, called], "tools": [{"name": "python"}]}
    assert tools_of(body) == '[{"name": "python"}]'
    assert text_of(body) == 'user: hi""\nassistant: [{"id": "c"}]\n'
    assert tools_of({"messages": []}) == ""
