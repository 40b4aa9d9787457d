"""Which models can be chosen: what providers answer over real sockets, and what is kept of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.context.models import catalog
from engine.context.models.catalog import FILE, Catalog, Listed, listed
from tests.support.llm_server import Answer, LlmServer, llm_server

CLAUDE = {
    "data": [
        {"type": "model", "id": "claude-new", "display_name": "Claude New", "max_input_tokens": 200_000},
        {"type": "model", "id": "claude-old", "display_name": "Claude Old"},
    ]
}
GEMINI = {
    "models": [
        {
            "name": "models/gemini-9",
            "displayName": "Gemini 9",
            "inputTokenLimit": 1_048_576,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        },
        {"name": "models/text-embedding-9", "supportedGenerationMethods": ["embedContent"]},
    ]
}
CHAT = {
    "object": "list",
    "data": [
        {"id": "older", "created": 1},
        {"id": "newer", "created": 2, "max_model_len": 8_192},
        {"id": "text-embedding-3", "created": 3},
        {"id": "gpt-image-2", "created": 4},
    ],
}


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as server:
        for path, answer in (("/v1/models", CHAT), ("/v1beta/models", GEMINI)):
            server.lists[path] = Answer(pieces=(json.dumps(answer).encode(),))
        yield server


def specs(found: Catalog) -> list[str]:
    return [model.spec for model in found.offered]


@pytest.mark.parametrize("url", ["http://a\nb", "http://[::1", "no address"])
def test_known_models_are_offered_of_a_provider_that_has_no_address(tmp_path: Path, url: str) -> None:
    names = ("OPENAI_BASE_URL", "GROQ_BASE_URL")
    environ = {"GROQ_API_KEY": "of-groq", "OPENAI_API_KEY": "of-openai", **dict.fromkeys(names, url)}
    made = Catalog(("provider:openai:mine",), environ, tmp_path)
    assert made.refresh() is False
    assert {"provider:openai:mine", "provider:groq:openai/gpt-oss-120b"} <= set(specs(made))
    assert made.window("provider:groq:openai/gpt-oss-120b") is None


def test_models_are_in_the_order_of_any_numbers() -> None:
    rows = [{"id": "first", "created": 10**400}, {"id": "last", "created": -1}, {"id": "middle", "created": 1.5}]
    found = listed("openai", {"data": [*reversed(rows), {"id": "without"}]})
    assert [each.title for each in found] == ["first", "middle", "without", "last"]


def test_providers_with_a_key_are_asked_at_their_address_with_their_key(server: LlmServer, tmp_path: Path) -> None:
    made = Catalog(("provider:openai:mine", "direct"), server.environment(), tmp_path)
    assert specs(made)[:2] == ["provider:openai:mine", "direct"]
    assert "provider:anthropic:claude-opus-5-5" in specs(made)
    server.lists["/v1/models"] = Answer(pieces=(json.dumps(CLAUDE).encode(),))
    assert made.refresh()
    keys = {asked.path.partition("?")[0]: asked.headers for asked in server.listed}
    assert keys["/v1beta/models"]["x-goog-api-key"] == "test-google-key"
    headers = [asked.headers for asked in server.listed if asked.path.startswith("/v1/models")]
    assert {each.get("x-api-key") or each.get("authorization") for each in headers} == {
        "sk-test-anthropic-key",
        "Bearer sk-test-openai-key",
        "Bearer test-mistral-key",
    }
    assert "provider:anthropic:claude-new" in specs(made)
    assert "provider:anthropic:claude-opus-5-5" not in specs(made)
    assert [model for model in made.offered if model.spec == "provider:google:gemini-9"] == [
        Listed("provider:google:gemini-9", "Gemini 9", 1_048_576)
    ]
    assert made.window("provider:anthropic:claude-new") == 200_000
    assert made.window("provider:anthropic:claude-old") is None
    assert made.window("direct") is None
    # What was answered is kept for the next process, and nothing is asked again on the same day.
    asked = len(server.listed)
    again = Catalog(("direct",), server.environment(), tmp_path)
    assert "provider:google:gemini-9" in specs(again)
    assert not again.refresh()
    assert len(server.listed) == asked
    later = Catalog(("direct",), server.environment(), tmp_path, now=lambda: os.stat(tmp_path / FILE).st_mtime + 90_000)
    later.refresh()
    assert len(server.listed) > asked
    assert "key" not in (tmp_path / FILE).read_text()
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [(FILE, 0o600)]


def test_a_model_whose_name_repeats_a_key_is_left_out(server: LlmServer, tmp_path: Path) -> None:
    environ = server.environment()
    key = environ["OPENAI_API_KEY"]
    rows = [{"id": f"m-{key}"}, {"id": "m", "display_name": key}, {"id": "n"}]
    server.lists["/v1/models"] = Answer(pieces=(json.dumps({"data": rows}).encode(),))
    made = Catalog((), environ, tmp_path)
    made.refresh()
    assert [spec for spec in specs(made) if spec.startswith("provider:openai:")] == ["provider:openai:n"]
    assert environ["OPENAI_API_KEY"] not in (tmp_path / FILE).read_text()


def test_an_answer_of_another_address_does_not_count(server: LlmServer, tmp_path: Path) -> None:
    environ = server.environment()
    Catalog((), environ, tmp_path).refresh()
    other = {**environ, "OPENAI_BASE_URL": "http://localhost:1/v1"}
    assert not [spec for spec in specs(Catalog((), other, tmp_path)) if spec.startswith("provider:openai:")]


def test_newest_chat_models_come_first() -> None:
    assert listed("openai", CHAT) == [
        Listed("provider:openai:newer", "newer", 8_192),
        Listed("provider:openai:older", "older"),
    ]


def test_without_a_key_nothing_is_asked(tmp_path: Path) -> None:
    made = Catalog(("direct",), {}, tmp_path)
    assert not made.refresh()
    assert specs(made) == ["direct"]
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(401, (b'{"error": "no"}',)),
        Answer(pieces=(b"<html>",)),
        Answer(pieces=(b"[]",)),
        Answer(pieces=(b'{"data": 5}',)),
        Answer(pieces=(b'{"data": [5, {"id": 7}, {"id": "a\\nb"}, {"id": ""}]}',)),
        Answer(pieces=(b'{"data": [' + b'{"id": "x"},' * 1_000_000 + b'{"id": "x"}]}',)),
        Answer(pieces=(b"\xff\xfe",)),
        Answer(307, headers={"Location": "http://127.0.0.1:1/elsewhere"}),
        Answer(pieces=(b"[" * 100_000,)),
    ],
    ids=["refused", "html", "list", "number", "rows", "huge", "bytes", "redirect", "deep"],
)
def test_a_bad_answer_leaves_the_known_models(answer: Answer, server: LlmServer, tmp_path: Path) -> None:
    server.lists["/v1beta/models"] = answer
    environ = {name: value for name, value in server.environment().items() if "GOOGLE" in name}
    made = Catalog((), environ, tmp_path)
    assert not made.refresh()
    assert "provider:google:gemini-4-carbon" in specs(made)


@pytest.mark.parametrize("kept", [b"", b"{", b"[]", b'{"google": 5}', b"\xff"])
def test_a_damaged_file_counts_as_none(kept: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(kept)
    assert "provider:google:gemini-4-carbon" in specs(Catalog((), {"GOOGLE_API_KEY": "k"}, tmp_path))


def test_a_folder_that_cannot_be_written_only_costs_another_question(server: LlmServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = Catalog((), server.environment(), tmp_path / "file")
    assert made.refresh()
    assert "provider:google:gemini-9" in specs(made)


def test_a_slow_answer_is_given_up(server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "ASK_SECONDS", 0.2)
    server.lists["/v1beta/models"] = Answer(pieces=(b"{",), hang=True)
    environ: dict[str, Any] = {name: value for name, value in server.environment().items() if "GOOGLE" in name}
    assert not Catalog((), environ, tmp_path).refresh()
