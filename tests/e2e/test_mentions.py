"""What an editor attaches, through the real agent: the unsaved text, the place in it, the sentence around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Agent
from tests.support.scripts import load


@pytest.mark.slow
def test_mention_shows_unsaved_text_and_loads_unchanged(tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("saved\n" * 5000)
    unsaved = "".join(f"unsaved {number}\n" for number in range(1, 5001))
    uri = f"{(tmp_path / 'calc.py').as_uri()}#L4000:4003"
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "look at "},
        {"type": "resource", "resource": {"uri": uri, "text": unsaved}},
        {"type": "text", "text": " and "},
        {"type": "resource_link", "uri": "http://example.org/x", "name": "x"},
        {"type": "text", "text": ", and fix it"},
    ]
    with Agent(tmp_path / "state") as agent:
        session = agent.open(tmp_path)
        agent.call("session/prompt", {"sessionId": session, "prompt": blocks})
        assert agent.updates("tool_call") == []  # a mention is part of the prompt
        agent.prompt(session, "show(calc_py)")
        opened = agent.updates("tool_call_update")[-1]
        assert "\n4000\tunsaved 4000\n" in agent.text()
        assert opened["locations"][0]["path"] == str(tmp_path / "calc.py")
        assert "http://example.org/x was not opened: linked web pages are not fetched" in agent.text()
    with Agent(tmp_path / "state") as again:
        again.initialize()
        load(again, session, tmp_path)
        assert [update["content"] for update in again.updates("user_message_chunk")][: len(blocks)] == blocks
        again.prompt(session, "calc_py.revision.lines[0]")
        assert again.updates("tool_call_update")[-1]["_meta"]["rewindow"]["execution"]["value"] == "'unsaved 1'"
