"""Hostile session files and damaged stores in front of the real agent: sentences, and the others stay usable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Agent
from tests.support.commands import Home
from tests.support.damage import DAMAGES, FIRST, OTHERS, VICTIM, Damage, damaged, intact
from tests.support.hostile import FILES, HostileFile, Session

SECONDS = 60.0
FILE_SAMPLE = {"used in the year 3,170,843", "a summary beyond 64 bits"}
DAMAGE_SAMPLE = {"title undecodable"}


def slow_but(sample: set[str], rows: tuple[Any, ...]) -> list[Any]:
    return [pytest.param(row, id=row.name, marks=() if row.name in sample else pytest.mark.slow) for row in rows]


def is_sentences(text: str) -> bool:
    """Whether each line of what a command complains of is one, and none is a traceback."""
    return all(line.startswith(("rewindow: ", "warning: ")) and len(line) < 700 for line in text.splitlines())


class Place:
    """A store of sessions that are well, with an agent that is running over it."""

    def __init__(self, path: Path) -> None:
        self.home = Home(path)
        self.work = path / "work"
        self.work.mkdir()
        intact(self.home.state, self.work)
        self.agent = Agent(self.home.state)
        self.agent.initialize()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("place"))
    with made.agent:
        yield made


def listed(agent: Agent) -> set[str]:
    return {row["sessionId"] for row in agent.call("session/list", {}, SECONDS)["sessions"]}


def loaded(agent: Agent, session: str, work: Path) -> str | None:
    """Loads it, prompts it and closes it; or the sentence with which that is refused."""
    params = {"sessionId": session, "cwd": str(work), "mcpServers": []}
    response = agent.response(agent.begin("session/load", params), SECONDS)
    if "error" in response:
        return str(response["error"]["message"])
    content = [{"type": "text", "text": "6 * 7"}]
    response = agent.response(agent.begin("session/prompt", {"sessionId": session, "prompt": content}), SECONDS)
    agent.call("session/close", {"sessionId": session}, SECONDS)
    return str(response["error"]["message"]) if "error" in response else None


@pytest.mark.parametrize("file", slow_but(FILE_SAMPLE, FILES))
def test_hostile_file_is_refused_or_becomes_a_working_session(file: HostileFile, place: Place) -> None:
    home, agent = place.home, place.agent
    (home.path / "it").write_bytes(file.make(Session(place.work)))
    before = {json.loads(line)["session_id"] for line in home.run("sessions", "--jsonl").stdout.splitlines()}
    done = home.run("import", "it", "--cwd", str(place.work)) if not is_ours(home) else home.run("import", "it")
    assert done.returncode in (0, 1)
    assert is_sentences(done.stderr), done.stderr
    assert bool(done.returncode) <= bool(done.stderr)
    rows = [json.loads(line)["session_id"] for line in home.run("sessions", "--jsonl").stdout.splitlines()]
    new = set(rows) - before
    assert len(new) == (done.returncode == 0)
    assert set(OTHERS) <= listed(agent)
    for session in new:
        assert session in listed(agent)
        assert loaded(agent, session, place.work) is None
        for arguments in (["show", session], ["show", session, "--events"], ["show", session, "--cycles", "--json"]):
            shown = home.run(*arguments)
            assert (shown.returncode, shown.stderr) == (0, "")
            assert "\x1b" not in shown.stdout
        table = home.run("sessions")
        assert all(other in table.stdout for other in OTHERS)
        assert home.run("export", session, "-f", "-o", "again.jsonl").returncode == 0
        assert home.run("import", "again.jsonl", "--as", "ses_again").returncode == 0
        assert home.run("delete", session, "ses_again", "--yes").returncode == 0
    assert home.run("gc", "--older-than", "99999d", "--dry-run").returncode == 0
    assert "Traceback" not in agent.stderr.decode()
    assert loaded(agent, FIRST, place.work) is None


def is_ours(home: Home) -> bool:
    return (home.path / "it").read_bytes()[:20].lstrip().startswith(b'{"format')


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("whole")
    (made / "work").mkdir()
    intact(made / "state", made / "work")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("damage", slow_but(DAMAGE_SAMPLE, DAMAGES))
def test_agent_reports_a_damaged_store_and_continues(damage: Damage, whole: Path, tmp_path: Path) -> None:
    state, work = tmp_path / "state", whole / "work"
    damaged(damage, whole / "state", state)
    with Agent(state) as agent:
        agent.initialize()
        response = agent.response(agent.begin("session/list", {}), SECONDS)
        if damage.harm != "store":
            ids = {row["sessionId"] for row in response["result"]["sessions"]}
            assert ids >= set(OTHERS)
            assert len(ids) == 3
        for session in (VICTIM, *OTHERS):
            said = loaded(agent, session, work)
            if damage.harm == "recording":
                assert said is not None
                assert "is read-only" in said
                assert "restore it from a copy" in said
            elif damage.harm == "nothing" or (
                damage.harm != "store" and session != VICTIM and "lock" not in damage.name
            ):
                assert said is None
        session = agent.new_session(work)  # in memory where the store cannot take it
        assert agent.prompt(session, "6 * 7", seconds=SECONDS) == "end_turn"
        assert "Traceback" not in agent.stderr.decode()
