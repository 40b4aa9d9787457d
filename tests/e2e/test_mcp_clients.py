"""`rewindow-mcp` with clients that are not ours, over standard input and output: each is answered the same."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcp_tools.server import INSTRUCTIONS
from tests.support.mcp_calls import ESSENTIAL, FILES, FURTHER, LEGACY, LISTED, Ask, Edit, Hear, Step, check
from tests.support.mcp_clients import SCRIPT
from tests.support.mcp_peers import PEERS, VERSIONS, Driven, Era, Peer
from tests.support.node import command

pytestmark = pytest.mark.slow
SECONDS = 60
RUNS = "--allow-run=unsandboxed"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def play(client: Driven, root: Path, steps: Sequence[Step]) -> None:
    """Has the client go through the steps, in order, and holds each answer to its facts."""
    for step in steps:
        if isinstance(step, Edit):
            (root / step.path).write_text(step.text)
        elif isinstance(step, Hear):
            check(step, client.hear(step.method))
        else:
            answer = client.ask(step.method, step.params)
            assert answer.get("error", {}).get("code") == step.code, answer
            check(step, answer["result" if step.code is None else "error"])


@pytest.mark.parametrize(
    ("peer", "era"), [pytest.param(peer, era, id=f"{peer.package}, {era}") for peer in PEERS for era in peer.eras]
)
def test_every_client_is_answered_the_same(project: Path, peer: Peer, era: Era) -> None:
    with Driven(peer, era, project, "--root", ".", RUNS) as client:
        server = client.introduced()
        assert server["protocolVersion"] == VERSIONS[era]
        assert server["serverInfo"]["name"] == "rewindow"
        assert server["instructions"].startswith(INSTRUCTIONS)
        assert {"completions", "prompts", "resources", "tools"} <= server["capabilities"].keys()
        assert server["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
        play(client, project, [*ESSENTIAL, *FURTHER, *(LEGACY if era == "legacy" else ())])


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program to its end, in the project and with a home of its own."""
    environ = {**os.environ, "HOME": str(root.parent), "REWINDOW_STATE_DIR": str(root.parent / "state")}
    return subprocess.run(
        arguments, cwd=root, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def inspected(step: Ask) -> list[str]:
    """A request, as the Inspector's command line has it."""
    named, given = step.params.get("name", ""), step.params.get("arguments", {})
    pairs = [f"{name}={value}" for name, value in given.items()]
    options = {
        "tools/call": ["--tool-name", named, "--tool-args-json", json.dumps(given)],
        "resources/read": ["--uri", step.params.get("uri", "")],
        "prompts/get": ["--prompt-name", named, *(["--prompt-args", *pairs] if pairs else [])],
    }
    return ["--method", step.method, *options.get(step.method, [])]


@pytest.mark.parametrize("era", VERSIONS)
def test_the_inspector_is_answered_the_same(project: Path, era: Era) -> None:
    printed = run(project, str(SCRIPT), "--root", ".", "--session", "work", RUNS, "--print-config", "inspector")
    config = project.parent / "inspector.json"
    config.write_text(printed.stdout)
    launcher = command("@modelcontextprotocol/inspector", "clients/launcher/build/index.js")
    inspector = [*launcher, "--cli", "--config", str(config), "--server", "rewindow", "--protocol-era", era]

    strict = run(project, *inspector, *inspected(LISTED), "--strict")
    assert (strict.returncode, strict.stderr.count("Issue:")) == (0, 0), strict.stderr
    for step in ESSENTIAL:
        done = run(project, *inspector, "--format", "json", "--quiet", *inspected(step))
        assert done.returncode == 0, done.stderr
        check(step, json.loads(done.stdout)["result"])
