"""Sessions of a server in clones of a git repository, with real processes: lost clones, a killed agent, removal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import psutil
import pytest

from tests.support.environments import until
from tests.support.git_origins import Origin, state_of
from tests.support.ray_nodes import is_host
from tests.support.remote import add_token, forget_connections, over_websocket, serving
from tests.support.scripts import runs
from tests.support.transcripts import NoAnswerError

pytestmark = pytest.mark.anyio
forgotten = pytest.fixture(autouse=True)(forget_connections)
PROGRAM = str(Path(sys.executable).parent / "rewindow")
EDITS = "w = write('a.txt', 'two\\n'); import os; os.remove('gone.txt'); os.chmod('run.sh', 0o755); x = 42"
UNFINISHED = "w = write('late.txt', 'late'); x = 0; import time; time.sleep(60)"


def command(state: Path, *arguments: str) -> str:
    done = subprocess.run(
        [PROGRAM, *arguments],
        env={**os.environ, "REWINDOW_STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


async def test_a_session_goes_on_in_a_new_clone(tmp_path: Path) -> None:
    origin, place, state = Origin(tmp_path / "origin"), tmp_path / "work", tmp_path / "state"
    token = add_token(state)
    arguments = ("--workspaces", f"{place}={origin.path}")
    with serving(state, *arguments) as server:
        async with over_websocket(server, token) as client:
            await client.initialize()
            params = {"cwd": str(place), "mcpServers": []}
            begun = [await client.begin("session/new", params) for _ in range(2)]
            answers = await client.responses(begun)
            session, other = [answers[each]["result"]["sessionId"] for each in begun]
            assert await client.prompt(session, EDITS) == "end_turn"
            listed = await client.call("session/list", {"cwd": str(place)})
            assert [row["cwd"] for row in listed["sessions"]] == [str(place / session)]
            before, untouched = state_of(place / session), state_of(place / other)
            assert before[0] != untouched[0] == ""
            await client.begin_prompt(session, UNFINISHED)
            await client.until(runs)
            (host,) = [each for each in psutil.Process(server.process.pid).children() if is_host(each)]
            await until((place / session / "late.txt").exists)
            host.kill()
            await anyio.to_thread.run_sync(host.wait, 30)
        shutil.rmtree(place)
        async with over_websocket(server, token) as again:
            await again.initialize()
            await again.load(session, place)
            assert await again.prompt(session, "x + 1") == "end_turn"
            assert again.text().endswith("43")
            assert "The clone" in again.text()
            (place / session / "late.txt").unlink(missing_ok=True)  # its record may not have been stored yet
            assert state_of(place / session) == before
    command(state, "delete", "--yes", session)
    assert os.listdir(place) == []
    for name in ("ses_gone", "kept"):
        (place / name).mkdir()
    (records,) = (state / "clones").iterdir()
    (records / "ses_gone").write_text(str(place / "ses_gone"))
    assert "removed 1 clone of" in command(state, "gc", "--older-than", "1h")
    assert os.listdir(place) == ["kept"]


async def test_a_repository_that_is_gone_is_an_error_of_the_request(tmp_path: Path) -> None:
    origin, place, state = Origin(tmp_path / "origin"), tmp_path / "work", tmp_path / "state"
    token = add_token(state)
    with serving(state, "--workspaces", f"{place}={origin.path}") as server:
        async with over_websocket(server, token) as client:
            session = await client.open(place)
            shutil.rmtree(origin.path)
            error = await client.error("session/new", {"cwd": str(place), "mcpServers": []})
            assert error["code"] == -32602
            assert error["message"].startswith(f"cannot clone {origin.path}: ")
            assert os.listdir(place) == [session]
            assert await client.prompt(session, "1 + 1") == "end_turn"
        async with over_websocket(server, token) as other:
            await other.initialize()
            with pytest.raises((AssertionError, NoAnswerError)):
                await other.load(session, tmp_path / "nowhere")
