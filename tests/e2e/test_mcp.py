"""`rewindow-mcp` as a host starts it: over standard input and output, in both eras, to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support.mcp_clients import SCRIPT, process

SECONDS = 30


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n")
    return root


@pytest.mark.anyio
async def test_a_client_views_a_file_in_a_process(project: Path) -> None:
    async with process(project) as caller:
        assert (await caller.text("view", path="a.txt")).startswith("a  a.txt  lines 1-2 of 2  ")


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_name_that_is_no_text_ends_nothing(project: Path) -> None:
    (project / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"caf\xe9\n")
    async with process(project) as caller:
        assert "caf" in await caller.text("view", path=".")
        await caller.text("view", path="a.txt")


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
