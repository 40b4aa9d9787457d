"""Whole sessions over the wire: what an editor gets to see, and what a cancel and a crash leave behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.agents import Agent


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


def statement_runs(message: dict[str, Any]) -> bool:
    return message.get("params", {}).get("update", {}).get("status") == "in_progress"


def scripted(tmp_path: Path, *replies: dict[str, Any]) -> str:
    script = tmp_path / "replies.jsonl"
    script.write_text("\n".join(json.dumps(reply) for reply in replies))
    return f"scripted:{script}"


def agent_texts(tmp_path: Path, session: str) -> str:
    """What the session's log holds as agent text."""
    return "".join(event["text"] for event in logged(tmp_path, session) if event["kind"] == "agent_text")


def logged(tmp_path: Path, session: str) -> list[dict[str, Any]]:
    return logged_in(tmp_path / "state", session)


def logged_in(state_dir: Path, session: str) -> list[dict[str, Any]]:
    """The session's log, as another process reads it."""
    done = subprocess.run(
        [str(Agent.command().parent / "rewindow"), "show", session, "--events"],
        env={**os.environ, "REWINDOW_STATE_DIR": str(state_dir)},
        capture_output=True,
        check=True,
        timeout=30,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_flood_of_output_is_bounded_and_counted(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "import sys\nfor _ in range(50): sys.stdout.write('x' * 1_000_000)")
    last = agent.updates("tool_call_update")[-1]
    assert last["_meta"]["rewindow"]["execution"]["stdoutBytes"] == 50_000_000
    assert len(last["content"][0]["content"]["text"]) < 80_000


@pytest.mark.slow
def test_no_process_is_left_however_the_agent_ends(tmp_path: Path) -> None:
    for end in ("close", "kill"):
        agent = Agent(tmp_path / end)
        session = agent.open(tmp_path)
        agent.prompt(session, "import subprocess; child = subprocess.Popen(['sleep', '600'])")
        family = psutil.Process(agent.process.pid).children(recursive=True)
        assert len(family) >= 3  # zygote, worker, sleep
        getattr(agent, end)()
        _, alive = psutil.wait_procs(family, timeout=10)
        assert alive == []


@pytest.mark.slow
def test_another_process_can_read_a_session_that_is_open(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "x = 1")
    kinds = [event["kind"] for event in logged(tmp_path, session)]
    assert kinds[0] == "session_opened"
    assert kinds[-1] == "run_stop"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0, reason="mounting needs root; tests/engine/log/store has the same without a mount"
)
def test_a_full_disk_is_said_and_what_was_acknowledged_stays(small_disk: Path, tmp_path: Path) -> None:
    with Agent(small_disk) as agent:
        session = agent.open(tmp_path)
        assert agent.prompt(session, "kept = 1") == "end_turn"
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        prompt = agent.begin_prompt(session, f"text = {'y' * 200_000!r}")
        error = agent.response(prompt)["error"]
        assert "read-only" in error["message"]
        assert "full" in error["message"]
        assert "read-only" in agent.error("session/prompt", prompt_of(session, "1"))["message"]
        filler.unlink()
    kinds = [event["kind"] for event in logged_in(small_disk, session)]
    assert kinds.count("run_stop") == 1


def prompt_of(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
