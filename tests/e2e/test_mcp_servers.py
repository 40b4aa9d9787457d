"""MCP servers that are not ours, named by clients that are not ours: called, asked for, and never called again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.support import acp_sdk as acp
from tests.support import mcp_server
from tests.support.acpx import opened
from tests.support.agents import AGENT, SECONDS, Agent
from tests.support.node import command
from tests.support.scripts import assert_gone, last_value, scripted

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LONG = 3 * SECONDS
"""Servers of Node and Python start, on a machine that has other things to do."""
STATEMENTS = (
    "wrote = files.write_file(path=target, content='once').text",
    "branch = git.git_create_branch(repo_path=repository, branch_name='feature').text",
    "read = files.read_text_file(path=target).data['content']",
    "note = view('mcp://test/test://note', tokens=100)",
    "failed = None\ntry:\n    dead.anything()\nexcept ConnectionError as error:\n    failed = str(error)",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a commit."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    return folder


def servers(folder: Path) -> list[dict[str, Any]]:
    """The official servers for files and git, one that is ours and has a resource, and one that ends at once."""
    node, script = command("@modelcontextprotocol/server-filesystem", "dist/index.js")
    own = {"command": sys.executable, "env": []}
    return [
        {"name": "files", "command": node, "args": [script, str(folder)], "env": []},
        {"name": "git", **own, "args": ["-m", "mcp_server_git", "--repository", str(folder)]},
        {"name": "test", **own, "args": ["-S", mcp_server.__file__]},
        {"name": "dead", **own, "args": ["-S", mcp_server.__file__, "dead"]},
    ]


def model(folder: Path, project: Path) -> str:
    """A model that runs STATEMENTS, one in each turn."""
    given = f"target, repository = {str(project / 'b.txt')!r}, {str(project)!r}\n"
    first, *others = STATEMENTS
    replies: list[dict[str, Any]] = []
    for source in (given + first, *others):
        replies += [{"statement": source}, {"text": "Done."}]
    return scripted(folder, *replies)


class Editor:
    """Allows all that is asked, and keeps it with all updates."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> Any:
        self.asked.append(tool_call)
        return acp.schema.RequestPermissionResponse(
            outcome=acp.schema.AllowedOutcome(outcome="selected", option_id="allow_once")
        )


def shapes(folder: Path) -> list[Any]:
    return [
        acp.schema.McpServerStdio(**{**each, "env": [acp.schema.EnvVariable(**pair) for pair in each["env"]]})
        for each in servers(folder)
    ]


async def test_no_server_call_is_repeated_after_a_kill(tmp_path: Path, project: Path) -> None:
    environment = {**os.environ, "REWINDOW_STATE_DIR": str(tmp_path / "state")}
    editor = Editor()
    arguments = ("--model", model(tmp_path, project))
    with anyio.fail_after(LONG):
        async with acp.spawn_agent_process(editor, str(AGENT), *arguments, env=environment) as (agent, process):
            hello = await agent.initialize(protocol_version=1)
            assert hello.agent_capabilities is not None
            offered = hello.agent_capabilities.mcp_capabilities
            assert offered is not None
            assert (offered.http, offered.sse) == (True, True)
            session = (await agent.new_session(cwd=str(project), mcp_servers=shapes(project))).session_id
            await agent.set_config_option(session_id=session, config_id="_ask_about", value="acts")
            for _ in STATEMENTS:
                assert (await agent.prompt(session, [acp.text_block("go")])).stop_reason == "end_turn"
            started = psutil.Process(process.pid).children(recursive=True)
            process.kill()
    assert_gone(started)
    assert [each.title for each in editor.asked] == [
        "Call write_file of MCP server files",
        "Call git_create_branch of MCP server git",
        "Call read_text_file of MCP server files",
    ]
    assert (project / "b.txt").read_text() == "once"
    texts = [getattr(getattr(each, "content", None), "text", "") for each in editor.updates]
    told = [text.split("'")[1] for text in texts if text.startswith("MCP server '")]
    assert sorted(told) == ["dead", "files", "git", "test"]

    (project / "b.txt").unlink()
    forget_branch(project)
    with Agent(tmp_path / "state", "--model", "direct") as again:
        again.call("initialize", {"protocolVersion": 1})
        again.call("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": servers(project)})
        again.prompt(
            session, "print(read, 'dead' in failed, 'feature' in branch, bool(wrote))\nshow(note)", seconds=LONG
        )
        said = json.dumps(again.received)
        assert "once True True True" in said
        assert "2\\ttwo" in said
        again.prompt(session, "print(git.git_branch(repo_path=repository, branch_type='local'))", seconds=LONG)
        assert "* main" in json.dumps(again.received)
        assert "feature" not in json.dumps(again.received[-4:])
    assert not (project / "b.txt").exists()


