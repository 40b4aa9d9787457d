"""Section 1.2 of the source: what a call would be now stands below what it was, commented out.

The agent as an editor starts it, with a model whose replies are scripted and whose prompts are read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.llm_answers import chat
from tests.support.llm_server import llm_server
from tests.support.played import MODEL, play, tail
from tests.support.scripts import load

PAST = "Statements that the summary stands for, with handles as they are now:\n"


def opened(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    lines = (f"def part_{number}(value):\n    return value + {number}\n" for number in range(300))
    (project / "parts.py").write_text("\n\n".join(lines))
    return project


@pytest.mark.slow
def test_statements_that_condensation_took_stand_in_the_tail_as_they_would_be_written_now(tmp_path: Path) -> None:
    project = opened(tmp_path)
    with llm_server() as server, Agent(tmp_path / "state", *MODEL, env=server.environment()) as agent:
        session = agent.open(project)
        play(
            agent,
            server,
            session,
            'path = "parts.py"\nparts = view(path, pos="0:0", tokens=2000)\nfew = [view(path, tokens=60)]',
            "1 / 0",
            "parts.SetLod(1).SetTokens(All); few[0].SetPos('part_7')",
        )
        # What the model says when it is asked for a summary.
        server.answers.append(chat("The parts were looked at."))
        assert agent.prompt(session, "/compact") == "end_turn"
        asked_for_summary = str(server.asked[-1].body["messages"])
        assert "do not repeat them" in asked_for_summary
        (asked,) = play(agent, server, session)
        said = tail(asked)
        assert said.partition(PAST)[2].partition("Handles (")[0] == (
            "# statement 1\n"
            'path = "parts.py"\n'
            '# parts = view(path, pos="0:0", tokens=2000)  # statement 1, until statement 3\n'
            'parts = view(path, pos="0:0", lod=1, tokens=All)\n'
            '# line 3: view-1.2 is now at pos="part_7", tokens=60, lod=0\n'
            "few = [view(path, tokens=60)]\n"
            "# statement 2, error: ZeroDivisionError: division by zero\n"
            "1 / 0\n"
            "# statement 3\n"
            "parts.SetLod(1).SetTokens(All); few[0].SetPos('part_7')\n"
        )
        summary = str(asked.body["messages"])
        assert "The parts were looked at." in summary
        assert "def part_0" not in summary, "what the view gave went with its result"
        # It goes by what the handle is now, and stays when the agent is started anew.
        play(agent, server, session, "parts.SetTokens(90).Run()")
        agent.kill()
        with Agent(tmp_path / "state", *MODEL, env=server.environment()) as other:
            other.initialize()
            load(other, session, project)
            (again,) = play(other, server, session)
        assert '\nparts = view(path, pos="0:0", lod=1, tokens=90, freq="Sync")\n' in tail(again)
        assert '# parts = view(path, pos="0:0", tokens=2000)  # statement 1, until statement 3\n' in tail(again)
