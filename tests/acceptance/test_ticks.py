"""Criterion 3: running nodes update deterministically at tick boundaries, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.llm_server import LlmServer, llm_server
from tests.support.played import MODEL, play, result, tail

CHANGED = "Changed since your last statement"


def write(path: Path, text: str) -> None:
    """Writes as an editor does, with a time stamp of its own."""
    stamp = path.stat().st_mtime_ns + 10**9 if path.exists() else 10**18
    path.write_text(text)
    os.utime(path, ns=(stamp, stamp))


def played(folder: Path, server: LlmServer) -> list[str]:
    """One and the same session in a project of its own: what its prompts say of running views."""
    project = folder / "project"
    project.mkdir(parents=True)
    file = project / "log.txt"
    write(file, "one\n")
    with Agent(folder / "state", *MODEL, env=server.environment()) as agent:
        session = agent.open(project)
        _, made, same = play(
            agent,
            server,
            session,
            "log = view('log.txt', freq='Sync'); kept = view('log.txt')\n"
            "seldom = view('log.txt', freq=('Periodic', 86400)); slow = view('log.txt', freq='Sync')\n"
            "slow.min_turn_interval = 3",
            "open('log.txt', 'w').write('two\\n')\n[v.Render().text for v in (log, kept)]",
        )
        # Within the statement that changed the file the views are as they were; the tick before the next call tells.
        assert CHANGED not in tail(made)
        assert result(same).count("one") == 2
        assert "-one\n+two" in tail(same)
        write(file, "three\n")
        # A tick that a statement asks for brings the change into the statement, and the feed tells it once.
        asked, told, after = play(
            agent, server, session, "write_again = open('log.txt', 'w').write('four\\n'); tick(); log", "log.Render()"
        )
        assert "+three" in tail(asked)
        assert "+four" in tail(told)
        assert "1\tfour" in result(after)
        assert CHANGED not in tail(after)
        *_, shown = play(agent, server, session, "[v.Render().text for v in (log, kept, seldom, slow)]")
        # What is paused stays, what is periodic is not due, what is slowed down follows every third Round.
        assert result(shown) == str(["1\tfour\n", "1\tone\n", "1\tone\n", "1\tfour\n"])
        (last,) = play(agent, server, session)
        tails = [tail(each) for each in (made, same, asked, told, after, shown, last)]
    # Another process goes on with the same nodes, whatever the file holds by now; the next tick finds that.
    write(file, "five\n")
    with Agent(folder / "state", *MODEL, env=server.environment()) as agent:
        agent.initialize()
        agent.call("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []})
        prompts = play(agent, server, session, "[v.Render().text for v in (log, kept, seldom)]")
        assert "; compared with the text in statement 1 shows\n" in tail(prompts[0])
        assert "-one\n+five" in tail(prompts[0])
        assert result(prompts[-1]) == str(["1\tfive\n", "1\tone\n", "1\tone\n"])
        return [*tails, *map(tail, prompts)]


@pytest.mark.slow
def test_running_views_follow_files_only_at_ticks(tmp_path: Path) -> None:
    with llm_server() as server:
        first, second = (played(tmp_path / name, server) for name in ("first", "second"))
    assert first == second
