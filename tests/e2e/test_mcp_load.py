"""Fifty clients over HTTP for two minutes: no error, and nothing that grows with the calls by more than some ids."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import httpx2
import psutil
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.mcp_clients import SCRIPT, Caller, Era

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
CLIENTS: Final = 50
SESSIONS: Final = 8
SECONDS: Final = 120
WARM_SECONDS: Final = 30
"""By when every client has connected and every session has its handles."""
PATIENCE: Final = 60
MOST_PER_CALL: Final = 450
"""Bytes by which the server may grow for each call: ids, and positions in the logs of its sessions."""
MOST_ANYHOW: Final = 2_500_000
"""Bytes that come to it in all: the newest events of each session, and what the allocator does not give back."""
MOST_PER_WORKER: Final = 3_000_000
"""Bytes by which a worker may grow, whatever number of statements it runs: pages that it shares with the others until
it writes to them, and the newest sources."""
MOST_DESCRIPTORS: Final = 8
"""By which the open descriptors may differ when all clients have left: threads and timers have some now and then."""
CLOSING_SECONDS: Final = 6
"""Within this time the server has closed the connections of clients that left."""


def started(project: Path) -> tuple[subprocess.Popen[str], str]:
    """A server as its user starts it, and its URL."""
    server = subprocess.Popen(
        [str(SCRIPT), "--http", "0", "--no-token", "--root", str(project)],
        cwd=project,
        env={**os.environ, "REWINDOW_STATE_DIR": str(project.parent / "state")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    return server, server.stderr.readline().split()[2].rstrip(",")


class Load:
    """What the clients do, and how long each call took, in seconds."""

    def __init__(self, url: str, project: Path) -> None:
        self._url = url
        self._project = project
        self.took: list[float] = []

    async def visit_all(self) -> None:
        """Has every session opened, by one client after the other."""
        for number in range(SESSIONS):
            async with Client(streamable_http_client(f"{self._url}/s{number}"), mode="auto") as client:
                await Caller(client).text("view", name=f"v{number}", path=f"f{number}.txt")

    async def serve(self, number: int, end: float) -> None:
        """One client, which comes again and again until the end: half of them of each era, a few in each session."""
        era: Era = "auto" if number % 2 else "legacy"
        url = f"{self._url}/s{number % SESSIONS}"
        while time.monotonic() < end:
            async with (
                httpx2.AsyncClient(timeout=PATIENCE) as http,
                Client(streamable_http_client(url, http_client=http), mode=era) as client,
            ):
                caller = Caller(client)
                for _ in range(20):
                    if time.monotonic() < end:
                        await self._round(caller, number)

    async def _round(self, caller: Caller, number: int) -> None:
        name = f"v{number}"
        await self._timed(caller, "view", name=name, path=f"f{number}.txt", tokens=100, follow=True)
        await self._timed(caller, "view", name=name, scroll=1)
        (self._project / f"f{number}.txt").write_text(f"{time.monotonic()}\n")
        assert "cursor " in await self._timed(caller, "tick")
        await self._timed(caller, "group", name=f"g{number % SESSIONS}", add=["f*.txt"], tokens=200)
        await self._timed(caller, "view")
        await self._timed(caller, "timeline", tokens=200)
        (read,) = (await caller.client.read_resource(f"view://{name}")).contents
        assert name in read.model_dump_json()

    async def _timed(self, caller: Caller, tool: str, **arguments: object) -> str:
        begun = time.monotonic()
        text = await caller.text(tool, **arguments)
        self.took.append(time.monotonic() - begun)
        return text


def held(server: psutil.Process) -> tuple[float, float]:
    """The memory of the server, and that of all its workers, in bytes."""
    return _held(server), sum(map(_held, server.children(recursive=True)))


def _held(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):  # what is forked for a moment
        return process.memory_full_info().pss
    return 0.0


async def idle_descriptors(server: psutil.Process) -> int:
    """The descriptors that the server has open when no client is there: the fewest within a while."""
    fewest, end = server.num_fds(), time.monotonic() + CLOSING_SECONDS
    while time.monotonic() < end:
        await anyio.sleep(0.1)
        fewest = min(fewest, server.num_fds())
    return fewest


async def test_fifty_clients_for_two_minutes(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for number in range(CLIENTS):
        (project / f"f{number}.txt").write_text("one\ntwo\n")
    server, url = started(project)
    process = psutil.Process(server.pid)
    warm, later, calls = (0.0, 0.0), (0.0, 0.0), 0
    try:
        await Load(url, project).visit_all()
        descriptors = await idle_descriptors(process)
        load, begun = Load(url, project), time.monotonic()
        async with anyio.create_task_group() as tasks:
            for number in range(CLIENTS):
                tasks.start_soon(load.serve, number, begun + SECONDS)
            await anyio.sleep(WARM_SECONDS)
            warm = held(process)
            calls = -len(load.took)
            await anyio.sleep(SECONDS - WARM_SECONDS - 1)
            later = held(process)
            calls += len(load.took)
        open_then = await idle_descriptors(process)
        below = process.children(recursive=True)
        server.terminate()
        assert server.stderr is not None
        assert server.stderr.read() == ""
        server.wait(PATIENCE)
        _, left = psutil.wait_procs(below, PATIENCE)
        assert not left
    finally:
        server.kill()
        server.communicate()
    p99 = statistics.quantiles(load.took, n=100)[98]
    figures = {
        "calls": len(load.took),
        "p50_ms": statistics.median(load.took) * 1000,
        "p99_ms": p99 * 1000,
        "calls_between": calls,
        "server_mb": (warm[0] / 1e6, later[0] / 1e6),
        "workers_mb": (warm[1] / 1e6, later[1] / 1e6),
        "descriptors": (descriptors, open_then),
    }
    record_property("figures", figures)
    print(figures)
    assert len(load.took) > SECONDS * 5
    assert later[0] - warm[0] < MOST_ANYHOW + MOST_PER_CALL * calls, figures
    assert later[1] - warm[1] < MOST_PER_WORKER * SESSIONS, figures
    assert abs(open_then - descriptors) <= MOST_DESCRIPTORS, figures
