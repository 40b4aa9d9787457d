"""Criterion 1: the model makes a view, changes its level and budget, and sees the updates in later statements."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.llm_server import llm_server
from tests.support.played import MODEL, play, result, tail
from tests.support.scripts import load

pytestmark = pytest.mark.slow

SOURCE = '''"""Counts what it is given."""

from collections import Counter


class Tally:
    """Counts words."""

    def __init__(self) -> None:
        self.words = Counter[str]()

    def add(self, text: str) -> None:
        """Counts the words of a text."""
        for word in text.split():
            self.words[word.lower()] += 1

    def most(self, number: int = 3) -> list[tuple[str, int]]:
        """The most frequent words."""
        return self.words.most_common(number)


''' + "".join(f"def helper_{number}(value: int) -> int:\n    return value * {number}\n\n\n" for number in range(40))


def test_model_makes_and_adjusts_a_view_and_sees_updates(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    file = project / "tally.py"
    file.write_text(SOURCE)
    with llm_server() as server, Agent(tmp_path / "state", *MODEL, env=server.environment()) as agent:
        session = agent.open(project)
        _, made, outlined, summed, moved = play(
            agent,
            server,
            session,
            "tally = view('tally.py', tokens=200)",
            "show(tally.SetLod(1).SetTokens(All))",
            "show(tally.SetLod(2))",
            "show(tally.SetLod(0).SetPos('Tally.most').SetTokens(60))",
        )
        assert '1\t"""Counts what it is given."""' in result(made)
        assert "lines below" in result(made)
        assert "tally: view tally.py, paused, lod 0" in tail(made)
        assert "lines of python" in result(outlined), "a grammar made it"
        assert "\tclass Tally" in result(outlined)
        assert "return value" not in result(outlined)
        assert "lod 1" in tail(outlined)
        assert "helper_1" in result(summed)
        assert "helper_39" in result(outlined), "each name, as far as the budget reaches"
        assert len(result(summed)) < len(result(outlined)) < len(SOURCE)
        assert "[tally.py:17 (Tally.most)]" in result(moved)
        assert "17\t    def most" in result(moved)
        assert "lod 0" in tail(moved)
        assert "/60" in tail(moved)

        file.write_text(SOURCE.replace("number: int = 3", "number: int = 5"))
        _, changed, again = play(agent, server, session, "show(tally.Refresh(), 3, 400)", "show(tally, 3, 400)")
        assert "1 change since statement 4: +1 -1" in result(changed)
        assert "-    def most(self, number: int = 3)" in result(changed)
        assert "+    def most(self, number: int = 5)" in result(changed)
        assert "(unchanged since statement 5)" in result(again)

        server.asked.clear()
        _, refused = play(agent, server, session, "tally.SetPos('Tally.mots')")
        assert "it has" in result(refused)
        assert '\\"Tally.most\\"' in result(refused)


def test_view_content_and_position_survive_an_agent_restart(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    file = project / "tally.py"
    file.write_text(SOURCE)
    with llm_server() as server:
        with Agent(tmp_path / "state", *MODEL, env=server.environment()) as agent:
            session = agent.open(project)
            play(agent, server, session, "tally = view('tally.py', 'Tally.most', 60); show(tally, lod=1, tokens=400)")
            file.write_text("# more\n" + SOURCE.replace("number: int = 3", "number: int = 5"))
            play(agent, server, session, "tally.Refresh()")
            agent.kill()
        file.write_text("class Other:\n    pass\n")
        with Agent(tmp_path / "state", *MODEL, env=server.environment()) as agent:
            agent.initialize()
            load(agent, session, project)
            _, outlined, changed, gone = play(
                agent,
                server,
                session,
                "show(tally, lod=1, tokens=400)",
                "show(tally, lod=3, tokens=400)",
                "show(tally.Refresh(), lod=2)",
            )
            assert "[tally.py:18 (Tally.most)]" in result(outlined)
            assert "lines of python" in result(outlined), "a grammar made it"
            assert "\tclass Tally" in result(outlined)
            assert "(unchanged since statement 3)" in result(changed)
            assert "[tally.py:2 (Tally.most is gone)]" in result(gone)
