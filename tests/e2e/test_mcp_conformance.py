"""The official conformance suite of MCP on the product's server, over HTTP: with its fixtures, and without them."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from mcp.server.lowlevel.server import Server

from mcp_tools import serving
from mcp_tools.server import make_server
from tests.support.mcp_fixtures import add_fixtures
from tests.support.mcp_http import web
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


async def run(url: str, version: str, *options: str) -> tuple[int, str]:
    """The exit code of the suite, and what it says."""
    suite = command("@modelcontextprotocol/conformance", "dist/index.js")
    arguments = [*suite, "server", "--url", url, "--requirements", version, *options]
    started = functools.partial(subprocess.run, arguments, capture_output=True, text=True, timeout=SECONDS, check=False)
    done = await to_thread.run_sync(started)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("version", SCORED)
async def test_every_required_scenario_passes(tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_fixtures(*arguments: Any, **options: Any) -> Server[Any]:
        server = make_server(*arguments, **options)
        add_fixtures(server)
        return server

    monkeypatch.setattr(serving, "make_server", with_fixtures)
    async with web(tmp_path, token=None) as server:
        code, said = await run(server.url, version)
    failed = [line for line in said.splitlines() if line.startswith("✗")]
    assert code == 0, said
    assert [line for line in failed if "tasks-" not in line] == [], said
    assert len(re.findall(r"^✓", said, re.MULTILINE)) >= SCORED[version], said


@pytest.mark.parametrize("version", SCORED)
async def test_without_fixtures_fails_what_needs_them_alone(tmp_path: Path, version: str) -> None:
    async with web(tmp_path, token=None) as server:
        code, said = await run(server.url, version, "--expected-failures", str(BASELINES / f"{version}.yml"))
    assert code == 0, said
