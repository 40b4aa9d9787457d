"""Where npx takes the package of an MCP server from, and what the package starts: real npx, real registries."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.core.programs import ServerRequest
from engine.session.npx import away_from_project
from tests.support.node import node

PROGRAM = """#!/usr/bin/env node
console.log(JSON.stringify([SAYS, process.cwd(), process.env.INIT_CWD, process.env.REWINDOW_SERVER_DIRECTORY,
  process.argv.slice(2), require('child_process').execSync('which tool || true').toString()]))
"""


@contextmanager
def registry(says: str) -> Iterator[str]:
    """An npm registry with one package, whose program prints what it finds."""
    packed = io.BytesIO()
    manifest = {"name": "@x/server", "version": "1.0.0", "bin": {"server": "server.js"}}
    files = {"package.json": json.dumps(manifest), "server.js": PROGRAM.replace("SAYS", json.dumps(says))}
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size, info.mode = len(text), 0o755
            archive.addfile(info, io.BytesIO(text.encode()))
    digest = base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            dist = {"tarball": f"{url}server.tgz", "integrity": f"sha512-{digest}"}
            versions = {"1.0.0": {**manifest, "dist": dist}}
            index = {"name": "@x/server", "dist-tags": {"latest": "1.0.0"}, "versions": versions}
            body = packed.getvalue() if self.path.endswith(".tgz") else json.dumps(index).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield url
        server.shutdown()


def planted(path: Path, says: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory in which statements have left programs, some with the names of usual ones."""
    found = tmp_path / "project"
    for name in ("node", "sh", "tool", "server"):
        planted(found / "node_modules" / ".bin" / name, "planted")
    (found / "package.json").write_text('{"name": "p", "version": "1.0.0"}')
    return found


def said(request: ServerRequest, url: str, home: Path) -> str:
    settings = {"npm_config_registry": url, "npm_config_cache": str(home / "cache"), "npm_config_update_notifier": ""}
    variables = {**request.variables, **settings, "HOME": str(home)}
    ran = subprocess.run(
        request.argv, cwd=request.cwd, env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def asked(project: Path, state: Path, *arguments: str) -> ServerRequest:
    binary = Path(node())
    npx = state.with_name("npx")
    if not npx.exists():
        main = binary.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js"
        npx.write_text(f"#!{binary}\nrequire({json.dumps(str(main))})\n")
        npx.chmod(0o755)
    variables = {"PATH": f"{binary.parent}:/usr/bin:/bin"}
    request = ServerRequest(argv=(str(npx), *arguments), cwd=str(project), variables=variables)
    return away_from_project(request, str(state))


@pytest.mark.parametrize(
    "arguments", [("-y", "@x/server", "."), ("-p", "@x/server", "-y", "server", ".")], ids=["package", "program"]
)
def test_a_package_that_npx_fetches_finds_no_program_of_the_project(
    tmp_path: Path, project: Path, arguments: tuple[str, ...]
) -> None:
    with registry("fetched") as url:
        found = json.loads(said(asked(project, tmp_path / "state", *arguments), url, tmp_path))
    assert found == ["fetched", str(project), str(project), None, ["."], ""]


def test_the_registry_of_the_project_counts(tmp_path: Path, project: Path) -> None:
    with registry("company's") as companys, registry("public") as public:
        (project / ".npmrc").write_text(f"@x:registry={companys}\n")
        request = asked(project, tmp_path / "state", "-y", "@x/server")
        assert json.loads(said(request, public, tmp_path))[:2] == ["company's", str(project)]


@pytest.mark.parametrize(
    ("command", "arguments", "is_elsewhere"),
    [
        ("npx", ("-y", "@x/server", "."), True),
        ("npx", ("--yes", "server"), True),
        ("npx", ("--yes=true", "server"), True),
        ("npx", ("-qy", "server"), True),
        ("npx", ("--loglevel", "error", "-y", "server"), True),
        ("npx", ("--package=@x/server", "-y", "--", "server"), True),
        ("npm", ("exec", "-y", "server"), True),
        ("npm", ("x", "--yes", "server"), True),
        ("npm", ("--yes", "exec", "server"), True),
        ("npm", ("--loglevel", "error", "exec", "--ye", "server"), True),
        ("npx", ("--y", "server"), True),
        ("npx", ("-y", "/opt/server"), True),
        ("npx", ("-y", "./server"), False),
        ("npx", ("-y", "-p", "file:tools/server", "server"), False),
        ("npx", ("server",), False),
        ("npx", ("server", "-y"), False),
        ("npx", ("--no-install", "server", "-y"), False),
        ("npx", ("-q", "server", "-y"), False),
        ("npx", ("--", "server", "-y"), False),
        ("npm", ("run", "-y", "server"), False),
        ("npm", ("--yes", "run", "exec"), False),
        ("node", ("-y", "server"), False),
    ],
)
def test_npx_works_elsewhere_if_it_may_fetch(
    tmp_path: Path, command: str, arguments: tuple[str, ...], is_elsewhere: bool
) -> None:
    request = ServerRequest(argv=(f"/bin/{command}", *arguments), cwd=str(tmp_path), variables={"A": "b"})
    found = away_from_project(request, str(tmp_path / "state"))
    if is_elsewhere:
        assert (found.cwd, found.argv[0], found.argv[3:]) == ("/dev", f"/bin/{command}", arguments)
        assert found.argv[1] == "--prefix=/dev"
        assert found.variables == {"A": "b", "REWINDOW_SERVER_DIRECTORY": str(tmp_path)}
    else:
        assert found == request


@pytest.mark.parametrize(
    "arguments",
    [("-y", "@x/server"), ("-y", "@x/server@1.2"), ("-p", "@x/server@latest", "-y", "run"), ("-y", "--", "@x/server")],
)
def test_nothing_is_fetched_instead_of_a_package_that_is_there(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "node_modules" / "@x" / "server").mkdir(parents=True)
    request = ServerRequest(argv=("npx", *arguments), cwd=str(tmp_path), variables={})
    with pytest.raises(ValueError, match="start the server without -y"):
        away_from_project(request, str(tmp_path / "state"))
    other = ServerRequest(argv=("npx", "-y", "@x/other"), cwd=str(tmp_path), variables={})
    assert away_from_project(other, str(tmp_path / "state")) != other


def test_settings_of_a_directory_above_count_if_that_is_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below, state = tmp_path / "project" / "below", tmp_path / "state"
    below.mkdir(parents=True)
    request = ServerRequest(argv=("npx", "-y", "server"), cwd=str(below), variables={})
    (tmp_path / "project" / ".npmrc").write_text("registry=https://npm.example\n")
    assert away_from_project(request, str(state)).argv[1] == "--prefix=/dev"
    (tmp_path / "project" / "package.json").write_text("{}")
    for _ in range(2):  # the link is there already at the second start
        prefix = Path(away_from_project(request, str(state)).argv[1].removeprefix("--prefix="))
        assert prefix.is_relative_to(state)
        assert (prefix / ".npmrc").read_text() == "registry=https://npm.example\n"
    monkeypatch.setenv("HOME", str(tmp_path / "project"))  # npm reads these for the user
    assert away_from_project(request, str(state)).argv[1] == "--prefix=/dev"
