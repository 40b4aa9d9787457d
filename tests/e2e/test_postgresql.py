"""Sessions in PostgreSQL with real agents: two hosts, one that sleeps through its lease, and every program's option."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.store.postgresql.leases import LEASE_SECONDS
from engine.log.store.postgresql.store import PostgresqlStore
from tests.support.agents import SECONDS, Agent
from tests.support.postgresql import Server
from tests.support.scripts import last_value
from tests.support.stores import texts

PROGRAM = Path(sys.executable).parent / "rewindow"


@pytest.fixture
def server(postgresql: Callable[[str], Server]) -> Server:
    return postgresql("18")


@pytest.fixture
def address(server: Server) -> str:
    return server.new_database()


def descendants(agent: Agent) -> set[psutil.Process]:
    return set(psutil.Process(agent.process.pid).children(recursive=True))


def refusal(agent: Agent, session: str) -> str:
    """The message of the error that a prompt gets."""
    response = agent.response(agent.begin_prompt(session, "late = 3"))
    return str(response["error"]["message"])


def loaded(agent: Agent, session: str, work: Path) -> str:
    """Loads the session; returns the message of the error, "" for none."""
    response = agent.response(agent.begin("session/load", {"sessionId": session, "cwd": str(work), "mcpServers": []}))
    return str(response["error"]["message"]) if "error" in response else ""


def said(agent: Agent) -> str:
    return "".join(update["content"]["text"] for update in agent.updates("agent_message_chunk"))


def stored(address: str, session: str) -> list[str]:
    with closing(PostgresqlStore(address, SystemClock())) as store:
        return texts(store, SessionId(session))


@pytest.mark.slow  # it waits for a lease to expire
def test_a_host_that_slept_through_its_lease_writes_nothing_and_ends_its_worker(tmp_path: Path, address: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with (
        Agent(tmp_path / "one", "--store", address) as sleeper,
        Agent(tmp_path / "other", "--store", address) as other,
    ):
        sleeper.initialize()
        other.initialize()
        idle = descendants(sleeper)
        session = sleeper.new_session(work)
        assert sleeper.prompt(session, "x = 6 * 7") == "end_turn"
        workers = descendants(sleeper) - idle
        assert workers
        sleeper.process.send_signal(signal.SIGSTOP)
        try:
            deadline = time.monotonic() + LEASE_SECONDS + SECONDS
            while refused := loaded(other, session, work):
                assert "or wait 10 s if it was killed" in refused
                assert time.monotonic() < deadline
                time.sleep(0.2)
            assert other.prompt(session, "x + 1") == "end_turn"
            assert last_value(other) == "43"
            before = stored(address, session)
        finally:
            sleeper.process.send_signal(signal.SIGCONT)
        psutil.wait_procs(workers, timeout=SECONDS)
        assert not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers)
        assert "took it over" in refusal(sleeper, session)
        assert said(sleeper).count(f"Session {session} is closed here: process {other.process.pid} on ") == 1
        assert stored(address, session) == before == ["x = 6 * 7", "x + 1"]
        assert other.prompt(session, "x + 2") == "end_turn"
        assert last_value(other) == "44"


def test_a_session_goes_from_one_host_to_another(tmp_path: Path, address: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with Agent(tmp_path / "one", env={"REWINDOW_STORE": address}) as one:
        one.initialize()
        session = one.new_session(work)
        assert one.prompt(session, "x = 6 * 7") == "end_turn"
        with Agent(tmp_path / "other", "--store", address) as other:
            other.initialize()
            assert f"is in use by process {one.process.pid}" in loaded(other, session, work)
    with Agent(tmp_path / "other", "--store", address) as other:
        other.initialize()
        assert loaded(other, session, work) == ""
        assert other.prompt(session, "x + 1") == "end_turn"
        assert last_value(other) == "43"
    done = subprocess.run(
        [PROGRAM, "--store", address, "show", session], capture_output=True, text=True, timeout=SECONDS * 3
    )
    assert "x + 1" in done.stdout, done.stderr


def test_without_its_database_a_session_lives_in_memory_and_says_so(tmp_path: Path) -> None:
    with Agent(tmp_path / "state", "--store", f"postgresql://me@/x?host={tmp_path}") as agent:
        agent.initialize()
        session = agent.new_session(tmp_path)
        assert agent.prompt(session, "6 * 7") == "end_turn"
        assert last_value(agent) == "42"
        assert "This session is not saved: it ends with this process." in said(agent)


def rewindow(address: str, *arguments: str, code: int = 0) -> str:
    """Runs `rewindow --store ADDRESS`; returns what it prints."""
    done = subprocess.run(
        [PROGRAM, "--store", address, *arguments], capture_output=True, text=True, timeout=SECONDS * 3
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_command_works_on_the_database(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setenv("REWINDOW_STATE_DIR", str(tmp_path / "state"))
    work, kept = tmp_path / "work", tmp_path / "kept.jsonl"
    work.mkdir()
    with Agent(tmp_path / "state", "--store", address) as agent:
        agent.initialize()
        session = agent.new_session(work)
        assert agent.prompt(session, "x = 6 * 7") == "end_turn"
        assert f"session {session} is in use by process {agent.process.pid}" in rewindow(address, "doctor")
        assert "0 sessions" in rewindow(address, "gc", "--older-than", "1h", "--dry-run")
    assert session in rewindow(address, "sessions")
    assert "x = 6 * 7" in rewindow(address, "show", session)
    rewindow(address, "export", session, "-o", str(kept))
    other = server.new_database()
    rewindow(other, "import", str(kept))
    assert "x = 6 * 7" in stored(other, json.loads(rewindow(other, "sessions", "--json"))[0]["session_id"])
    report = rewindow(address, "doctor")
    assert "PostgreSQL 18" in report
    assert f"1 session in {address}" in report
    assert "no session is in use" in report
    assert not (tmp_path / "state" / "sessions.db").exists()
    rewindow(address, "delete", session, "--yes")
    assert session not in rewindow(address, "sessions")


def test_a_password_on_a_command_line_is_refused_and_not_shown(tmp_path: Path) -> None:
    address = "postgresql://me:word-1@127.0.0.1:1/x"
    for program in ("rewindow-acp", "rewindow-mcp", "rewindow"):
        command = [PROGRAM.parent / program, "--store", address, *(["sessions"] if program == "rewindow" else [])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 2, stdin=subprocess.DEVNULL)
        assert done.returncode in (1, 2)
        assert "has a password, which others could read there" in done.stderr
        assert "word-1" not in done.stdout + done.stderr


def test_a_password_in_the_environment_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWINDOW_STORE", "postgresql://me:word-1@127.0.0.1:1/x")
    monkeypatch.setenv("REWINDOW_STATE_DIR", str(tmp_path))
    for command in ("sessions", "doctor"):
        done = subprocess.run([PROGRAM, command], capture_output=True, text=True, timeout=SECONDS * 3)
        assert done.returncode == 1
        assert "postgresql://me@127.0.0.1:1/x" in done.stdout + done.stderr
        assert "word-1" not in done.stdout + done.stderr
