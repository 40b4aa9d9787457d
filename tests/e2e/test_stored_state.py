"""Code and files that come by way of what is stored: an export, this program's own state, a project's environment.

Whoever wrote an export, or a file that a statement left behind, decides nothing of what runs outside the sandbox, what
is read for a statement, and what a rewind writes. Through the real agent, the commands and `rewindow-mcp`.
"""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import xxhash

from engine.log.store.schema import digest_of
from tests.support.agents import Agent
from tests.support.commands import Home
from tests.support.mcp_clients import process
from tests.support.planting import project
from tests.support.scripts import asks_permission, scripted

Fields = dict[str, Any]
HOOK = ".git/hooks/pre-commit"
TOKEN = "token-of-this-program-9"


# --- an export that was made up -----------------------------------------------------------------------------------


def export(cwd: str, events: Sequence[Fields], directories: Sequence[str] = ()) -> bytes:
    """The file of a session with these events, and contents between them, after a question and its answer."""
    lines = [
        {"kind": "session_opened", "cwd": cwd, "client": "", "python": "3.11.7"},
        {"kind": "user_message", "message_id": "m1", "text": "hello"},
        {"kind": "agent_text", "message_id": "m2", "text": "hi"},
        *events,
        {"kind": "run_stop", "reason": "completed", "cause": "end_turn"},
    ]
    count = 0
    for line in lines:
        if "kind" in line:
            line |= {"v": 1, "seq": count, "event_id": f"e{count}", "at": 1.0, "branch_id": "main"}
            count += 1
    header = {"format": "rewindow-session", "version": 1, "session_id": "ses_evil", "cwd": cwd}
    header |= {"directories": list(directories), "title": None, "created_at": 1.0, "updated_at": 1.0, "events": count}
    return "".join(json.dumps(line) + "\n" for line in (header, *lines)).encode()


def content(data: bytes) -> Fields:
    return {"blob": digest_of(data), "data": base64.b64encode(data).decode()}


def written(path: str, before: bytes) -> list[Fields]:
    """A file that held that, and is gone since: a rewind puts it back."""
    event: Fields = {"kind": "file_written", "execution_id": "ex", "tool_call_id": "call", "path": path}
    event |= {"before": digest_of(before), "before_digest": xxhash.xxh3_64_hexdigest(before), "before_mode": 0o755}
    return [content(before), event]


def rewound(path: str, before: bytes) -> list[Fields]:
    """The same as what a rewind has done."""
    file: Fields = {"path": path, "present": digest_of(before), "present_mode": 0o755}
    file["present_digest"] = xxhash.xxh3_64_hexdigest(before)
    return [content(before), {"kind": "rewound", "statement": 0, "restored": [file]}]


def imported(home: Home, data: bytes) -> None:
    done = home.run("import", "-", stdin=data)
    assert done.returncode == 0, done.stderr


