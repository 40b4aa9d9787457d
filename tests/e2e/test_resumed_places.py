"""What a session finds at its next start where a statement of another one has changed the tree meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import mcp_server
from tests.support.agents import Agent
from tests.support.planting import project
from tests.support.scripts import scripted

pytestmark = pytest.mark.slow

WRITES = {"statement": "import pathlib, os; pathlib.Path(os.getcwd(), 'written').write_text('x')"}
DONE = {"text": "Done."}


def opened(agent: Agent, cwd: Path, **others: Any) -> str:
    session = str(agent.call("session/new", {"cwd": str(cwd), "mcpServers": [], **others})["sessionId"])
    agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
    return session


def load(session: str, cwd: Path, **others: Any) -> tuple[str, dict[str, Any]]:
    return "session/load", {"sessionId": session, "cwd": str(cwd), "mcpServers": [], **others}


@pytest.mark.parametrize("place", ["cwd", "additional", "above"])
def test_load_follows_no_link_in_place_of_a_directory(tmp_path: Path, place: str) -> None:
    """A statement of another session, which may write the directory above, has put it there."""
    path, home = project(tmp_path / "project"), tmp_path / "home"
    (path / "packages/a").mkdir(parents=True)
    (home / "a").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    swapped = "packages" if place == "above" else "packages/a"
    swaps = {"statement": f"import os; os.rename({swapped!r}, 'old'); os.symlink({str(home)!r}, {swapped!r})"}
    cwd = tmp_path / "other" if place == "additional" else path / "packages/a"
    others = {"additionalDirectories": [str(path / "packages/a")]} if place == "additional" else {}
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, swaps, DONE, WRITES, DONE)) as agent:
        agent.initialize()
        session = opened(agent, cwd, **others)
        agent.prompt(opened(agent, path), "Go.", seconds=60)
    assert os.path.islink(path / swapped)
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, WRITES, DONE)) as agent:
        agent.initialize()
        refused = agent.error(*load(session, cwd, **others))["message"]
        assert "now leads to" in refused
        assert str(home) in refused
        real = home / "a" if place == "above" else home
        meant = {"additionalDirectories": [str(real)]} if place == "additional" else {}
        agent.call(*load(session, cwd if place == "additional" else real, **meant))
    assert list(home.rglob("written")) == []


def test_server_never_starts_from_a_writable_place(tmp_path: Path) -> None:
    """As with an activated environment of the project, which comes first in the PATH."""
    path, marker = project(tmp_path / "project"), tmp_path / "marker"
    programs = path / ".venv/bin"
    programs.mkdir(parents=True)
    planted = f'#!/bin/sh\ntouch {marker}\nexec /usr/bin/env python3 "$@"\n'
    plants = f"import os; open('.venv/bin/python3', 'w').write({planted!r}); os.chmod('.venv/bin/python3', 0o755)"
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    servers = [{"name": "t", "command": "python3", "args": ["-S", mcp_server.__file__], "env": []}]
    model = scripted(tmp_path, {"statement": plants}, DONE, {"statement": "help(mcp.t)"}, DONE)
    with Agent(tmp_path / "state", "--model", model, env=env) as agent:
        agent.initialize()
        session = opened(agent, path)
        agent.prompt(session, "Go.", seconds=60)
        assert os.access(programs / "python3", os.X_OK)
    with Agent(tmp_path / "state", "--model", model, env=env) as agent:
        agent.initialize()
        agent.call("session/load", {"sessionId": session, "cwd": str(path), "mcpServers": servers})
        agent.prompt(session, "Go.", seconds=60)
    assert not marker.exists()
