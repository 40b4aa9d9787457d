"""What clients are to be told: in each one's format, with every path whole, and never with the token."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from mcp_tools import cli
from mcp_tools.access import VARIABLE
from mcp_tools.configs import FORMATS, Launch
from tests.support.mcp_clients import SCRIPT

ODD = '/tmp/a "b" \\c\x7f é\n'
STARTED = Launch(command="/bin/rewindow-mcp", arguments=("--root", ODD))
REACHED = Launch(command="rewindow-mcp", url="http://127.0.0.1:1/mcp", has_token=True)
SECONDS = 30


@pytest.mark.parametrize(
    ("client", "servers"),
    [
        ("claude", "mcpServers"),
        ("cursor", "mcpServers"),
        ("gemini", "mcpServers"),
        ("inspector", "mcpServers"),
        ("vscode", "servers"),
    ],
)
def test_clients_with_json_start_the_command_with_its_arguments(client: str, servers: str) -> None:
    entry = json.loads(FORMATS[client].text(STARTED))[servers]["rewindow"]
    assert (entry["command"], entry["args"]) == (STARTED.command, ["--root", ODD])
    assert entry.get("type", "stdio") == "stdio"


@pytest.mark.parametrize(
    ("client", "path", "value"),
    [
        ("claude", ("mcpServers", "rewindow", "headers", "Authorization"), f"Bearer ${{{VARIABLE}}}"),
        ("claude", ("mcpServers", "rewindow", "type"), "http"),
        ("cursor", ("mcpServers", "rewindow", "headers", "Authorization"), f"Bearer ${{env:{VARIABLE}}}"),
        ("gemini", ("mcpServers", "rewindow", "httpUrl"), REACHED.url),
        ("gemini", ("mcpServers", "rewindow", "headers", "Authorization"), f"Bearer ${VARIABLE}"),
        ("vscode", ("servers", "rewindow", "headers", "Authorization"), "Bearer ${input:rewindow}"),
        ("vscode", ("inputs", 0, "password"), True),
        ("inspector", ("mcpServers", "rewindow"), {"type": "streamable-http", "url": REACHED.url}),
    ],
)
def test_clients_with_json_reach_the_address(client: str, path: tuple[str | int, ...], value: object) -> None:
    found = json.loads(FORMATS[client].text(REACHED))
    for part in path:
        found = found[part]
    assert found == value


def test_claude_and_codex_wait_for_it() -> None:
    for launch in (STARTED, REACHED):
        assert json.loads(FORMATS["claude"].text(launch))["mcpServers"]["rewindow"]["alwaysLoad"] is True
    waits = {"required": True, "tool_timeout_sec": 660}
    started = tomllib.loads(FORMATS["codex"].text(STARTED))["mcp_servers"]["rewindow"]
    assert started == {**waits, "command": STARTED.command, "args": ["--root", ODD]}
    reached = tomllib.loads(FORMATS["codex"].text(REACHED))["mcp_servers"]["rewindow"]
    assert reached == {**waits, "url": REACHED.url, "bearer_token_env_var": VARIABLE}


def test_goose_has_its_own_words() -> None:
    lines = FORMATS["goose"].text(STARTED).splitlines()
    assert lines[:2] == ["extensions:", "  rewindow:"]
    assert f"    args: {json.dumps(['--root', ODD], ensure_ascii=False)}".replace("\x7f", "\\u007f") in lines
    reached = FORMATS["goose"].text(REACHED).splitlines()
    assert reached[-4:] == [
        f'    uri: "{REACHED.url}"',
        f"    env_keys: [{VARIABLE}]",
        "    headers:",
        f'      Authorization: "Bearer ${{{VARIABLE}}}"',
    ]


@pytest.mark.parametrize("client", FORMATS)
def test_without_a_token_none_is_spoken_of(client: str) -> None:
    text = FORMATS[client].text(Launch(command="rewindow-mcp", url=REACHED.url))
    assert "Authorization" not in text
    assert VARIABLE not in text


def printed(cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(cwd / "state")}
    return subprocess.run(
        [str(SCRIPT), *options], cwd=cwd, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.slow
def test_what_is_printed_starts_a_server_that_answers(tmp_path: Path) -> None:
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
def test_the_token_is_named_and_never_printed(tmp_path: Path) -> None:
    done = printed(tmp_path, "--http", "8765", "--print-config", "codex")
    token = (tmp_path / "state" / "mcp-token").read_text().strip()
    assert done.returncode == 0
    assert token not in done.stdout + done.stderr
    assert done.stderr.endswith(f"give the client {VARIABLE}; the token is in {tmp_path / 'state' / 'mcp-token'}\n")
    refused = printed(tmp_path, "--http", "0", "--print-config", "codex")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "rewindow-mcp: --print-config needs the port of the server, not 0\n"


def test_the_command_line_knows_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    for client in FORMATS:
        assert cli.main(["--print-config", client]) == 0
    assert "rewindow" in capsys.readouterr().out
    assert cli.main(["--structured", "--print-config", "codex"]) == 0
    assert 'args = ["--structured"]' in capsys.readouterr().out
    assert cli.main(["--print-config", "emacs"]) == 2
    assert "invalid choice: 'emacs'" in capsys.readouterr().err
