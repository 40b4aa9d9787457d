"""acpx, an ACP client that is not ours, runs one-shot prompts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.agents import AGENT
from tests.support.node import command

pytestmark = pytest.mark.slow

SECONDS = 60


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {**os.environ, "HOME": str(tmp_path / "home"), "REWINDOW_STATE_DIR": str(tmp_path / "state")}


def acpx(*arguments: str) -> list[str]:
    return [*command("acpx", "dist/cli.js"), "--agent", str(AGENT), *arguments]


def test_acpx_reads_every_message_of_a_prompt_in_strict_json(tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        acpx("--cwd", str(tmp_path), "--format", "json", "--json-strict", "exec", "x = 6 * 7\nprint('hello')\nx"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    updates = [message["params"]["update"] for message in messages if message.get("method") == "session/update"]
    ended = [update for update in updates if update.get("status") == "completed"]
    assert [block["content"]["text"] for block in ended[0]["content"]] == ["```\nhello\n```"]
    answers = [update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    assert answers == ["42"]
    results: list[Any] = [message["result"] for message in messages if "result" in message]
    assert results[-1]["stopReason"] == "end_turn"


def test_ctrl_c_in_acpx_cancels_and_leaves_no_process(tmp_path: Path, environment: dict[str, str]) -> None:
    client = subprocess.Popen(
        acpx("--cwd", str(tmp_path), "--format", "json", "--json-strict", "exec", "while True: pass"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert client.stdout
    seen: list[str] = []
    for line in client.stdout:
        seen.append(line)
        if '"in_progress"' in line:
            break
    client.send_signal(signal.SIGINT)
    rest, _ = client.communicate(timeout=SECONDS)
    messages = [json.loads(line) for line in [*seen, *rest.splitlines()]]
    assert [message for message in messages if message.get("method") == "session/cancel"]
    assert messages[-1]["result"] == {"stopReason": "cancelled"}
    assert [process for process in psutil.process_iter() if _session_of(process) == client.pid] == []


def _session_of(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None
