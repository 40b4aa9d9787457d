"""Criterion 4: the projection contains handle digests, group summaries, and deltas since the last turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.llm_server import llm_server
from tests.support.played import MODEL, play, tail

NEW = "Changed since your last statement:\n"
BEFORE = "Changed, and not shown since:\n"
"""Where nothing is new."""
TABLE = "Handles (name: type, document, mode, lod, tokens used/budget):\n"


def part(tail: str, heading: str) -> str:
    """What stands below a heading of the tail, up to the next one."""
    found = tail.partition(heading)[2]
    for other in (NEW, BEFORE, TABLE, "Groups, as they are now:\n"):
        found = found.partition(other)[0]
    return found


@pytest.mark.slow
def test_prompt_has_handles_groups_and_changes_since_the_last(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    file = project / "tally.py"
    file.write_text("def tally(words):\n    return len(words)\n")
    (project / "notes.md").write_text("# Notes\n\nCount the words.\n")
    with llm_server() as server, Agent(tmp_path / "state", *MODEL, env=server.environment()) as agent:
        session = agent.open(project)
        prompts = play(
            agent,
            server,
            session,
            "tally = view('tally.py', freq='Sync'); notes = view('notes.md', tokens=All)",
            "work = group(tally, notes, tokens=300)",
        )
        nothing, _, made = map(tail, prompts)
        assert TABLE not in nothing
        digests = part(made, TABLE)
        assert "tally: view tally.py, running Sync, lod 0, " in digests
        assert "notes: view notes.md, paused, lod 0, " in digests
        assert "/All" in digests
        assert "work: group tally, notes, running Sync, " in digests
        assert NEW not in made

        file.write_text("def counted(words):\n    return len(words)\n")
        (changed,) = map(tail, play(agent, server, session))
        assert "tally: 1 line changed in tally.py" in part(changed, NEW)
        assert "+def counted(words):" in part(changed, NEW)
        summary = part(changed, "Groups, as they are now:\n")
        assert "work" in summary
        assert "counted" in summary
        assert "tally: view tally.py, running Sync" in part(changed, TABLE)

        (quiet,) = map(tail, play(agent, server, session))
        assert NEW not in quiet
        assert "+def counted(words):" in part(quiet, BEFORE)

        asked = len(server.asked)
        assert agent.prompt(session, "/context") == "end_turn"
        assert len(server.asked) == asked
        assert "what changes it" in agent.text()
