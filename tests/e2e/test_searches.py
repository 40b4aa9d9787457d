"""Searches of a whole session, and what a statement cannot make of them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.scripts import scripted
from tests.support.searching import SLOW, files, slow_text

SYSTEM = "/usr/bin:/bin"


@pytest.mark.slow
def test_no_program_of_the_project_or_of_a_statement_searches(tmp_path: Path) -> None:
    project, beside = tmp_path / "project", tmp_path / "bin"
    planted = f"#!/bin/sh\ntouch {tmp_path}/planted\n"
    files(project, {"a.py": "needle\n", ".venv/bin/rg": planted})
    files(tmp_path, {"open/rg": planted})
    for program in (project / ".venv" / "bin" / "rg", tmp_path / "open" / "rg"):
        program.chmod(0o755)
    (tmp_path / "open").chmod(0o777)
    beside.mkdir()
    path = f"{project}/.venv/bin:.:{tmp_path}/open:{beside}:{SYSTEM}"
    with Agent(tmp_path / "state", env={"PATH": path}) as agent:
        session = agent.open(project)
        assert agent.prompt(session, 'grep("needle")') == "end_turn"
        files(beside, {"rg": planted})
        (beside / "rg").chmod(0o755)
        plant = f"import os; os.environ.update(PATH='{tmp_path}/open', PYTHONPATH='.', RIPGREP_CONFIG_PATH='x')"
        assert agent.prompt(session, f'{plant}; len(grep("needle"))') == "end_turn"
        assert agent.text().endswith("1")
    assert not (tmp_path / "planted").exists()


def test_a_sandboxed_statement_searches_with_the_ripgrep_of_our_environment(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files(project, {"a.py": "needle\n", ".gitignore": "c*\n", "c.py": "needle\n"})
    statement = "[(match.path, match.line) for match in grep('needle')], find('*.py')"
    model = scripted(tmp_path, {"statement": statement}, {"text": "Done."})
    env = {"PATH": "/nowhere", "REWINDOW_SANDBOX": "required"}
    with Agent(tmp_path / "state", "--model", model, permission=None, env=env) as agent:
        session = agent.open(project)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        assert agent.prompt(session, "Go.") == "end_turn"
        assert "([('a.py', 1)], a.py)" in json.dumps(agent.received)


@pytest.mark.slow
def test_a_cancelled_search_ends_with_its_process(tmp_path: Path) -> None:
    files(tmp_path, {"project/a": slow_text(48)})
    with Agent(tmp_path / "state", env={"PATH": SYSTEM}) as agent:
        session = agent.open(tmp_path / "project")
        request = agent.begin_prompt(session, f'grep(r"{SLOW}")')
        agent.seen(_is_search)
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.response(request)["result"]["stopReason"] == "cancelled"
        assert agent.prompt(session, "6 * 7") == "end_turn"
    assert not _searching(tmp_path)


def _is_search(message: dict[str, object]) -> bool:
    params = message.get("params")
    return isinstance(params, dict) and params.get("update", {}).get("kind") == "search"


def _searching(project: Path) -> list[str]:
    """The processes that are in the project."""
    found: list[str] = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.readlink(f"/proc/{process}/cwd").startswith(str(project)):
                found.append(process)
    return found


EXCHANGING = """
import ctypes, os
os.chdir("d")
exchange = ctypes.CDLL(None).renameat2
while True:
    for number in range(40):
        exchange(-100, b"f%d" % number, -100, b"l%d" % number, 2)
"""
SEARCHING_LINKS = """
import os, subprocess, sys, time
os.mkdir("d")
for number in range(40):
    open(f"d/f{number}", "w").write("nothing\\n")
    os.symlink(PLACE, f"d/l{number}")
open("swap.py", "w").write(EXCHANGING)
left = subprocess.Popen([sys.executable, "-S", "swap.py"])
time.sleep(0.3)
found = {str(match.text) for _ in range(60) for match in grep("token-of", path="d")}
left.kill()
print("found", len(found))
"""


@pytest.mark.slow
def test_a_search_that_meets_a_link_finds_nothing_hidden(tmp_path: Path) -> None:
    """A program of the statement exchanges files for links to this program's state while ripgrep walks."""
    project, state = tmp_path / "project", tmp_path / "state"
    project.mkdir()
    files(state, {"mcp-token": "token-of-this-program-9\n"})
    state.chmod(0o700)
    values = {"PLACE": str(state / "mcp-token"), "EXCHANGING": EXCHANGING}
    source = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + SEARCHING_LINKS
    model = scripted(tmp_path, {"statement": source}, {"text": "Done."})
    with Agent(state, "--model", model, permission=None, env={"REWINDOW_SANDBOX": "required"}) as agent:
        session = agent.open(project)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        assert agent.prompt(session, "Go.", seconds=120) == "end_turn"
        assert "found 0" in json.dumps(agent.received)
