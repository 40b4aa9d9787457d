"""Section 1.2 of the source: what a call would be now stands below what it was, commented out."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.agents import SECONDS, Agent
from tests.support.llm_answers import chat
from tests.support.llm_server import Asked, llm_server
from tests.support.played import MODEL, play, tail
from tests.support.scripts import load

pytestmark = pytest.mark.slow

PAST = "Statements that the summary replaces, with handles as they are now:\n"


def results(asked: Asked) -> list[str]:
    """The results in a prompt, in order."""
    return [str(each["content"]) for each in asked.body["messages"] if each["role"] == "tool"]


def renders(agent: Agent) -> dict[str, str]:
    """The calls that show the editor a new render, by their titles."""
    updates = [message["params"]["update"] for message in agent.received if message.get("method") == "session/update"]
    found = [update for update in updates if str(update.get("toolCallId", "")).startswith("rerendered_")]
    return {update["title"]: update["content"][0]["content"]["text"] for update in found}


def rewindow(state: Path, *arguments: str) -> str:
    """What the command prints."""
    command = [str(Agent.command().parent / "rewindow"), *arguments]
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(state)}
    return subprocess.run(command, env=environ, capture_output=True, check=True, timeout=SECONDS, text=True).stdout


def opened(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    lines = (f"def part_{number}(value):\n    return value + {number}\n" for number in range(300))
    (project / "parts.py").write_text("\n\n".join(lines))
    return project


def test_tail_shows_condensed_statements_with_current_names(tmp_path: Path) -> None:
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
            'parts = view(path, pos="0:0", tokens=All, lod=1)\n'
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
        assert '\nparts = view(path, pos="0:0", tokens=90, lod=1, freq="Sync")\n' in tail(again)
        assert '# parts = view(path, pos="0:0", tokens=2000)  # statement 1, until statement 3\n' in tail(again)


@pytest.mark.parametrize("rule", ["economic", "never"])
def test_smaller_handle_budget_shrinks_results_that_show_it(tmp_path: Path, rule: str) -> None:
    project = opened(tmp_path)
    options = (*MODEL, "--projection-rerender", rule)
    with llm_server() as server, Agent(tmp_path / "state", *options, env=server.environment()) as agent:
        session = agent.open(project)
        first, *_, still, less = play(
            agent,
            server,
            session,
            "parts = view('parts.py', tokens=1500)",
            "print('word ' * 9000)",
            "parts.SetTokens(60)",
            "more = view('parts.py', 'part_200', tokens=1500)",
            "more.SetTokens(60)",
        )
        assert "def part_40" not in str(first.body)
        texts = results(less)
        assert "def part_40(" in texts[0], "9,000 tokens stand behind it that would be read anew"
        assert ("def part_210(" in texts[3]) is (rule == "never")
        assert "[parts.py:801 (part_200)]\n" in texts[3]
        assert results(still)[:3] == texts[:3]
        # The next call reads everything behind a summary anew.
        server.answers.append(chat("It was read."))
        assert agent.prompt(session, "/compact") == "end_turn"
        play(agent, server, session, "last = view('parts.py', tokens=900)")
        (before,) = play(agent, server, session)
        *_, after = play(agent, server, session, "last.SetTokens(50)")
        assert ("def part_20(" in results(after)[0]) is (rule == "never")
        assert len(results(after)[0]) < len(results(before)[0]) or rule == "never"
        told = renders(agent)
        agent.kill()
        with Agent(tmp_path / "state", *options, env=server.environment()) as other:
            other.initialize()
            load(other, session, project)
            assert renders(other) == told
    numbers = {"never": [], "economic": [4, 6]}[rule]
    assert list(told) == [f"Render the result of statement {number} again for the model" for number in numbers]
    assert all("lines below" in text for text in told.values())
    shown = rewindow(tmp_path / "state", "show", session)
    assert ["rendered 4> # more = view(" in shown, "rendered 6> " in shown] == [bool(numbers)] * 2


def test_projection_shows_a_call_before_and_after_a_rerender(tmp_path: Path) -> None:
    project = opened(tmp_path)
    with llm_server() as server, Agent(tmp_path / "state", *MODEL, env=server.environment()) as agent:
        session = agent.open(project)
        sources = ("parts = view('parts.py', tokens=900)", "parts.SetTokens(60)", "parts.SetLod(1).SetTokens(20)")
        read = list(map(results, play(agent, server, session, *sources)))
    rebuilt = [
        json.loads(rewindow(tmp_path / "state", "show", session, "--projection", str(number), "--json"))
        for number in range(1, 5)
    ]
    again = [[each["text"] for each in call["messages"] if each["role"] == "result"] for call in rebuilt]
    assert again == read
    assert len({texts[0] for texts in again[1:]}) == 3