def test_acpx_names_servers_whose_tools_are_called(tmp_path: Path, project: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers(project)}))
    with opened(tmp_path) as acpx:
        said = acpx.run(
            "--mcp-config",
            str(config),
            "--format",
            "quiet",
            "exec",
            f"[git.git_status(repo_path={str(project)!r}).text, len(dir(files)) > 5, test.add_one(n=1).data]",
        )
    assert "On branch main" in said
    assert "True, {'made': 2}]" in said


def forget_branch(project: Path) -> None:
    subprocess.run(["git", "-C", str(project), "branch", "-D", "feature"], check=True, capture_output=True)


@contextmanager
def agent_with(tmp_path: Path, *words: str) -> Iterator[tuple[Agent, str, Path]]:
    """An agent in whose session a server of ours has been called; with its record."""
    record = tmp_path / "record"
    variables = [{"name": "MCP_TEST_RECORD", "value": str(record)}]
    arguments = ["-S", mcp_server.__file__, *words]
    named = {"name": "test", "command": sys.executable, "args": arguments, "env": variables}
    with Agent(tmp_path / "state") as agent:
        agent.call("initialize", {"protocolVersion": 1})
        session = agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": [named]})["sessionId"]
        agent.prompt(session, "test.add_one(n=1)", seconds=LONG)
        yield agent, session, record


def pids(record: Path) -> list[int]:
    lines = map(json.loads, record.read_text().splitlines())
    return [line["started"] for line in lines if "started" in line]


@pytest.mark.parametrize("end", ["kill", "term", "end of input"])
def test_no_server_outlives_the_agent_however_that_ends(tmp_path: Path, end: str) -> None:
    with agent_with(tmp_path, "stubborn") as (agent, _, record):
        (pid,) = pids(record)
        server = psutil.Process(pid)
        assert agent.process.stdin
        match end:
            case "kill":
                agent.process.kill()
            case "term":
                agent.process.send_signal(signal.SIGTERM)
            case _:
                agent.process.stdin.close()
        agent.process.wait(SECONDS)
        assert_gone([server])


def test_importing_the_agent_loads_nothing_of_mcp(tmp_path: Path) -> None:
    script = (
        "import sys, acp_adapter.cli, acp_adapter.server, engine.session.serving, engine.session.servers\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('mcp', 'mcp_types', 'httpx2', 'starlette')])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_server_secrets_are_in_no_file_or_message(tmp_path: Path) -> None:
    secret = "given-3f9a8b7c6d5e"
    variables = [{"name": "ANY_NAME", "value": secret}]
    named = {"name": "test", "command": sys.executable, "args": ["-S", mcp_server.__file__], "env": variables}
    bad = {"name": "bad", "command": 7, "args": [], "env": variables}
    headers = [{"name": "Authorization", "value": f"Bearer {secret}"}]
    nobody = {"type": "http", "name": "nobody", "url": f"http://127.0.0.1:9/mcp?key={secret}", "headers": headers}
    with Agent(tmp_path / "state") as agent:
        agent.call("initialize", {"protocolVersion": 1})
        refused = agent.response(agent.begin("session/new", {"cwd": str(tmp_path), "mcpServers": [bad]}))
        assert refused["error"]["code"] == -32602
        params = {"cwd": str(tmp_path), "mcpServers": [named, nobody]}
        session = agent.call("session/new", params)["sessionId"]
        agent.prompt(session, "got = test.variables().text\nprint(got)\ngot", seconds=LONG)
        agent.prompt(session, "'given-' in got", seconds=LONG)
        assert last_value(agent) == "False"  # so no statement can show it in a form that nobody recognises
        agent.prompt(session, "nobody.x(n=got)", seconds=LONG)
        agent.prompt(session, "raise ValueError(got)", seconds=LONG)
        said = json.dumps(agent.received)
    assert "MCP server 'nobody'" in said
    assert secret not in said + agent.stderr.decode()
    shown = subprocess.run(
        [str(AGENT.parent / "rewindow"), "export", session],
        env={**os.environ, "REWINDOW_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        check=True,
    )
    assert secret.encode() not in shown.stdout
    for path in (tmp_path / "state").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()
