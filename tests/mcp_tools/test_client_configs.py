"""Configurations for clients: valid in each format, with whole paths, and without the token."""

from __future__ import annotations

import json
import tomllib

import pytest

from mcp_tools.access import VARIABLE
from mcp_tools.client_configs import FORMATS, Launch

ODD = '/tmp/a "b" \\c\x7f é\n'


STARTED = Launch(command="/bin/rewindow-mcp", arguments=("--root", ODD))


REACHED = Launch(command="rewindow-mcp", url="http://127.0.0.1:1/mcp", has_token=True)


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
def test_json_configurations_start_the_command(client: str, servers: str) -> None:
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
def test_json_configurations_connect_to_the_url(client: str, path: tuple[str | int, ...], value: object) -> None:
    found = json.loads(FORMATS[client].text(REACHED))
    for part in path:
        found = found[part]
    assert found == value


def test_claude_and_codex_wait_for_the_server() -> None:
    for launch in (STARTED, REACHED):
        assert json.loads(FORMATS["claude"].text(launch))["mcpServers"]["rewindow"]["alwaysLoad"] is True
    waits = {"required": True, "tool_timeout_sec": 660}
    started = tomllib.loads(FORMATS["codex"].text(STARTED))["mcp_servers"]["rewindow"]
    assert started == {**waits, "command": STARTED.command, "args": ["--root", ODD]}
    reached = tomllib.loads(FORMATS["codex"].text(REACHED))["mcp_servers"]["rewindow"]
    assert reached == {**waits, "url": REACHED.url, "bearer_token_env_var": VARIABLE}


def test_goose_configuration() -> None:
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
def test_configuration_without_token(client: str) -> None:
    text = FORMATS[client].text(Launch(command="rewindow-mcp", url=REACHED.url))
    assert "Authorization" not in text
    assert VARIABLE not in text
