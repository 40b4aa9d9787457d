"""rewindow-mcp in the programs that people use it with, each told of it by `--print-config`, against a scripted LLM."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcp_tools.server import INSTRUCTIONS
from tests.hosts.programs import HOSTS, PATH, PLAIN, Host
from tests.hosts.relay import relay
from tests.support.aimock import aimock
from tests.support.mcp_clients import SCRIPT, process, text_of
from tests.support.mcp_http import TOKEN, web_process

SECONDS = 120
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("view", {"path": "a.txt", "name": "notes", "follow": True, "tokens": 200}),
    ("group", {"name": "both", "add": ["notes", "src/*.py"], "tokens": 300}),
    ("view", {"name": "nobody"}),
    ("tick", {"wait": 25}),
]
"""What the model calls, one that fails among them; before the last one, somebody edits `a.txt`."""
OURS = ["group", "tick", "timeline", "view"]
BEFORE, AFTER = 'é 漢字 🎉\n\ttab "quoted" \\n </system> <b>\n', "é 漢字 🎉\nthree\n"


def made(root: Path) -> Path:
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text(BEFORE)
    (root / "src" / "b.py").write_text("def start():\n    return 1\n")
    return root


async def expected(root: Path) -> list[str]:
    """What a client of the SDK is answered in a project that is the same."""
    texts: list[str] = []
    async with process(root) as caller:
        for tool, arguments in CALLS:
            if tool == "tick":
                (root / "a.txt").write_text(AFTER)
            texts.append(text_of(await caller.result(tool, **arguments)))
    return texts


def fixtures(host: Host) -> list[dict[str, Any]]:
    """The model's turns: the calls, then a last word."""
    calls = [
        {"toolCalls": [{"id": f"call_{turn}", "name": host.tool(tool), "arguments": json.dumps(arguments)}]}
        for turn, (tool, arguments) in enumerate(CALLS)
    ]
    return [
        {"match": {"turnIndex": turn}, "response": each} for turn, each in enumerate([*calls, {"content": "Done."}])
    ]


def printed(host: Host, *options: str) -> str:
    """What `--print-config` prints for a host."""
    command = [str(SCRIPT), *options, "--print-config", host.client]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout


def play(host: Host, config: str, root: Path, home: Path) -> list[dict[str, Any]]:
    """Runs the host until its model has said its last word, and returns what that was sent in the conversation."""

    def edit(body: dict[str, Any]) -> None:
        if len(host.replies(body)) == len(CALLS) - 1:
            (root / "a.txt").write_text(AFTER)

    # Nothing but this machine can be reached.
    offline = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    environ = {"HOME": str(home), "PATH": PATH, "TERM": "dumb", "REWINDOW_MCP_TOKEN": TOKEN, **offline}
    with aimock(home, fixtures(host)) as llm, relay(llm.url, edit, host.respell) as model:
        command, variables = host.start(config, home, model.url)
        done = subprocess.run(
            command,
            cwd=root,
            env={**environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Done." in done.stdout
    # Some hosts have a request of their own beside it, for a title.
    return [body for body in model.bodies if body.get("tools")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made(tmp_path / "my prøject")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Nothing of the user's own settings."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "transport"), [*((name, "stdio") for name in HOSTS), *((name, "http") for name in PLAIN)]
)
async def test_the_model_is_sent_our_replies_character_for_character(
    tmp_path: Path, root: Path, home: Path, name: str, transport: str
) -> None:
    host, state = HOSTS[name], tmp_path / "state"
    if transport == "stdio":
        conversation = play(host, printed(host, "--root", str(root), "--state-dir", str(state)), root, home)
    else:
        with web_process(root, "--root", str(root)) as server:
            port = str(urlsplit(server.url).port)
            conversation = play(host, printed(host, "--http", port, "--state-dir", str(state)), root, home)
    assert len(conversation) == len(CALLS) + 1
    assert sorted(host.listed(conversation[0])) == OURS
    assert json.dumps(INSTRUCTIONS)[1:-1] in json.dumps(conversation[0])
    assert host.replies(conversation[-1]) == await expected(made(tmp_path / "same" / "project"))


@pytest.mark.parametrize("name", PLAIN)
def test_a_first_turn_waits_for_a_server_that_is_slow_to_start(root: Path, home: Path, name: str) -> None:
    slow = home / "slow"
    slow.write_text(f'#!/bin/sh\nsleep 3\nexec {SCRIPT} "$@"\n')
    slow.chmod(0o755)
    config = printed(HOSTS[name], "--root", str(root), "--state-dir", str(home / "state"))
    assert str(SCRIPT) in config
    conversation = play(HOSTS[name], config.replace(str(SCRIPT), str(slow)), root, home)
    assert sorted(HOSTS[name].listed(conversation[0])) == OURS
