"""Which programs an MCP server finds, and as which program it is started itself."""

from __future__ import annotations

import sys
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
TOOL = StdioServer(name="tool", command="tool")


async def started(project: Path, written: tuple[str, ...], server: StdioServer = TOOL) -> list[ServerRequest]:
    """What is started for the server, with PATH as in an activated environment of the project."""
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
        variables={"PATH": f"{tool.parent}:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{tool.parent}::/usr/lib"},
    )
    servers = SessionServers(
        {"tool": server}, spec, NOTHING, NOTHING, start, written=lambda: written, writable=(str(project),)
    )
    async with anyio.create_task_group() as tasks:
        servers.connect(tasks)
    return found


async def test_a_server_finds_no_program_where_statements_may_write_later(tmp_path: Path) -> None:
    (request,) = await started(tmp_path, ())
    assert str(tmp_path / "bin") not in request.variables["PATH"].split(":")
    assert "/usr/bin" in request.variables["PATH"].split(":")
    assert request.variables["LD_LIBRARY_PATH"] == "/usr/lib"
    assert request.argv == (str(tmp_path / "bin" / "tool"),)


async def test_a_server_is_not_started_from_where_statements_have_written(tmp_path: Path) -> None:
    assert await started(tmp_path, (str(tmp_path),)) == []


@pytest.mark.parametrize(
    ("arguments", "given", "found"),
    [
        (("-m", "clock"), {}, "1"),
        (("-u", "-c", "import clock"), {}, "1"),
        (("-m", "clock"), {"PYTHONSAFEPATH": ""}, ""),
        (("-um", "clock"), {}, "1"),
        (("-X", "dev", "-mclock"), {}, "1"),
        (("-Xdev", "-cimport clock"), {}, "1"),
        (("--check-hash-based-pycs", "never", "-m", "clock"), {}, "1"),
        (("clock.py",), {}, None),
        (("-u", "-W", "m", "clock.py", "-m"), {}, None),
    ],
)
async def test_python_finds_no_server_where_statements_may_write(
    tmp_path: Path, arguments: tuple[str, ...], given: dict[str, str], found: str | None
) -> None:
    server = StdioServer(name="tool", command=sys.executable, args=arguments, env=given)
    (request,) = await started(tmp_path, (), server)
    assert request.variables.get("PYTHONSAFEPATH") == found
    assert request.argv[1:] == arguments


@pytest.mark.parametrize(
    ("arguments", "given", "added"),
    [
        (("-E", "-m", "clock"), {}, ("-P",)),
        (("-uEc", "import clock"), {}, ("-P",)),
        (("-E", "-m", "clock"), {"PYTHONSAFEPATH": ""}, ()),
        (("-E", "clock.py"), {}, ()),
    ],
)
async def test_python_without_environment_finds_none_either(
    tmp_path: Path, arguments: tuple[str, ...], given: dict[str, str], added: tuple[str, ...]
) -> None:
    link = tmp_path / "server"
    link.symlink_to(sys.executable)
    server = StdioServer(name="tool", command=str(link), args=arguments, env=given)
    (request,) = await started(tmp_path, (), server)
    assert request.argv[1:] == (*added, *arguments)
