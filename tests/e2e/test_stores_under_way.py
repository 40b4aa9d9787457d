"""What becomes of sessions when their store is taken away, fills up, may not be written or is kept locked, for real."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Agent
from tests.support.scripts import last_value, load, logged

HELD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement)
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(state: Path, *statements: str) -> Iterator[None]:
    """Another process has executed the statements on the database, and has it open meanwhile."""
    command = [sys.executable, "-c", HELD, str(state / "sessions.db"), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdin
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.stdin.close()
            holder.wait(20)


def prompted(agent: Agent, session: str, text: str, seconds: float = 40.0) -> dict[str, Any]:
    """The response to a prompt, whatever it is."""
    return agent.response(agent.begin_prompt(session, text), seconds)


def refused(agent: Agent, session: str, text: str) -> str:
    """The sentence with which a prompt is refused."""
    response = prompted(agent, session, text)
    assert "error" in response, response
    return str(response["error"]["message"])


def said(agent: Agent) -> str:
    """All that the agent has said in messages."""
    return "".join(update["content"]["text"] for update in agent.updates("agent_message_chunk"))


def works_in_memory(agent: Agent, work: Path, reason: str) -> str:
    """A new session runs statements, and says that nothing of it is kept. Returns its id."""
    session = agent.new_session(work)
    assert agent.prompt(session, "6 * 7") == "end_turn"
    assert last_value(agent) == "42"
    assert "This session is not saved: it ends with this process." in said(agent)
    assert reason in said(agent)
    assert f"session {session} is in memory only" in agent.stderr.decode()
    assert "Traceback" not in agent.stderr.decode()
    return session


@contextlib.contextmanager
def mounted(at: Path, *options: str) -> Iterator[None]:
    subprocess.run(["mount", *options, str(at)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def can_mount() -> bool:
    probe = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True).returncode == 0


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize(
    "gone", ["removed", *(pytest.param(each, marks=pytest.mark.slow) for each in ("replaced", "renamed", "directory"))]
)
def test_next_prompt_notices_a_removed_store(tmp_path: Path, work: Path, gone: str) -> None:
    state = tmp_path / "state"
    with Agent(state) as agent:
        session = agent.open(work)
        assert agent.prompt(session, "x = 1") == "end_turn"
        match gone:
            case "removed":
                for file in state.glob("sessions.db*"):
                    file.unlink()
            case "replaced":
                shutil.copy(state / "sessions.db", tmp_path / "copy.db")
                os.replace(tmp_path / "copy.db", state / "sessions.db")
            case "renamed":
                os.rename(state / "sessions.db", state / "moved.db")
            case _:
                os.rename(state, tmp_path / "moved")
        sentence = refused(agent, session, "x = 2")
        assert "was removed or replaced during use, so nothing more is saved" in sentence
        assert refused(agent, session, "x = 3") == sentence
        if gone == "removed":
            assert not (state / "sessions.db").exists()
            assert "was removed or replaced" in agent.error("session/list", {})["message"]
            works_in_memory(agent, work, "was removed or replaced")


@pytest.mark.slow
def test_locked_store_is_written_once_unlocked(tmp_path: Path, work: Path) -> None:
    state = tmp_path / "state"
    with Agent(state) as agent:
        session = agent.open(work)
        assert agent.prompt(session, "x = 1") == "end_turn"
        with held(state, "BEGIN IMMEDIATE"):
            sentence = refused(agent, session, "x = 2")
            assert "another process kept the database locked; end that process" in sentence
            assert "events are saved when the lock is released" in sentence
            assert "another process kept the database locked" in refused(agent, session, "x = 3")
        agent.until(lambda message: "x = 2" in str(message))  # shown when it is kept
        assert agent.prompt(session, "x") == "end_turn"
        assert last_value(agent) == "2"
        agent.call("session/close", {"sessionId": session})
    log = logged(state, session)
    assert [event["seq"] for event in log] == list(range(len(log)))
    assert [event["text"] for event in log if event["kind"] == "user_message"] == ["x = 1", "x = 2", "x"]
    assert [event["reason"] for event in log if event["kind"] == "run_stop"] == ["completed"] * 3


@pytest.mark.slow
def test_full_disk_keeps_sessions_readable_and_new_ones_in_memory(tmp_path: Path, work: Path) -> None:
    if not can_mount():
        return  # `tests/engine/log/store` fills a quota where nothing can be mounted
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with mounted(state, "-t", "tmpfs", "-o", "size=2m", "none"):
        with Agent(state) as agent:
            session = agent.open(work)
            assert agent.prompt(session, "x = 1") == "end_turn"
            fill(state)
            sentence = refused(agent, session, "print('y' * 60_000)")
            assert "the disk is full; free some space" in sentence
            assert refused(agent, session, "2") == sentence
        with Agent(state) as agent:
            agent.initialize()
            (listed,) = agent.call("session/list", {})["sessions"]
            assert listed["sessionId"] == session
            load(agent, session, work)
            assert "x = 1" in str(agent.updates("tool_call"))
            fill(state)
            works_in_memory(agent, work, "free some space")
            (state / "ballast").unlink()
            assert agent.prompt(agent.new_session(work), "'kept'") == "end_turn"
        assert "kept" in str([logged(state, row["sessionId"]) for row in listed_by(state)])


def fill(state: Path) -> None:
    """Leaves no room on the disk of the store."""
    with contextlib.suppress(OSError), open(state / "ballast", "ab", buffering=0) as ballast:
        while ballast.write(b"x" * 4096):
            pass


def listed_by(state: Path) -> list[dict[str, Any]]:
    with Agent(state) as agent:
        agent.initialize()
        rows: list[dict[str, Any]] = agent.call("session/list", {})["sessions"]
        return rows


@pytest.mark.slow
@pytest.mark.parametrize("how", ["mounted", "immutable"])
def test_read_only_store_can_be_read_and_loaded(tmp_path: Path, work: Path, how: str) -> None:
    if not can_mount():
        return  # rights do not bind root, and another user may not reach the interpreter
    state = tmp_path / "state"
    with Agent(state) as agent:
        session = agent.open(work)
        assert agent.prompt(session, "x = 1") == "end_turn"
    if how == "mounted":
        with mounted(state, "-o", "bind,ro", str(state)):
            read_only(state, work, session)
        return
    files = [str(path) for path in (state / "sessions.db", state / "locks", state)]
    if subprocess.run(["chattr", "+i", *files], capture_output=True).returncode != 0:
        return  # this file system knows no such files
    try:
        read_only(state, work, session)
    finally:
        subprocess.run(["chattr", "-i", *reversed(files)], check=True)


def read_only(state: Path, work: Path, session: str) -> None:
    with Agent(state) as agent:
        agent.initialize()
        (listed,) = agent.call("session/list", {})["sessions"]
        assert listed["sessionId"] == session
        load(agent, session, work)
        assert "x = 1" in str(agent.updates("tool_call"))
        assert "read-only" in refused(agent, session, "x = 2")
        works_in_memory(agent, work, "writable")
        assert f"session {session} is opened read-only" in agent.stderr.decode()
