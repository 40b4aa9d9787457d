"""The official conformance suite of MCP on the product's server, over HTTP: with its fixtures, and without them."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from mcp.server.lowlevel.server import Server

from mcp_tools import server as server_module
from mcp_tools.server import make_server
from mcp_tools.tasks import Tasks
from tests.support.mcp_fixtures import add_fixtures
from tests.support.mcp_http import Web, web
from tests.support.node import command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
BASELINES = Path(__file__).parent / "mcp_baselines"
SECONDS = 120
SCORED = {"2025-11-25": 30, "2026-07-28": 37}
"""How many scenarios each version requires."""


TASK_SCENARIOS = 9
"""Of the extension for tasks, beside the one on notifications, which the suite itself skips."""


async def run(url: str, *options: str) -> tuple[int, str]:
    """The exit code of the suite, and what it says."""
    suite = command("@modelcontextprotocol/conformance", "dist/index.js")
    arguments = [*suite, "server", "--url", url, *options]
    started = functools.partial(subprocess.run, arguments, capture_output=True, text=True, timeout=SECONDS, check=False)
    done = await to_thread.run_sync(started)
    return done.returncode, done.stdout + done.stderr


@asynccontextmanager
async def with_fixtures(root: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Web]:
    """The product's server, on which the suite's own tools, resources and prompts are registered."""

    def make(*arguments: Any, **options: Any) -> Server[Any]:
        server = make_server(*arguments, **options)
        add_fixtures(server, next(each for each in arguments if isinstance(each, Tasks)))
        return server

    monkeypatch.setattr(server_module, "make_server", make)
    async with web(root, token=None) as server:
        yield server


def failed(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("✗")]


@pytest.mark.parametrize("version", SCORED)
async def test_every_scenario_of_a_version_passes(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_fixtures(tmp_path, monkeypatch) as server:
        code, said = await run(server.url, "--requirements", version)
    assert (code, failed(said)) == (0, []), said
    assert len(re.findall(r"^✓", said, re.MULTILINE)) >= SCORED[version], said


async def test_every_scenario_there_is_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_fixtures(tmp_path, monkeypatch) as server:
        code, said = await run(server.url, "--suite", "all")
    assert (code, failed(said)) == (0, []), said
    assert len(re.findall(r"^✓ tasks-", said, re.MULTILINE)) >= TASK_SCENARIOS, said


@pytest.mark.parametrize("version", SCORED)
async def test_without_fixtures_fails_what_needs_them_alone(tmp_path: Path, version: str) -> None:
    async with web(tmp_path, token=None) as server:
        code, said = await run(
            server.url, "--requirements", version, "--expected-failures", str(BASELINES / f"{version}.yml")
        )
    assert code == 0, said
