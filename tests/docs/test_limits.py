"""The limits that the documentation names are those of the code."""

from __future__ import annotations

from pathlib import Path

from acp_adapter.jsonrpc.lines import MAX_LINE
from engine.log.user_message import BEGINNING_CHARS, EMBEDDED_CHARS, MAX_TEXT_CHARS
from engine.session.openings import MOST_OPENED
from engine.session.queue import MAX_QUEUED

CONFIGURATION = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_limits_of_what_an_editor_may_send_are_documented_as_they_are() -> None:
    text = CONFIGURATION.read_text()
    assert f"| {MAX_TEXT_CHARS:,} characters of text in one prompt |" in text
    assert f"({EMBEDDED_CHARS:,} characters of all that came with one prompt" in text
    assert f"its first {BEGINNING_CHARS:,} characters stay" in text
    assert f"| {MOST_OPENED} views that one prompt opens |" in text
    assert f"| {MAX_QUEUED} prompts that wait for their turns |" in text
    assert f"| {MAX_LINE:,} bytes in one message |" in text
