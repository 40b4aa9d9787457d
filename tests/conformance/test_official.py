"""The official MCP suite: its verdicts become results, and its errors are reported."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import official
from conformance.cli import main

SUITE = """\
#!/bin/sh
if [ "$1" = --version ]; then echo {version}; exit; fi
while [ "$1" != -o ]; do shift; done
{then}
"""
WRITES = """\
write() {{
  mkdir -p "$1/server-$2-2026-11-22T13-04-00-533Z"
  echo "$3" > "$1/server-$2-2026-11-22T13-04-00-533Z/checks.json"
}}
for scenario in {passes}; do write "$2" $scenario '[{{"description":"Lists","status":"SUCCESS"}}]'; done
write "$2" {fails} '[{{"description":"Gives text","status":"FAILURE","errorMessage":"Unknown tool"}}]'
exit 1
"""


@pytest.fixture
def url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/mcp"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = tmp_path / "node_modules" / official.PACKAGE / "dist" / "index.js"
    script.parent.mkdir(parents=True)
    script.write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def node(home: Path, then: str, version: str = "v22.1.0") -> None:
    (home / "node").write_text(SUITE.format(version=version, then=then))
    (home / "node").chmod(0o755)


def test_fixture_scenarios_do_not_decide(home: Path, url: str) -> None:
    node(home, WRITES.format(passes="ping tools-list", fails="tools-call-simple-text"))
    assert main(["mcp", "--url", url, "--json", "report.json"]) == 0
    results = {one["id"]: one for one in json.loads((home / "report.json").read_text())["results"]}
    assert len(results) == 6
    assert results["MCP-O-2026-07-28-ping"]["outcome"] == "pass"
    told = results["MCP-O-2025-11-25-tools-call-simple-text"]
    assert (told["outcome"], told["level"], told["violation"]) == ("note", "informational", False)
    assert told["reason"] == "Gives text: Unknown tool"


@pytest.mark.parametrize("kind", ["--html", "--junit", "--markdown"])
def test_general_scenarios_decide(home: Path, url: str, kind: str) -> None:
    node(home, WRITES.format(passes="ping", fails="tools-list"))
    assert main(["mcp", "--url", url, kind, "report"]) == 1
    assert "MCP-O-2026-07-28-tools-list" in (home / "report").read_text()
    assert main(["mcp", "--url", url, "-k", "ping"]) == 0


def test_unreachable_server_is_not_judged(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node(home, "exit 1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert main(["mcp", "--url", f"http://127.0.0.1:{port}/mcp"]) == 3
    assert main(["mcp", "--url", "nonsense"]) == 3
    assert "cannot be reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("then", "version", "said"),
    [
        ("echo broken; exit 1", "v22.1.0", "the official suite gave no verdict: broken"),
        ("exit 1", "v20.20.2", "needs Node 22 or later"),
        ("exit 1", "nonsense", "needs Node 22 or later"),
    ],
)
def test_failing_official_suite_is_reported(
    home: Path, url: str, then: str, version: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node(home, then, version)
    assert main(["mcp", "--url", url]) == 2
    assert said in capsys.readouterr().err


def test_missing_official_suite_names_install_command(home: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    node(home, "exit 1")
    (home / "empty").mkdir()
    assert main(["mcp", "--url", url, "--official", "empty"]) == 2
    assert "npm install @modelcontextprotocol/conformance@0.2.0-alpha.12" in capsys.readouterr().err


def test_hanging_official_suite_is_killed(home: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    node(home, "exec sleep 60")
    assert main(["mcp", "--url", url, "--budget", "0.3"]) == 2
    assert "did not end within 0.3 s" in capsys.readouterr().err
