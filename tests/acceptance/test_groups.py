"""Criterion 2: groups summarize their members automatically, and are what is mainly projected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.llm_server import llm_server
from tests.support.played import MODEL, play, result, tail

pytestmark = pytest.mark.slow


def written(project: Path, name: str, functions: int) -> None:
    lines = [f"def {name}_{number}(value: int) -> int:\n    return value + {number}\n" for number in range(functions)]
    (project / "src").mkdir(exist_ok=True)
    (project / f"src/{name}.py").write_text("\n\n".join(lines))


def test_prompt_shows_groups_with_summaries_of_their_members(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("alpha", "beta"):
        written(project, name, 30)
    (project / "notes.md").write_text("# Notes\n\nNothing yet.\n")
    with llm_server() as server, Agent(tmp_path / "state", *MODEL, env=server.environment()) as agent:
        session = agent.open(project)
        _, made, named = play(
            agent,
            server,
            session,
            "notes = view('notes.md', tokens=300, freq='Sync')\ncode = group('src/**/*.py', notes, tokens=900)",
            "1 + 1",
        )
        # Made: a summary of all members within its budget, in the statement's result, once.
        assert "# src/alpha.py\n" in result(made)
        assert "alpha_0" in result(made)
        assert "# notes: notes.md" in result(made)
        assert "Shown in results: code (statement 1)" in tail(named)
        assert "alpha_0" not in tail(named)
        # Members change, come and go between the prompts, and nobody asks for anything.
        written(project, "gamma", 30)
        (project / "src/beta.py").unlink()
        (project / "notes.md").write_text("# Notes\n\nDecide on gamma.\n")
        (first,) = play(agent, server, session)
        shown = tail(first)
        assert "Groups, as they are now:\ncode (group of src/**/*.py, notes):\n" in shown
        assert "# src/gamma.py\n" in shown
        assert "gamma_0" in shown
        assert "# src/beta.py" not in shown
        assert (
            "code: 1 of 2 members changed: notes; files of src/**/*.py: 1 new (src/gamma.py), 1 gone (src/beta.py)"
            in shown
        )
        # Its members are named in the table and not rendered again beside it.
        assert shown.count("alpha_0") == 1
        assert "notes: view notes.md" in shown
        # Told once, shown as long as no result shows it.
        (second,) = play(agent, server, session)
        assert "Changed since your last statement" not in tail(second)
        assert "gamma_0" in tail(second)
        # A finer or coarser one is a matter of a call; a pause freezes it.
        *_, last = play(agent, server, session, "show(code.SetLod(2).SetTokens(200))", "code.Pause()")
        assert "Shown in results: code (statement 3)" in tail(last)
        written(project, "delta", 3)
        (third,) = play(agent, server, session)
        assert "delta" not in tail(third)


def test_many_files_are_listed_until_their_overview_is_prepared(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src/core.py").write_text("class Engine:\n    def run(self) -> None:\n        pass\n")
    for number in range(120):
        used = "from src.core import Engine\n\n" if number % 2 else ""
        (project / f"src/part_{number:03}.py").write_text(f"{used}def part_{number}():\n    return Engine().run()\n")
    with llm_server() as server, Agent(tmp_path / "state", *MODEL, env=server.environment()) as agent:
        session = agent.open(project)
        _, made = play(agent, server, session, "code = group('src', tokens=400)")
        assert "src/ 121 files" in result(made)
        for _ in range(60):  # each a Round, whose tick is given what is ready
            (asked,) = play(agent, server, session)
            if "src/core.py: Engine" in tail(asked):
                break
        assert "src/core.py: Engine\n" in tail(asked)
        assert "files that are referenced less\n" in tail(asked)
