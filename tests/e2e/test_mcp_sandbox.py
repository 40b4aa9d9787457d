"""`rewindow-mcp --allow-run`: clients write below the roots and in scratch, and what would ask is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_tools.cli import main
from tests.support.mcp_clients import process

pytestmark = pytest.mark.anyio

ESCAPES = {
    "a file": "open({outside!r}, 'w').write('x')",
    "a program": "import subprocess; subprocess.run(['sh', '-c', 'echo x > {outside}'], check=True)",
    "C code": (
        "import ctypes; fd = ctypes.CDLL(None, use_errno=True).open({outside!r}.encode(), 0o101, 0o600)\n"
        "if fd < 0: raise OSError(ctypes.get_errno())"
    ),
    "a tool": "write({outside!r}, 'x')",
    "a command": "assert bash('echo x > {outside}').code == 0",
    "a command outside": "bash('echo x > {outside}', outside=True)",
    "a connection": "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    (tmp_path / "secret.txt").write_text("to be read\n")
    return root


@pytest.mark.slow
async def test_client_python_writes_only_in_roots_and_scratch(project: Path) -> None:
    outside = str(project.parent / "outside.txt")
    async with process(project, "--allow-run") as caller:
        for what, template in ESCAPES.items():
            code = template.replace("{outside!r}", repr(outside)).replace("{outside}", outside)
            said = await caller.error("run", code=code)
            assert "outside.txt" not in os.listdir(project.parent), what
            assert "Error" in said, (what, said)
        assert "no user can be asked" in await caller.error("run", code="bash('true', outside=True)")
        for code in (
            "open('own.txt', 'w').write('x')",
            "write('tool.txt', 'x')",
            "bash('echo x > command.txt')",
            "import tempfile; tempfile.mkstemp()",
            f"assert 'to be read' in open({str(project.parent / 'secret.txt')!r}).read()",
        ):
            await caller.text("run", code=code)
    assert set(os.listdir(project)) >= {"own.txt", "tool.txt", "command.txt"}


def test_kernel_without_sandbox_ends_the_server_with_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.cannot_hold", lambda: "this kernel has no Landlock", raising=False)
    assert main(["--allow-run"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("rewindow-mcp: --allow-run needs a sandbox, but this kernel has no Landlock")
    assert "With --allow-run=unsandboxed clients run Python with" in said


@pytest.mark.parametrize("options", [("--network",), ("--network", "--allow-run=unsandboxed")])
def test_the_network_is_for_the_sandbox(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options) == 2
    assert "--network needs --allow-run" in capsys.readouterr().err
