"""The rules for requests find each deliberate violation, and nothing in valid requests."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.support.api_rules import violations

Body = dict[str, Any]

CHAT: Body = {
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "python", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "python", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "tail"},
    ]
}
RESPONSES: Body = {
    "input": [
        {"role": "user", "content": "u"},
        {"type": "reasoning", "id": "rs", "encrypted_content": "x", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "python", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"role": "user", "content": "tail"},
    ]
}
ANTHROPIC: Body = {
    "tools": [{"name": "python"}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "x"},
                {"type": "text", "text": "t"},
                {"type": "tool_use", "id": "a", "name": "python", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "1"}]},
                {"type": "text", "text": "tail"},
            ],
        },
    ],
}
GEMINI: Body = {
    "contents": [
        {"role": "user", "parts": [{"text": "u"}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"id": "a", "name": "python", "args": {}}, "thoughtSignature": "x"}],
        },
        {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "python", "response": {}}}]},
        {"role": "user", "parts": [{"text": "tail"}]},
    ]
}
VALID = {
    "/v1/chat/completions": (CHAT, "messages"),
    "/v1/responses": (RESPONSES, "input"),
    "/v1/messages?beta=true": (ANTHROPIC, "messages"),
    "/v1beta/models/m:streamGenerateContent": (GEMINI, "contents"),
}
CHAT_PATH, RESPONSES_PATH, ANTHROPIC_PATH, GEMINI_PATH = VALID


@pytest.mark.parametrize("path", VALID)
def test_what_is_right_is_not_objected_to(path: str) -> None:
    assert violations(path, VALID[path][0]) == []


def _swap(items: list[Any], one: int, other: int) -> None:
    items[one], items[other] = items[other], items[one]


WRONG: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "chat result missing": (CHAT_PATH, lambda m: m.pop(4)),
    "chat call missing": (CHAT_PATH, lambda m: m[2]["tool_calls"].pop()),
    "chat user between call and result": (CHAT_PATH, lambda m: m.insert(3, {"role": "user", "content": "x"})),
    "chat result twice": (CHAT_PATH, lambda m: m.insert(5, m[4])),
    "chat id twice": (CHAT_PATH, lambda m: m[2]["tool_calls"].append(m[2]["tool_calls"][0])),
    "chat id too long": (CHAT_PATH, lambda m: m[2]["tool_calls"][0].update(id="x" * 41)),
    "chat arguments no object": (CHAT_PATH, lambda m: m[2]["tool_calls"][0]["function"].update(arguments="[]")),
    "chat name": (CHAT_PATH, lambda m: m[2]["tool_calls"][0]["function"].update(name="a b")),
    "chat assistant first": (CHAT_PATH, lambda m: m.pop(1)),
    "chat assistant last": (CHAT_PATH, lambda m: m.append({"role": "assistant", "content": "x"})),
    "chat two users": (CHAT_PATH, lambda m: m.insert(1, {"role": "user", "content": "x"})),
    "chat blank": (CHAT_PATH, lambda m: m[1].update(content=" ")),
    "chat blank part": (CHAT_PATH, lambda m: m[1].update(content=[{"type": "text", "text": ""}])),
    "chat no calls": (CHAT_PATH, lambda m: m[2].update(tool_calls=[], content="x")),
    "chat late system": (CHAT_PATH, lambda m: m.append({"role": "system", "content": "x"})),
    "responses output missing": (RESPONSES_PATH, lambda m: m.pop(3)),
    "responses call missing": (RESPONSES_PATH, lambda m: m.pop(2)),
    "responses output first": (RESPONSES_PATH, lambda m: _swap(m, 2, 3)),
    "responses output twice": (RESPONSES_PATH, lambda m: m.insert(4, m[3])),
    "responses call twice": (RESPONSES_PATH, lambda m: m.insert(3, m[2])),
    "responses unencrypted": (RESPONSES_PATH, lambda m: m[1].pop("encrypted_content")),
    "responses reasoning alone": (RESPONSES_PATH, lambda m: m.insert(4, m[1])),
    "responses blank": (RESPONSES_PATH, lambda m: m[0].update(content="")),
    "responses message inside": (RESPONSES_PATH, lambda m: m.insert(3, m[0])),
    "responses assistant first": (RESPONSES_PATH, lambda m: m.pop(0)),
    "responses assistant last": (RESPONSES_PATH, lambda m: m.append({"role": "assistant", "content": "x"})),
    "responses kind": (RESPONSES_PATH, lambda m: m.insert(0, {"role": "user", "type": "item_reference"})),
    "anthropic result missing": (ANTHROPIC_PATH, lambda m: m[2]["content"].pop(0)),
    "anthropic results gone": (ANTHROPIC_PATH, lambda m: m.pop(2)),
    "anthropic call missing": (ANTHROPIC_PATH, lambda m: m[1]["content"].pop()),
    "anthropic result late": (ANTHROPIC_PATH, lambda m: _swap(m[2]["content"], 0, 1)),
    "anthropic thinking late": (ANTHROPIC_PATH, lambda m: _swap(m[1]["content"], 0, 1)),
    "anthropic thinking last": (ANTHROPIC_PATH, lambda m: m[1].update(content=m[1]["content"][:1])),
    "anthropic unsigned": (ANTHROPIC_PATH, lambda m: m[1]["content"][0].update(signature="")),
    "anthropic thinking of the user": (ANTHROPIC_PATH, lambda m: m[0]["content"].insert(0, m[1]["content"][0])),
    "anthropic blank": (ANTHROPIC_PATH, lambda m: m[0]["content"][0].update(text="\n")),
    "anthropic empty": (ANTHROPIC_PATH, lambda m: m[0].update(content=[])),
    "anthropic blank result": (ANTHROPIC_PATH, lambda m: m[2]["content"][0].update(content="")),
    "anthropic id": (
        ANTHROPIC_PATH,
        lambda m: [m[1]["content"][2].update(id="é"), m[2]["content"][0].update(tool_use_id="é")],
    ),
    "anthropic id twice": (ANTHROPIC_PATH, lambda m: m.extend([m[1], m[2]])),
    "anthropic input": (ANTHROPIC_PATH, lambda m: m[1]["content"][2].update(input="x")),
    "anthropic assistant first": (ANTHROPIC_PATH, lambda m: m.insert(0, {"role": "assistant", "content": "x"})),
    "anthropic assistant last": (ANTHROPIC_PATH, lambda m: m.append({"role": "assistant", "content": "x"})),
    "anthropic two users": (ANTHROPIC_PATH, lambda m: m.append({"role": "user", "content": "x"})),
    "anthropic breakpoints": (
        ANTHROPIC_PATH,
        lambda m: m[0].update(content=[{"type": "text", "text": "x", "cache_control": {}} for _ in range(5)]),
    ),
    "gemini response missing": (GEMINI_PATH, lambda m: m.pop(2)),
    "gemini call missing": (GEMINI_PATH, lambda m: m.pop(1)),
    "gemini response of another": (GEMINI_PATH, lambda m: m[2]["parts"][0]["functionResponse"].update(id="b")),
    "gemini unsigned": (GEMINI_PATH, lambda m: m[1]["parts"][0].pop("thoughtSignature")),
    "gemini blank": (GEMINI_PATH, lambda m: m[0]["parts"][0].update(text="")),
    "gemini no parts": (GEMINI_PATH, lambda m: m[0].update(parts=[])),
    "gemini model first": (GEMINI_PATH, lambda m: m.insert(0, {"role": "model", "parts": [{"text": "x"}]})),
    "gemini model last": (GEMINI_PATH, lambda m: m.append({"role": "model", "parts": [{"text": "x"}]})),
    "gemini two users": (GEMINI_PATH, lambda m: m.insert(0, m[0])),
    "gemini call of the user": (GEMINI_PATH, lambda m: m[1].update(role="user")),
    "gemini arguments": (GEMINI_PATH, lambda m: m[1]["parts"][0]["functionCall"].update(args="x")),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_violation_is_found(name: str) -> None:
    path, spoil = WRONG[name]
    body, field = VALID[path]
    spoilt = deepcopy(body)
    spoil(spoilt[field])
    assert violations(path, spoilt)


def test_calls_without_declared_tools_are_found() -> None:
    assert violations(ANTHROPIC_PATH, {**ANTHROPIC, "tools": []}) == ["calls without tools"]
