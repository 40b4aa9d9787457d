"""`rewindow replay --all --cluster`: many sessions on the nodes of a Ray cluster, with lost nodes and interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.runtime.ray_cluster import LOCAL_CLUSTER, NOT_AUTHENTICATED, NOT_SHARED, ClusterError, authenticate
from tests.support import ray_nodes
from tests.support.postgresql import Server as Database

pytest.importorskip("ray", reason="Ray is not installed")
PROGRAM = str(Path(sys.executable).parent / "rewindow")
SECONDS = 300.0
SLOW = "import time; time.sleep(12); x = 1"


class World:
    """A cluster of two nodes, a store, and sessions in it."""

    def __init__(self, folder: Path, cluster: ray_nodes.Cluster, address: str) -> None:
        self.cluster = cluster
        self.project = folder / "project"
        self.project.mkdir()
        self.environ: Mapping[str, str] = {
            **os.environ,
            **cluster.environ,
            "REWINDOW_STORE": address,
            "REWINDOW_STATE_DIR": str(folder / "state"),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *arguments],
            env=self.environ,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        process = self.start(*arguments)
        out, told = process.communicate(timeout=SECONDS)
        assert process.returncode == code, (out, told)
        return out

    def replay(self, *arguments: str) -> subprocess.Popen[str]:
        return self.start("replay", "--all", "--cluster", self.cluster.address, *arguments)

    def children(self) -> list[psutil.Process]:
        """The processes that replay a session."""
        return [each for node in self.cluster.nodes for each in node.family() if is_replay(each)]

    def wait_for_replay(self, process: subprocess.Popen[str]) -> psutil.Process:
        deadline = time.monotonic() + SECONDS
        while not (found := self.children()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)  # because Ray tells nobody
        return found[0]


def is_replay(process: psutil.Process) -> bool:
    try:
        return any("replay_child" in word for word in process.cmdline())
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgresql: Callable[[str], Database]) -> Iterator[World]:
    address = postgresql("18").new_database()
    with ray_nodes.running(2) as cluster:
        found = World(tmp_path_factory.mktemp("replays"), cluster, address)
        for prompt in ("w = write('a.txt', 'x'); 1 + 1", "import time; time.time_ns()", SLOW):
            found.run("run", "-p", prompt)
        yield found


@pytest.mark.slow
def test_rows_are_those_of_a_local_replay(world: World) -> None:
    process = world.replay("--json")
    out, told = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, (out, told)
    found = json.loads(out)
    local = json.loads(world.run("replay", "--all", "--json", code=1))
    assert found["summary"] == local["summary"]
    assert found["summary"] == {"same": 2, "different": 1, "failed": 0, "empty": 0, "not_replayed": 0}
    assert [without_values(row) for row in found["sessions"]] == [without_values(row) for row in local["sessions"]]
    assert (world.project / "a.txt").read_text() == "x"


def without_values(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the times that differ in each run."""
    return {**row, "differences": [(each["statement"], each["aspect"]) for each in row["differences"]]}


@pytest.mark.slow
def test_a_session_whose_node_is_lost_is_replayed_on_another(world: World) -> None:
    process = world.replay("--json", "--jobs", "1")
    child = world.wait_for_replay(process)
    lost = next(node for node in world.cluster.nodes if child in node.family())
    world.cluster.kill(lost)
    out, told = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, (out, told)
    assert json.loads(out)["summary"] == {"same": 2, "different": 1, "failed": 0, "empty": 0, "not_replayed": 0}
    world.cluster.add()


@pytest.mark.slow
def test_an_interrupt_ends_all_replays_and_prints_what_is_done(world: World) -> None:
    process = world.replay("--json", "--jobs", "1")
    child = world.wait_for_replay(process)
    process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, (out, told)
    assert json.loads(out)["summary"]["not_replayed"] >= 1
    _, alive = psutil.wait_procs([child], timeout=60)
    assert not alive
    assert not world.children()


def test_a_cluster_must_reach_the_store_and_use_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    for store, reason in (("sqlite", NOT_SHARED), ("postgresql://me@db/x", NOT_AUTHENTICATED)):
        with pytest.raises(ClusterError) as refused:
            authenticate("10.0.0.1:6379", store)
        assert str(refused.value) == reason
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED"):
        monkeypatch.setenv(name, "")
    authenticate(LOCAL_CLUSTER, "sqlite")
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
