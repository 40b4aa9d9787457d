"""The command line: configurations that it prints, and options that it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import traceback
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from mcp_tools import cli
from mcp_tools.access import MISSING, VARIABLE
from mcp_tools.client_configs import FORMATS
from tests.support.mcp_clients import SCRIPT, process

SECONDS = 30


def printed(cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(cwd / "state")}
    return subprocess.run(
        [str(SCRIPT), *options], cwd=cwd, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.slow
def test_printed_configuration_starts_a_server(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    done = printed(tmp_path, "--root", ".", "--session", "work", "--state-dir", "kept", "--print-config", "claude")
    assert done.returncode == 0
    assert done.stderr.startswith("rewindow-mcp: put this into .mcp.json of the project")
    entry = json.loads(done.stdout)["mcpServers"]["rewindow"]
    assert entry["args"] == ["--root", str(tmp_path), "--session", "work", "--state-dir", str(tmp_path / "kept")]

    async def call() -> object:
        server = StdioServerParameters(command=entry["command"], args=entry["args"], cwd="/")
        with anyio.fail_after(SECONDS):
            async with Client(server) as client:
                return await client.call_tool("view", {"path": "a.txt"})

    assert "one" in str(anyio.run(call))


@pytest.mark.slow
def test_configuration_names_token_without_printing_it(tmp_path: Path) -> None:
    done = printed(tmp_path, "--http", "8765", "--print-config", "codex")
    token = (tmp_path / "state" / "mcp-token").read_text().strip()
    assert done.returncode == 0
    assert token not in done.stdout + done.stderr
    assert done.stderr.endswith(f"give the client {VARIABLE}; the token is in {tmp_path / 'state' / 'mcp-token'}\n")
    refused = printed(tmp_path, "--http", "0", "--print-config", "codex")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "rewindow-mcp: --print-config needs the port of the server, not 0\n"


def test_every_format_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for client in FORMATS:
        assert cli.main(["--print-config", client]) == 0
    assert "rewindow" in capsys.readouterr().out
    assert cli.main(["--structured", "--print-config", "codex"]) == 0
    assert 'args = ["--structured"]' in capsys.readouterr().out
    assert cli.main(["--print-config", "emacs"]) == 2
    assert "invalid choice: 'emacs'" in capsys.readouterr().err


@pytest.mark.anyio
@pytest.mark.parametrize("options", [("--root", "/nonexist"), ("--session", "../x"), ("--nope",)])
async def test_client_gets_the_reason_of_a_failed_start(tmp_path: Path, options: tuple[str, ...]) -> None:
    with pytest.raises(Exception) as refused:  # noqa: PT011 -- a group of the client's own tasks
        async with process(tmp_path, *options):
            pass
    said = "".join(traceback.format_exception(refused.value))
    assert "rewindow-mcp: " in said
    assert (f"--root /nonexist: {MISSING}" in said) == (options[0] == "--root")
    assert ("unrecognized arguments: --nope" in said) == (options[0] == "--nope")


@pytest.mark.parametrize("options", [("--nope", "--http", "0"), ("--nope", "--print-config=codex")])
def test_usage_error_without_stdio_client_writes_only_stderr(tmp_path: Path, options: tuple[str, ...]) -> None:
    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}\n'
    done = subprocess.run([SCRIPT, *options], input=asked, capture_output=True, check=False, timeout=30, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"rewindow-mcp: unrecognized arguments: --nope" in done.stderr


@pytest.mark.parametrize("first", [b"[]\n", pytest.param(b"", marks=pytest.mark.slow)])
def test_failed_start_without_request_writes_only_stderr(tmp_path: Path, first: bytes) -> None:
    done = subprocess.run(
        [SCRIPT, "--root", "/nonexist"], input=first, capture_output=True, check=False, timeout=30, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"--root /nonexist: {MISSING}" in done.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--http", "x"), "--http takes [HOST:]PORT with a port from 0 to 65535, not 'x'"),
        (("--http", "0", "--session", "a"), "--session cannot be combined with --http"),
        (("--http", "0", "--no-token", "--allow-run=unsandboxed"), "--no-token cannot be combined with --allow-run"),
        (("--http", "0.0.0.0:0", "--no-token"), "--no-token needs a loopback address"),
        (("--http", "0", "--no-token", "--token-file", "x"), "use either --token-file or --no-token"),
        (("--http", "0", "--token-file", "nowhere"), "cannot read the token from nowhere: No such file"),
        (("--http", "192.0.2.1:1"), "cannot listen on 192.0.2.1:1: "),
        (("--no-token",), "--token-file, --no-token and --allow-host need --http"),
    ],
)
def test_invalid_options_exit_with_one_line(project: Path, options: tuple[str, ...], sentence: str) -> None:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(project.parent / "state")}
    done = subprocess.run(
        [str(SCRIPT), *options], cwd=project, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rewindow-mcp: {sentence}")
    assert done.stderr.count("\n") == 1