def ran(home: Home, path: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """The command, started in the project."""
    program = Path(sys.executable).parent / "rewindow"
    return subprocess.run(
        [program, *arguments], cwd=path, env=home.variables, capture_output=True, check=False, timeout=60
    )


def commits(path: Path) -> None:
    """As the user does, whose hooks then run."""
    names = ("-c", "user.name=a", "-c", "user.email=a", "-c", "safe.directory=*")
    command = ["git", *names, "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(command, cwd=path, check=True, capture_output=True, timeout=30)


@pytest.mark.parametrize("made", [written, pytest.param(rewound, marks=pytest.mark.slow)])
@pytest.mark.parametrize("by", ["editor", pytest.param("command", marks=pytest.mark.slow)])
def test_a_rewind_of_an_import_plants_no_hook(tmp_path: Path, made: Any, by: str) -> None:
    home, path, marker = Home(tmp_path), project(tmp_path / "project"), tmp_path / "planted"
    hook = f"#!/bin/sh\ntouch {marker}\n".encode()
    imported(home, export(str(path), [*made(HOOK, hook), *made("src/a.txt", b"free")]))
    if by == "editor":
        with Agent(home.state, permission="reject_once") as agent:
            agent.initialize()
            agent.call("session/load", {"sessionId": "ses_evil", "cwd": str(path), "mcpServers": []})
            agent.prompt("ses_evil", "/rewind 0")
    else:
        done = ran(home, path, "rewind", "ses_evil", "--to", "0")
        assert HOOK in done.stdout.decode()
    commits(path)
    assert not marker.exists()
    assert (path / "src/a.txt").read_bytes() == b"free"


@pytest.mark.slow
@pytest.mark.parametrize("directories", [["/"], ["{home}"]])
@pytest.mark.parametrize("command", ["rewind ses_evil --to 0", "run ses_evil --mode auto -p 1"])
def test_the_directories_that_an_import_names_are_not_written(
    tmp_path: Path, directories: list[str], command: str
) -> None:
    home, path = Home(tmp_path / "home"), project(tmp_path / "project")
    home.path.mkdir()
    named = [each.format(home=home.path) for each in directories]
    imported(home, export(str(path), written(str(home.path / ".bash_profile"), b"echo planted\n"), named))
    done = ran(home, path, *command.split())
    assert done.returncode == 1
    assert b"which only its file says" in done.stderr
    assert not (home.path / ".bash_profile").exists()


REPLACING = """
import builtins, os
shown = builtins.print
def print_(*values, **options):
    os.system('touch {marker}')
    return shown(*values, **options)
builtins.print = print_
"""


class Replacing:
    """Runs that code when it is loaded."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.code, {})


@pytest.mark.slow
def test_imported_value_runs_nothing_with_user_rights(tmp_path: Path) -> None:
    home, path, marker = Home(tmp_path), project(tmp_path / "project"), tmp_path / "planted"
    code = REPLACING.format(marker=marker)
    major, minor = sys.version_info[:2]
    data = b"RWV\x01" + bytes((major, minor, 0)) + pickle.dumps({"x": Replacing(code)})
    kept: Fields = {"kind": "values_kept", "execution_id": "e3", "unkept": {}}
    group = {"names": ["x"], "content": None, "size": len(data), "withheld": ""}
    kept["groups"] = [group | {"data": base64.b64encode(data).decode()}]
    restored: Fields = {"kind": "environment_restored", "executions": 0, "anew": ["x"]}
    imported(home, export(str(path), [restored, kept]))
    with Agent(home.state, permission="reject_once") as agent:
        agent.initialize()
        agent.call("session/load", {"sessionId": "ses_evil", "cwd": str(path), "mcpServers": []})
        agent.prompt("ses_evil", "print(1)")
    assert not marker.exists()


# --- a home directory with this program's state in it -----------------------------------------------------------------

TRIES = {
    "read": "print(read(STATE + '/mcp-token'))",
    "grep": "print(grep('token', '.local'), grep('token'))",
    "find": "print(find('*token*'), ls(STATE))",
    "view": "print(view(STATE + '/mcp-token'))",
    "link": "import os; os.symlink(STATE, 'way'); print(read('way/mcp-token'))",
    "write": "write(STATE + '/mcp-token', 'planted')",
    "open": "with open(STATE + '/mcp-token', 'w') as f: f.write('planted')",
    "rename": "import os; os.rename('.local', 'gone')",
    "remove": "import shutil; shutil.rmtree('.local')",
    "settings": "write('.config/rewindow/config.toml', 'sandbox = \"off\"')",
    "shell": "with open('.bashrc', 'a') as f: f.write('planted')",
    "git": "import pathlib; pathlib.Path('.gitconfig').write_text('planted')",
}


@pytest.mark.parametrize("mode", ["auto", *(pytest.param(each, marks=pytest.mark.slow) for each in ("ask", "plan"))])
def test_statement_in_a_home_directory_cannot_access_our_state(tmp_path: Path, mode: str) -> None:
    home = tmp_path / "home"
    state = home / ".local/state/rewindow"
    state.mkdir(parents=True, mode=0o700)
    (state / "mcp-token").write_text(TOKEN)
    (home / ".bashrc").write_text("")
    statements = [f"STATE = {str(state)!r}\n{each}" for each in TRIES.values()]
    model = scripted(tmp_path, *({"statement": each} for each in statements), {"text": "Done."})
    with Agent(state, "--model", model, permission="reject_once", env={"HOME": str(home)}) as agent:
        session = agent.open(home)
        agent.call("session/set_mode", {"sessionId": session, "modeId": mode})
        agent.prompt(session, "Go.", seconds=60)
        said = json.dumps(agent.received)
        asked = [message for message in agent.received if asks_permission(message)]
    assert TOKEN not in said
    assert (state / "mcp-token").read_text() == TOKEN
    assert (home / ".bashrc").read_text() == ""
    assert not (home / ".gitconfig").exists()
    assert [each for each in home.rglob("*") if "/.config/rewindow/" in str(each)] == []
    assert len(asked) >= (3 if mode == "auto" else 0)


@pytest.mark.anyio
async def test_views_of_a_home_directory_leave_this_programs_state_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    state = home / ".local/state/rewindow"
    state.mkdir(parents=True, mode=0o700)
    (state / "mcp-token").write_text(TOKEN)
    async with process(home, environ={"REWINDOW_STATE_DIR": str(state)}) as caller:
        for name, arguments in (
            ("view", {"path": str(state / "mcp-token")}),
            ("group", {"name": "g", "add": [".local/state/rewindow/*token"]}),
        ):
            assert TOKEN not in str(await caller.client.call_tool(name, arguments))
        (home / "mine.py").write_text("")
        listed = str(await caller.client.call_tool("group", {"name": "all", "add": ["**/*"]}))
        assert "mine.py" in listed
        assert "mcp-token" not in listed


# --- a project's environment ------------------------------------------------------------------------------------------


def with_environment(path: Path, marker: Path) -> Path:
    """A project whose environment runs a program whenever Python starts."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    site = path / f".venv/lib/python{version}/site-packages"
    site.mkdir(parents=True)
    (path / ".venv/pyvenv.cfg").write_text(f"home = /usr\nversion = {version}.0\n")
    (site / "x.pth").write_text(f"import os; os.system('touch {marker}')\n")
    (path / "main.py").write_text("x = 1\n")
    return path


def test_what_is_typed_does_not_run_the_environments_program(tmp_path: Path) -> None:
    home, marker = Home(tmp_path), tmp_path / "planted"
    path = with_environment(tmp_path / "project", marker)
    done = ran(home, path, "run", "-p", "1 + 1")
    assert b"2" in done.stdout
    assert not marker.exists()
    ran(home, path, "run", "-p", "import nothing_of_that_name")
    assert marker.exists(), "or else an editable installation is not found"


@pytest.mark.anyio
async def test_a_view_does_not_run_it_either(tmp_path: Path) -> None:
    marker = tmp_path / "planted"
    path = with_environment(tmp_path / "project", marker)
    async with process(path) as caller:
        assert "x = 1" in str(await caller.client.call_tool("view", {"path": "main.py"}))
    assert not marker.exists()
