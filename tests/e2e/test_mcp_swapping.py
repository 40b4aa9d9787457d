"""Links are swapped under everything that reads: views, groups, ticks, tools, resources, completions.

A check of a path before it is opened is always too early; here that shows within a second.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from tests.support.mcp_clients import Caller, Era, served, text_of
from tests.support.sessions import sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SERVERS: Final = 6
SERVED_SECONDS: Final = 10
SLOWEST_SECONDS: Final = 5
"""Of one call, on a busy machine."""
READING: Final = (
    "read('x')",
    "read('d/secret')",
    "ls('d')",
    "ls('d', recursive=True)",
    "grep('.', 'd')",
    "grep('.', 'x')",
    "find('*', 'd')",
    "find('*')",
    "view('x')",
    "view('d')",
    "group('d/*', 'x')",
)
"""What reads, as a statement of a session that is limited to its roots."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


@contextlib.contextmanager
def swapping(root: Path) -> Iterator[list[int]]:
    """`x` and `d` are links that lead by turns to a file and its directory inside, and to the secret and its own."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("TOPSECRET\n")
    (outside / "TOPSECRET.txt").write_text("TOPSECRET\n")
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


async def _read(caller: Caller, uri: str) -> str:
    try:
        return (await caller.client.read_resource(uri)).model_dump_json()
    except MCPError as error:
        return error.error.message


async def _looked(caller: Caller) -> list[str]:
    """Everything that a client is told of `x` and `d`."""
    client = caller.client
    name, path = {"name": "name", "value": ""}, {"name": "path", "value": "d/"}
    template, prompt = "view://{name}", PromptReference(type="ref/prompt", name="orient")
    return [
        text_of(await caller.result("view", name="x", path="x", follow=True)),
        text_of(await caller.result("view", name="y", path="d/secret", follow=True)),
        text_of(await caller.result("view", name="z", path="d")),
        text_of(await caller.result("view", name="x", refresh=True, lod=1)),
        text_of(await caller.result("group", name="g", add=["d/*", "x", "**/secret"])),
        text_of(await caller.result("tick")),
        text_of(await caller.result("timeline")),
        *[await _read(caller, uri) for uri in ("view://x", "view://y", "group://g", "changes://0")],
        (await client.complete(ResourceTemplateReference(type="ref/resource", uri=template), name)).model_dump_json(),
        *[(await client.complete(prompt, {**path, "value": value})).model_dump_json() for value in ("", "d/", "d/T")],
    ]


@pytest.mark.parametrize("era", ["auto"])
async def test_links_that_are_swapped_lead_no_client_outside(project: Path, era: Era) -> None:
    refused = seen = 0
    slowest = 0.0
    with swapping(project) as swaps:
        for _ in range(SERVERS):
            end = time.monotonic() + SERVED_SECONDS
            async with served(project, era=era) as caller:
                while time.monotonic() < end:
                    begun = time.monotonic()
                    for text in await _looked(caller):
                        assert "TOPSECRET" not in text, text
                        refused += "outside the workspace" in text
                        seen += "harmless" in text
                    slowest = max(slowest, time.monotonic() - begun)
    assert swaps[0] > 100
    assert refused
    assert seen
    assert slowest < SLOWEST_SECONDS


async def test_links_that_are_swapped_lead_no_tool_outside(project: Path) -> None:
    refused = seen = 0
    with swapping(project):
        async with sessions_of(project.parent / "state") as sessions:
            session = await sessions.open(None, str(project), (), confined=True)
            end = time.monotonic() + SERVED_SECONDS
            while time.monotonic() < end:
                for source in READING:
                    with anyio.fail_after(SLOWEST_SECONDS):
                        finished = await session.cell(source)
                    text = repr(finished)
                    assert "TOPSECRET" not in text, text
                    refused += "outside the workspace" in text
                    seen += "harmless" in text
    assert refused
    assert seen
