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
def test_statements_get_lists_that_they_can_work_with(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files(project, {"a.py": "def one(): ...\n", "src/b.py": "x\ndef two(): ...\n", ".gitignore": "c*\n", "c.py": "def"})
    with Agent(tmp_path / "state", env={"PATH": SYSTEM}) as agent:
        session = agent.open(project)
        assert agent.prompt(session, r'found = grep(r"def (\w+)", glob="*.py"); found') == "end_turn"
        assert agent.text().endswith("```\na.py:1: def one(): ...\nsrc/b.py:2: def two(): ...\n```")
        assert agent.prompt(session, "[(m.path, m.line) for m in found], find('b*'), len(found[:1])") == "end_turn"
        assert agent.text().endswith("([('a.py', 1), ('src/b.py', 2)], src/b.py, 1)")
        calls = [update for update in agent.updates() if update.get("kind") == "search"]
        assert [(call["title"], call["status"]) for call in calls] == [
            (r'Search "def (\w+)", in *.py', "in_progress"),
            ("Find b*", "in_progress"),
        ]
        assert agent.prompt(session, 'grep("(")') == "end_turn"
        assert "in the regular expression" in agent.text()
        assert agent.stderr == b""


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


@pytest.mark.slow
def test_file_with_an_undecodable_name_is_found_and_usable(tmp_path: Path) -> None:
    project = os.fsencode(tmp_path) + b"/project"
    os.makedirs(project + b"/d\xe9")
    for name in (b"/q\xe9z", b"/d\xe9/a"):
        Path(os.fsdecode(project + name)).write_text("one\n")
    os.symlink(b"q\xe9z", project + b"/link")
    found = "find('q*')[0]"
    acts = {
        found: "q\ufffdz",
        f"read({found})": "'one\\n'",
        f"edit({found}, 'one', 'two')": "q\ufffdz: +1 -1",
        f"grep('two', {found})": "q\ufffdz:1: two",
        "write('link', 'three\\n'); read('link')": "'three\\n'",
        "read('d\ufffd')": "IsADirectoryError: Is a directory",
        "bash('cat a', cwd='d\ufffd')": "one",
        "[match.path for match in grep('one')]": "['d\ufffd/a']",
    }
    with Agent(tmp_path / "state") as agent:
        session = agent.open(Path(os.fsdecode(project)))
        for statement, shown in acts.items():
            before = len(agent.text())
            assert agent.prompt(session, statement) == "end_turn"
            assert shown in agent.text()[before:], statement
    assert Path(os.fsdecode(project + b"/q\xe9z")).read_text() == "three\n"


@pytest.mark.slow
def test_endless_search_is_ended_with_advice(tmp_path: Path) -> None:
    files(tmp_path, {"project/a": slow_text(48), "project/b": "a" * 601 + "1\n"})
    with Agent(tmp_path / "state", env={"PATH": SYSTEM}) as agent:
        session = agent.open(tmp_path / "project")
        assert agent.prompt(session, f'grep(r"{SLOW}")', seconds=60) == "end_turn"
        assert (
            "TimeoutError: the search was ended after 20 s, with 1 matching line in 1 file so far; name" in agent.text()
        )
        assert agent.prompt(session, "len(grep('aaa1'))") == "end_turn"
        assert agent.text().endswith("1")
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
