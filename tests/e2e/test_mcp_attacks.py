"""`rewindow-mcp` while it or its worker is killed, its disk is full, and two want one session."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from mcp.shared.exceptions import MCPError

from engine import open_store, session_named
from engine.core.clock import SystemClock
from engine.log.events.execution import StatementRecorded
from mcp_tools.client_session import WORKER_DIED
from mcp_tools.requests import NOT_SAVED
from tests.support.mcp_clients import SCRIPT, process

pytestmark = pytest.mark.slow
SECONDS: Final = 30
KILLS: Final = 50
CALLS: Final = 20
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


def _call(number: int, tool: str, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"


def _started(root: Path, *options: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(root.parent / "state")}
    command = [str(SCRIPT), *options]
    return subprocess.Popen(command, cwd=root, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _answer(line: bytes) -> dict[str, Any]:
    return json.loads(line)["result"]


class Victim:
    """A server of the session `work` to which something happens. It is to have all that was acknowledged before."""

    def __init__(self, root: Path, acknowledged: dict[int, str]) -> None:
        self._acknowledged = acknowledged
        """By the number of the statement, how its source begins."""
        self.refused: list[str] = []
        self._asked: dict[int, str] = {}
        self._server = _started(root, "--session", "work")
        self._id = 0

    def send(self, tool: str, **arguments: object) -> int:
        assert self._server.stdin is not None
        self._id += 1
        self._server.stdin.write(_call(self._id, tool, **arguments))
        self._server.stdin.flush()
        return self._id

    def said(self, tool: str, **arguments: object) -> str:
        assert self._server.stdout is not None
        self.send(tool, **arguments)
        result = _answer(self._server.stdout.readline())
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def check(self) -> None:
        """What was acknowledged last is there: the handles with their files, the statements with their sources."""
        for number, source in sorted(self._acknowledged.items())[-2:]:
            assert source in self.said("timeline", statement=number)
            name = source.partition(" ")[0]
            assert "two" in self.said("view", name=name, tokens=100)

    def ask(self, calls: int) -> None:
        """Opens so many views, of few names, without waiting for answers."""
        with contextlib.suppress(BrokenPipeError):
            for number in range(calls):
                name, tokens = f"v{number % 7}", 100 + self._id
                self._asked[self.send("view", path="a.txt", name=name, tokens=tokens)] = (
                    f"{name} = view('a.txt', tokens={tokens}"
                )

    def take(self, calls: int) -> None:
        """Takes answers, until there are so many or the server is gone."""
        assert self._server.stdout is not None
        for line in itertools.islice(self._server.stdout, calls):
            if line.endswith(b"\n"):
                message = json.loads(line)
                (block,), failed = message["result"]["content"], message["result"].get("isError", False)
                if failed:
                    self.refused.append(block["text"])
                else:
                    number = int(block["text"].partition("\n")[0].rpartition("statement ")[2])
                    self._acknowledged[number] = self._asked[message["id"]]

    def kill(self, what: str) -> None:
        if what == "server":
            self._server.kill()
        for each in self.below() if what == "worker" else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                if not each.children():  # for the one that forks workers is no worker
                    each.kill()

    @property
    def pid(self) -> int:
        return self._server.pid

    def below(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._server.pid).children(recursive=True)
        return []

    def end(self, below: Sequence[psutil.Process]) -> None:
        """Closes its input, if it lives, and waits for the end of everything."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._server.stdin.close()
        self._server.wait(SECONDS)
        _, left = psutil.wait_procs(below, SECONDS)
        assert not left
        self._server.stdout.close()


