"""Hostile session files and damaged stores in front of the real agent: sentences, and the others stay usable."""

from __future__ import annotations

import json
import random
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


@pytest.mark.slow
def test_a_doctor_over_a_store_of_hostile_sessions_ends_well(tmp_path: Path) -> None:
    """All that can be imported at once."""
    home = Home(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    intact(home.state, work)
    for number, file in enumerate(FILES):
        if file.name in FILE_SAMPLE:
            (home.path / "it").write_bytes(file.make(Session(work)))
            assert home.run("import", "it", "--as", f"ses_{number}").returncode == 0
    done = home.run_as_process("doctor")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(6))
def test_every_command_ends_on_a_store_with_flipped_bytes(round_: int, whole: Path, tmp_path: Path) -> None:
    """Bytes are changed at random in all of the database; a command may fail, with a sentence."""
    random_ = random.Random(round_)
    home = Home(tmp_path)
    for attempt in range(20):
        state = home.state.with_name(f"state{attempt}")
        damaged(Damage("", "store", lambda _: None), whole / "state", state)
        data = bytearray((state / "sessions.db").read_bytes())
        for _ in range(random_.choice((1, 1, 4, 40))):
            at = random_.randrange(len(data) if random_.random() < 0.8 else 4096)
            data[at : at + random_.choice((1, 1, 8, 100))] = random_.randbytes(1)
        (state / "sessions.db").write_bytes(data)
        for arguments in (
            ["sessions"],
            ["show", VICTIM],
            ["show", VICTIM, "--cycles", "--json"],
            ["export", VICTIM, "-f", "-o", "out"],
            ["gc", "--older-than", "99999d"],
            ["delete", VICTIM, "--yes"],
        ):
            done = home.run(*arguments, REWINDOW_STATE_DIR=str(state))
            assert done.returncode in (0, 1), (round_, attempt, arguments)
            assert is_sentences(done.stderr), (round_, attempt, arguments, done.stderr)
