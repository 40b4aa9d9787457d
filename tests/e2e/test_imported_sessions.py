"""A conversation of another program, imported and gone on with over ACP."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.commands import COMMAND, SECONDS
from tests.support.foreign import DATA
from tests.support.scripts import last_value, load, logged

WORDS = {
    "openai.json": ("And docs?", "I will not."),
    "anthropic.json": ("Be brief.", "src holds main.py."),
    "openhands.jsonl": ("Thanks. Make docs?", "Shall I?"),
    "openhands-torn.jsonl": ("Thanks. Make docs?", "Shall I?"),
}


SECOND = ("anthropic.json", "openhands.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["openai.json", "openhands-torn.jsonl", *(pytest.param(name, marks=pytest.mark.slow) for name in SECOND)]
)
def test_an_imported_conversation_is_listed_loaded_and_gone_on_with(tmp_path: Path, name: str) -> None:
    state, work = tmp_path / "state", tmp_path / "work"
    work.mkdir()
    subprocess.run(
        [*COMMAND, "import", str(DATA / name), "--cwd", str(work), "--as", "ses_imported"],
        check=True,
        capture_output=True,
        env={**os.environ, "REWINDOW_STATE_DIR": str(state)},
        timeout=SECONDS,
    )
    with Agent(state) as agent:
        agent.initialize()
        (listed,) = agent.call("session/list", {})["sessions"]
        assert (listed["sessionId"], listed["cwd"]) == ("ses_imported", str(work))
        load(agent, "ses_imported", work)
        asked, said = WORDS[name]
        assert agent.updates("user_message_chunk")[-1]["content"]["text"] == asked
        assert agent.updates("agent_message_chunk")[-1]["content"]["text"] == said
        before = len(logged(state, "ses_imported"))
        assert agent.prompt("ses_imported", "6 * 7") == "end_turn"
        assert last_value(agent) == "42"
        agent.call("session/close", {"sessionId": "ses_imported"})
    log = logged(state, "ses_imported")
    assert log[before]["kind"] == "user_message"
    assert log[-1]["kind"] == "run_stop"
