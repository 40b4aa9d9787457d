"""Which models take pictures, and by which rule they are counted."""

from __future__ import annotations

import pytest

from engine.context.models.providers import picture_rule, route_to


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("anthropic:claude-opus-5-5", "anthropic"),
        ("openai-responses:gpt-6.1-sol", "openai-tiles"),
        ("openai-chat:gpt-4o", "openai-tiles"),
        ("openai-responses:gpt-5-mini", "openai-patches"),
        ("openai-chat:gpt-3.5-turbo", None),
        ("openai-responses:o3-mini", None),
        ("google:gemini-3.8-flash", "google"),
        ("google-cloud:gemini-4-argon", "google"),
        ("openrouter:anthropic/claude-sonnet-5", "anthropic"),
        ("openrouter:google/gemini-4", "google"),
        ("openrouter:deepseek/deepseek-v4", None),
        ("groq:openai/gpt-oss-120b", None),
        ("groq:qwen/qwen3.8-27b", "anthropic"),
        ("mistral:codestral-latest", None),
        ("mistral:mistral-medium-latest", "anthropic"),
        ("ollama:llama3", None),
        ("ollama:llama3.2-vision", "anthropic"),
        ("ollama:gemma3:4b", "google"),
        ("vllm:qwen2.5-vl-7b", "anthropic"),
    ],
)
def test_rule_follows_from_the_name(spec: str, rule: str | None) -> None:
    assert picture_rule(route_to(spec, {})) == rule
