"""`rewindow-mcp` while links are swapped under it, while it is killed, and while two want one session."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference

from tests.support.mcp_clients import SCRIPT, Caller, process, served, text_of

pytestmark = pytest.mark.slow
SECONDS: Final = 30
SWAPPING_SECONDS: Final = 10
KILLS: Final = 8
META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n")
    return root


@contextlib.contextmanager
def swapping(root: Path, outside: Path) -> Iterator[list[int]]:
    """`x` and `d` are links that lead by turns to a file and its directory inside, and to the secret and its own."""
    (root / "in").mkdir()
    (root / "in" / "secret").write_text("harmless\n")
    stop, swaps = threading.Event(), [0]

    def swap() -> None:
        while not stop.is_set():
            for target in ("in", str(outside)):
                for name, leads in (("d", target), ("x", f"{target}/secret")):
                    (root / "next").symlink_to(leads)
                    (root / "next").replace(root / name)
                swaps[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield swaps
    finally:
        stop.set()
        thread.join()


async def _looked(caller: Caller) -> list[str]:
    texts = [
        text_of(await caller.result("view", name="x", path="x", follow=True)),
        text_of(await caller.result("view", name="y", path="d/secret", follow=True)),
        text_of(await caller.result("view", name="z", path="d")),
        text_of(await caller.result("group", name="g", add=["d/*", "x"])),
        text_of(await caller.result("tick")),
    ]
    for uri in ("view://x", "view://y", "group://g", "timeline://session"):
        with contextlib.suppress(MCPError):
            texts.append((await caller.client.read_resource(uri)).model_dump_json())
    orient = PromptReference(type="ref/prompt", name="orient")
    found = await caller.client.complete(orient, {"name": "path", "value": "d/"})
    return [*texts, found.model_dump_json()]


@pytest.mark.anyio
async def test_links_that_are_swapped_lead_nowhere_outside(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("TOPSECRET\n")
    (outside / "TOPSECRET.txt").write_text("")
    (outside / "TOPSECRET").mkdir()
    with swapping(project, outside) as swaps:
        async with served(project) as caller:
            end, refused, seen = time.monotonic() + SWAPPING_SECONDS, 0, 0
            while time.monotonic() < end:
                for text in await _looked(caller):
                    assert "TOPSECRET" not in text, text
                    refused += "outside the workspace" in text
                    seen += "harmless" in text
    assert swaps[0] > 100
    assert refused
    assert seen


def _call(number: int, tool: str, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"


def _started(root: Path, *options: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(root.parent / "state")}
    command = [str(SCRIPT), *options]
    return subprocess.Popen(command, cwd=root, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _answer(line: bytes) -> dict[str, Any]:
    return json.loads(line)["result"]


def test_no_call_that_was_answered_is_lost_when_the_server_is_killed(project: Path) -> None:
    chance, answered, number = random.Random(7), set[str](), 0
    for _ in range(KILLS):
        server = _started(project, "--session", "work")
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(_call(0, "timeline", tokens=20_000))
        server.stdin.flush()
        listed = _answer(server.stdout.readline())["content"][0]["text"]
        assert {name for name in answered if f"{name} = view(" in listed} == answered
        for name in sorted(answered)[-2:]:
            server.stdin.write(_call(-1, "view", name=name))
            server.stdin.flush()
            again = _answer(server.stdout.readline())
            assert again["content"][0]["text"].startswith(f"{name}  a.txt  "), again
        below = psutil.Process(server.pid).children(recursive=True)
        timer = threading.Timer(chance.random() * 1.5, server.send_signal, [signal.SIGKILL])
        timer.start()
        with contextlib.suppress(BrokenPipeError):
            for _ in range(20):
                number += 1
                server.stdin.write(_call(number, "view", path="a.txt", name=f"v{number}", tokens=5))
                server.stdin.flush()
        for line in server.stdout:
            if line.endswith(b"\n") and "id" in (message := json.loads(line)):
                assert not message["result"]["isError"], message
                answered.add(f"v{message['id']}")
        timer.join()
        server.wait(SECONDS)
        _, left = psutil.wait_procs(below, SECONDS)
        assert not left
        with contextlib.suppress(BrokenPipeError):
            server.stdin.close()
        server.stdout.close()
    assert answered


@pytest.mark.anyio
async def test_of_two_servers_the_second_is_told_who_has_the_session(project: Path) -> None:
    async with process(project, "--session", "work") as first, process(project, "--session", "work") as second:
        await first.text("view", path="a.txt")
        said = await second.error("view", path="a.txt")
        assert "process" in said
        assert "\n" not in said
        with pytest.raises(MCPError):
            await second.client.list_resources()
        assert (await first.text("view", name="a")).startswith("a  ")


def test_the_end_of_input_in_a_call_ends_everything(project: Path) -> None:
    server = _started(project, "--allow-run=unsandboxed")
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(_call(1, "view", path="a.txt"))
    server.stdin.flush()
    assert _answer(server.stdout.readline())
    below = psutil.Process(server.pid).children(recursive=True)
    server.stdin.write(_call(2, "run", code="while True: pass", seconds=600) + _call(3, "tick", wait=25))
    server.stdin.close()
    assert server.wait(SECONDS) == 0
    _, left = psutil.wait_procs(below, SECONDS)
    assert not left
    server.stdout.close()


@pytest.mark.anyio
async def test_a_state_directory_that_cannot_be_written_costs_the_history_alone(project: Path) -> None:
    async with process(project, environ={"REWINDOW_STATE_DIR": "/proc/nowhere"}) as caller:
        assert "two" in await caller.text("view", path="a.txt")
        assert "two" in await caller.text("view", name="a")
