"""Questions for permission of a real agent: what they show, and what happens when the user closes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.editors import EDITORS
from tests.support.scripts import reason, scripted
from tests.support.transcripts import asks_permission


@pytest.mark.slow
def test_question_shows_every_line_and_closing_ends_the_turn(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    source = f"import os  # tidy up\nimport shutil\nshutil.rmtree({str(kept)!r})"
    model = scripted(tmp_path, *[{"statement": source}] * 7)
    with Agent(tmp_path / "state", "--model", model, permission=None, env={"REWINDOW_SANDBOX": "off"}) as agent:
        session = agent.open(tmp_path)
        prompt = agent.begin_prompt(session, "tidy up")
        question = agent.until(asks_permission)
        agent.answer(question, {"outcome": {"outcome": "cancelled"}})
        assert reason(agent.response(prompt)) == "cancelled"
        agent.quiet()
        assert sum(map(asks_permission, agent.received)) == 1
    assert kept.is_dir()
    asked = question["params"]["toolCall"]
    (announced,) = (call for call in agent.updates("tool_call") if call["toolCallId"] == asked["toolCallId"])
    for call in (asked, announced):
        drawn = {name: draw(call) for name, draw in EDITORS.items()}
        assert [name for name, text in drawn.items() if "rmtree" in text] == ["content", "everything"]
        assert drawn["title"] == "import os # tidy up … +2 lines"
