"""The programs start and work with the implementation for other systems, in processes that have no names of Linux."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import portable
from tests.support.agents import Agent
from tests.support.mcp_clients import process
from tests.support.scripts import last_value, logged

LACKS = "import os, select, signal; [n for n in ('pidfd_open', 'memfd_create', 'waitid', 'O_PATH') if hasattr(os, n)]"
WRITES = "with open('a.txt', 'w') as f: f.write('one')"
RUNS = "bash('cat a.txt').output, os.getppid() > 1, 6 * 7"


def test_agent_works_without_names_of_linux(project: Path, tmp_path: Path) -> None:
    with Agent(tmp_path / "state", env={**portable.environment(), "REWINDOW_SANDBOX": "off"}) as agent:
        session = agent.open(project)
        values = [value_of(agent, session, source) for source in (LACKS, WRITES, RUNS)]
    assert values == ["[]", None, "('one', True, 42)"]
    assert (project / "a.txt").read_text() == "one"
    # Files that stand for those in memory are no writes of the statement.
    touched = [event for event in logged(tmp_path / "state", session) if event["kind"] == "file_touched"]
    assert [event["path"] for event in touched if not event.get("tool_call_id")] == []


def value_of(agent: Agent, session: str, source: str) -> str | None:
    agent.prompt(session, source)
    return last_value(agent)


@pytest.mark.anyio
async def test_mcp_server_works_without_names_of_linux(project: Path) -> None:
    (project / "a.txt").write_text("one\n")
    async with process(project, environ=portable.environment()) as caller:
        assert "one" in await caller.text("view", path="a.txt")