def test_no_call_that_was_answered_is_lost_whatever_is_killed(project: Path) -> None:
    chance, acknowledged = random.Random(7), dict[int, str]()
    for what in chance.sample(["server", "worker"] * (KILLS // 2), KILLS):
        victim = Victim(project, acknowledged)
        victim.check()
        below = victim.below()
        timer = threading.Timer(chance.random() * 0.5, victim.kill, [what])
        timer.start()
        victim.ask(CALLS)
        victim.take(CALLS)
        timer.join()
        if what == "worker":
            victim.ask(1)  # which may be the first to find that it is gone
            victim.take(1)
            victim.check()
        assert all(said.endswith(WORKER_DIED.partition("{reason}")[2]) for said in victim.refused), victim.refused
        victim.end([*below, *victim.below()])
    assert len(acknowledged) > KILLS
    check_recorded(project, acknowledged)


def check_recorded(project: Path, acknowledged: dict[int, str]) -> None:
    """Everything that was acknowledged is on disk."""
    with contextlib.closing(open_store(project.parent / "state", SystemClock())) as store:
        events = store.load(session_named("work"))
    sources = {event.index: event.source for event in events if isinstance(event, StatementRecorded)}
    assert all(sources[number].startswith(source) for number, source in acknowledged.items())


@contextlib.contextmanager
def small_disk(place: Path) -> Generator[None]:
    """A file system of 4 MB there. Skips the test where none may be mounted."""
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=False).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextlib.contextmanager
def filled(place: Path, _pid: int) -> Generator[None]:
    """The file system there has no room left."""
    filler = os.open(place / "filler", os.O_CREAT | os.O_WRONLY)
    with contextlib.suppress(OSError):
        while True:
            os.write(filler, b"x" * 4096)
    os.close(filler)
    yield
    (place / "filler").unlink()


@contextlib.contextmanager
def limited(place: Path, pid: int) -> Generator[None]:
    """No file of the process may grow any more."""
    largest = max(each.stat().st_size for each in place.glob("sessions.db*"))
    psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (largest, psutil.RLIM_INFINITY))
    yield
    psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))


@pytest.mark.parametrize("disk", [filled, limited])
def test_a_disk_that_is_full_costs_nothing_that_was_answered(
    project: Path, disk: Callable[[Path, int], contextlib.AbstractContextManager[None]]
) -> None:
    state, acknowledged = project.parent / "state", dict[int, str]()
    with small_disk(state) if disk is filled else contextlib.nullcontext():
        victim = Victim(project, acknowledged)
        victim.ask(CALLS)
        victim.take(CALLS)
        assert len(acknowledged) == CALLS
        victim.ask(CALLS)
        with disk(state, victim.pid):
            victim.take(CALLS)
            while not victim.refused:  # what was allocated before may hold a few more
                victim.ask(CALLS)
                victim.take(CALLS)
            for said in victim.refused:
                before, _, after = NOT_SAVED.partition("{reason}")
                assert said.startswith(before)
                assert said.endswith(after)
                assert "\n" not in said
            assert "v0" in victim.said("view")
        end = time.monotonic() + SECONDS
        while victim.refused:  # which goes on by itself when there is room again
            assert time.monotonic() < end, victim.refused
            victim.refused.clear()
            victim.ask(1)
            victim.take(1)
        victim.check()
        victim.end(victim.below())
        again = Victim(project, acknowledged)
        again.check()
        again.ask(CALLS)
        again.take(CALLS)
        assert not again.refused
        again.end(again.below())
        check_recorded(project, acknowledged)


@pytest.mark.anyio
async def test_second_server_reports_who_has_the_session(project: Path) -> None:
    async with process(project, "--session", "work") as first, process(project, "--session", "work") as second:
        await first.text("view", path="a.txt")
        said = await second.error("view", path="a.txt")
        assert "process" in said
        assert "\n" not in said
        with pytest.raises(MCPError):
            await second.client.list_resources()
        assert (await first.text("view", name="a")).startswith("a  ")


def test_line_of_ten_megabytes_is_a_normal_request(project: Path) -> None:
    server = _started(project)
    assert server.stdin is not None
    assert server.stdout is not None
    for number, path in enumerate(("a" * 10_000_000, "\u6f22" * 3_000_000, "a.txt")):
        server.stdin.write(_call(number, "view", path=path))
        server.stdin.flush()
        said = _answer(server.stdout.readline())["content"][0]["text"]
        assert ("two" if path == "a.txt" else "`path` may have at most 4,096 characters") in said
        assert len(said) < 1000
    server.stdin.close()
    assert server.wait(SECONDS) == 0
    server.stdout.close()
