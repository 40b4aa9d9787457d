"""`rewindow-mcp` as a host starts it: over standard input and output, in both eras, to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.mcp_clients import SCRIPT, Era, process

SECONDS = 30


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n")
    return root


def start(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(root.parent / "state")}
    command = [str(SCRIPT), *options]
    return subprocess.run(
        command, cwd=root, env=environ, input="", capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.anyio
async def test_a_client_views_a_file_in_a_process(project: Path) -> None:
    async with process(project) as caller:
        assert (await caller.text("view", path="a.txt")).startswith("a  a.txt  lines 1-2 of 2  ")


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_client_finds_its_view_in_the_next_process(project: Path, era: Era) -> None:
    async with process(project, "--session", "work", era=era) as caller:
        assert (await caller.text("view", path="a.txt")).startswith("a  a.txt  lines 1-2 of 2  ")
    (project / "a.txt").write_text("three\n")
    async with process(project, "--session", "work", era=era) as caller:
        assert "two" in await caller.text("view", name="a")
        assert "three" in await caller.text("view", name="a", refresh=True)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_name_that_is_no_text_ends_nothing(project: Path) -> None:
    (project / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"caf\xe9\n")
    async with process(project) as caller:
        assert "caf" in await caller.text("view", path=".")
        await caller.text("view", path="a.txt")


@pytest.mark.slow
def test_what_cannot_be_used_is_one_line_and_a_two(project: Path) -> None:
    for options, sentence in (
        (("--root", "nowhere"), "rewindow-mcp: nowhere is not a directory; name a project with --root DIR\n"),
        (("--session", "a b"), "rewindow-mcp: 'a b' is not a session name"),
    ):
        done = start(project, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_its_end_takes_everything_along(project: Path, how: str) -> None:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(project.parent / "state")}
    server = subprocess.Popen([str(SCRIPT)], cwd=project, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    call = {"name": "view", "arguments": {"path": "a.txt"}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()
    assert "one" in json.loads(server.stdout.readline())["result"]["content"][0]["text"]
    started = psutil.Process(server.pid).children(recursive=True)
    assert started
    if how == "SIGTERM":
        server.send_signal(signal.SIGTERM)
    else:
        server.stdin.close()
    assert server.wait(SECONDS) == (128 + signal.SIGTERM if how == "SIGTERM" else 0)
    _, left = psutil.wait_procs(started, SECONDS)
    assert not left
    server.stdin.close()
    server.stdout.close()


@pytest.mark.slow
def test_the_agent_loads_nothing_of_it() -> None:
    source = "import sys, acp_adapter.server; print([each for each in sys.modules if each.startswith('mcp')])"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_it_is_there_soon(project: Path) -> None:
    begun = time.monotonic()
    done = start(project, "--help")
    assert done.returncode == 0
    assert "rewindow-mcp --session work" in done.stdout
    assert time.monotonic() - begun < SECONDS / 10
