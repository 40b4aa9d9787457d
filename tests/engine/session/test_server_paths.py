"""Which programs an MCP server finds, and as which program it is started itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from engine import StdioServer
from engine.core.programs import ServerRequest
from engine.log.redaction import NO_SECRETS
from engine.runtime.environment import EnvironmentSpec
from engine.session.servers import SessionServers

pytestmark = pytest.mark.anyio
NOTHING = cast(Any, None)


async def started(project: Path, written: tuple[str, ...]) -> list[ServerRequest]:
    """What is started for the server `tool`, with PATH as in an activated environment of the project."""
    found: list[ServerRequest] = []

    def start(spec: EnvironmentSpec, request: ServerRequest) -> Any:
        found.append(request)
        raise FileNotFoundError("this is a test")

    tool = project / "bin" / "tool"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    spec = EnvironmentSpec(
        cwd=str(project),
        redactor=NO_SECRETS,
        servers={"tool": "tool"},
        variables={"PATH": f"{tool.parent}:/usr/bin:/bin"},
    )
    named = {"tool": StdioServer(name="tool", command="tool")}
    servers = SessionServers(named, spec, NOTHING, NOTHING, start, written=lambda: written, writable=(str(project),))
    async with anyio.create_task_group() as tasks:
        servers.connect(tasks)
    return found


async def test_a_server_finds_no_program_where_statements_may_write_later(tmp_path: Path) -> None:
    (request,) = await started(tmp_path, ())
    assert str(tmp_path / "bin") not in request.variables["PATH"].split(":")
    assert "/usr/bin" in request.variables["PATH"].split(":")
    assert request.argv == (str(tmp_path / "bin" / "tool"),)


async def test_a_server_is_not_started_from_where_statements_have_written(tmp_path: Path) -> None:
    assert await started(tmp_path, (str(tmp_path),)) == []
