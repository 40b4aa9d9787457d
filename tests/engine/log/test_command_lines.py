"""What is secret of a command line that somebody gives a program to judge."""

from __future__ import annotations

import pytest

from engine.log.secrets import command_line_secrets

VALUE = "a1b2c3d4e5f6"


@pytest.mark.parametrize(
    "words",
    [
        ("agent", "--api-key", VALUE),
        ("env", f"API_KEY={VALUE}", "agent"),
        ("agent", "-c", f"model.api_key={VALUE}"),
        ("client", f"https://example.org/mcp#access_token={VALUE}"),
        ("client", "--header", f"Authorization: Bearer {VALUE}"),
    ],
)
def test_values_whose_names_look_secret_are_found(words: tuple[str, ...]) -> None:
    assert VALUE in command_line_secrets(words, {})


def test_other_words_are_none() -> None:
    assert command_line_secrets(("agent", "--name", VALUE, f"colour={VALUE}"), {}) == []
