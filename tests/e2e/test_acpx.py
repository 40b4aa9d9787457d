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

from tests.support.acpx import opened
from tests.support.agents import AGENT
from tests.support.node import command
from tests.support.scripts import scripted

SECONDS = 60


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {**os.environ, "HOME": str(tmp_path / "home"), "REWINDOW_STATE_DIR": str(tmp_path / "state")}


def acpx(*arguments: str) -> list[str]:
    return [*command("acpx", "dist/cli.js"), "--agent", str(AGENT), *arguments]


@pytest.mark.slow
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


@pytest.mark.slow
def test_acpx_quiet_prints_the_answer_alone(tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        acpx("--cwd", str(tmp_path), "--format", "quiet", "exec", "6 * 7"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "42")


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        pytest.param("6 * 7", ["42"], marks=pytest.mark.slow),
        pytest.param("x = 41", ["  output:", "    (no output)"], marks=pytest.mark.slow),
        pytest.param("print('a')", ["  output:", "    ```", "    a", "    ```"], marks=pytest.mark.slow),
        pytest.param("print('a')\n'b'", ["  output:", "    ```", "    a", "    ```", "'b'"], marks=pytest.mark.slow),
        pytest.param(
            "notes = view('notes.md', tokens=100)", ["```", "[notes.md]", "1\t# Notes", "```"], marks=pytest.mark.slow
        ),
    ],
)
def test_acpx_shows_a_result_once_and_readable(
    tmp_path: Path, environment: dict[str, str], source: str, shown: list[str]
) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    done = subprocess.run(
        acpx("--cwd", str(tmp_path), "--format", "text", "exec", source),
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    ended = done.stdout.partition("(completed)\n")[2].splitlines()
    heading = ("  kind:", "  input:", "  files:", "[done]")
    assert [line for line in ended if line and not line.startswith(heading)] == shown


@pytest.mark.slow
def test_acpx_shows_what_a_statement_does_with_its_tools(tmp_path: Path) -> None:
    source = (
        "grep('t', 'a.py')\nedit('a.py', 'two', 'zwei')\nwrite('b/c.py', 'x = 1\\n')\nbash('cat a.py; exit 2').code"
    )
    model = scripted(tmp_path, {"statement": source}, {"text": "Done."})
    with opened(tmp_path, f"{AGENT} --model {model}") as client:
        (client.work / "a.py").write_text("one\ntwo\n")
        said = client.run("--approve-all", "--format", "text", "exec", "go")
    for part in (
        f'Search "t" in a.py (completed)\n  kind: search\n  input: a.py\n  files: {client.work}/a.py:2\n',
        "Edit a.py (+1 -1) (completed)\n  kind: edit\n",
        f"  input: a.py\n  files: {client.work}/a.py:2\n  output:\n    diff ",
        "Create b/c.py (+1) (completed)\n  kind: edit\n",
        "cat a.py; exit 2 (completed)\n  kind: execute\n  input: cat a.py; exit 2\n  output:\n",
        "    ```\n    one\n    zwei\n    ```\n    \n    exit code 2\n",
    ):
        assert part in said
    assert said.count("session/request_permission") == 3
