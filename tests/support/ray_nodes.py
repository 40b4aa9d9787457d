"""A Ray cluster of several nodes on this machine: a head without resources, and nodes that each have one processor.

Each node is a `ray start` with its own address of the loopback network, which only Linux has, and can be killed as a
whole. The cluster's processes, also those that agents start on it, carry a mark in their environment. They end with the
block, even if the test's process is killed: another process waits for the end of a pipe from it.
"""

from __future__ import annotations

import itertools
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from types import MappingProxyType
from typing import Final, NamedTuple

import psutil

_MARK: Final = "REWINDOW_TEST_CLUSTER"
_PATIENCE: Final = 120.0
_RAY: Final = str(Path(sys.executable).parent / "ray")
_TRIES: Final = 3
_STARTED: Final = b"Ray runtime started"
_STORE_BYTES: Final = 80_000_000
"""Of each node, for objects that are sent; the least that Ray takes is a little less."""
HEALTH_CHECKS: Final = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
}
"""The variables of the head that `docs/operations.md` recommends."""
RECONNECT_SECONDS: Final = 15
"""After so long without the head, nodes and servers end. Ray's default is 60."""
_RETURN_SECONDS: Final = 240
"""The same for a head that comes back: its start may take long on a busy machine."""
_WATCH: Final = "import sys; sys.stdin.read(); from tests.support.ray_nodes import end_all; end_all(sys.argv[1])"


class Place(NamedTuple):
    """Where a node is: its address, and the command that executes its programs there."""

    address: str
    prefix: Sequence[str]


class Node:
    """A node that runs; it has the given address."""

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.process = process
        self.address = address

    def family(self) -> list[psutil.Process]:
        """The processes of the node: Ray's, actors, and what these started."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def hosts(self) -> list[psutil.Process]:
        """The processes of users' hosts on it."""
        return [each for each in self.family() if is_host(each)]

    def kill(self) -> None:
        """`kill -9` of everything on the node, as a power loss does."""
        found = self.family()
        self.process.kill()
        for each in found:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait(_PATIENCE)


def is_host(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return "--connections" in process.cmdline()
    return False


class Cluster:
    """A cluster; `environ` is what reaches it. `head` and `nodes` can be killed and added."""

    def __init__(self, directory: Path, mark: str, places: Iterator[Place], redis: str | None = None) -> None:
        """With the address of a Redis server, the head keeps its state there."""
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex()}
        seconds = RECONNECT_SECONDS if redis is None else _RETURN_SECONDS
        patience = {"RAY_gcs_rpc_server_reconnect_timeout_s": str(seconds)}
        self.mark = mark
        self.environ: Mapping[str, str] = {**token, **patience, "RAY_USAGE_STATS_ENABLED": "0", _MARK: mark}
        self.nodes: list[Node] = []
        self._directory = directory
        self._places = places
        self._place = next(places)
        self._of_head = {} if redis is None else {"RAY_REDIS_ADDRESS": redis}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self.head = self.start_head()

    @property
    def address(self) -> str:
        return f"{self._place.address}:{self._port}"

    def start_head(self) -> Node:
        """Start the head, also after it was killed."""
        # Because Ray takes the nodes of this machine, which name the head, for the head that this file names.
        (self._directory / "ray_current_cluster").unlink(missing_ok=True)
        place = (f"--port={self._port}", f"--temp-dir={self._directory}")
        arguments = ("--head", *place, "--include-dashboard=false", "--num-cpus=0")
        for _ in range(_TRIES):
            self.head = self._launch(self._place, *arguments, environ=self._of_head)
            if self._has_started(self.head):
                return self.head
        raise AssertionError("Ray's head does not start")

    def add(self, count: int = 1) -> None:
        """Start more nodes at once."""
        for _ in range(_TRIES):
            added = [self._launch_node() for _ in range(count)]
            self.nodes += [node for node in added if self._has_started(node)]
            count -= sum(node in self.nodes for node in added)
        assert not count, "Ray's nodes do not start"

    def kill(self, node: Node) -> None:
        """Kill a node, and forget it."""
        self.nodes.remove(node)
        node.kill()

    def wait(self, node: Node) -> None:
        """Wait until a node has ended, and forget it."""
        node.process.wait(_PATIENCE)
        self.nodes.remove(node)

    def hosts(self) -> list[psutil.Process]:
        """The processes of users' hosts on all nodes."""
        return [host for node in self.nodes for host in node.hosts()]

    def node_of(self, host: psutil.Process) -> Node:
        """The node that runs a host."""
        return next(node for node in self.nodes if host in node.family())

    def _launch_node(self) -> Node:
        return self._launch(next(self._places), f"--address={self.address}", "--num-cpus=1")

    def _launch(self, place: Place, *arguments: str, environ: Mapping[str, str] = MappingProxyType({})) -> Node:
        memory = f"--object-store-memory={_STORE_BYTES}"
        options = (f"--node-ip-address={place.address}", memory, "--block", "--disable-usage-stats")
        with self._log(place.address).open("wb") as out:
            process = subprocess.Popen(
                [*place.prefix, _RAY, "start", *options, *arguments],
                env={**os.environ, **HEALTH_CHECKS, **self.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return Node(process, place.address)

    def _log(self, address: str) -> Path:
        return self._directory / f"{address}.log"

    def _has_started(self, node: Node) -> bool:
        """Wait until the node is there, or has failed: on a busy machine Ray gives up after 30 s."""
        log = self._log(node.address)
        deadline = time.monotonic() + _PATIENCE
        while _STARTED not in log.read_bytes():
            if node.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)  # because Ray tells nobody
        return True


def processes(mark: str) -> list[psutil.Process]:
    """The processes of a cluster and of all that it started."""
    return [each for each in psutil.process_iter() if _has_mark(each, mark)]


def end_all(mark: str) -> None:
    """Kill the processes of a cluster, and wait for their end."""
    while found := processes(mark):
        for each in found:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(found, 5)


def _has_mark(process: psutil.Process, mark: str) -> bool:
    if process.pid == os.getpid():
        return False
    with suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == mark
    return False


def _on_loopback(prefix: Sequence[str]) -> Iterator[Place]:
    yield Place("127.0.0.1", ())
    for number in itertools.count(2):
        yield Place(f"127.0.0.{number}", prefix)


@contextmanager
def running(
    nodes: int, prefix: Sequence[str] = (), redis: str | None = None, places: Sequence[Place] = ()
) -> Iterator[Cluster]:
    """A cluster with so many nodes for the block. Its directory is short, because a socket's path is.

    Args:
        nodes: how many besides the head.
        prefix: a command that executes the nodes.
        redis: the address of a Redis server, in which the head keeps its state.
        places: where the head and its nodes are; by default on addresses of the loopback network.
    """
    directory = Path(tempfile.mkdtemp(prefix="rw-ray-", dir="/tmp"))
    mark = secrets.token_hex(8)
    watcher = subprocess.Popen(
        [sys.executable, "-c", _WATCH, mark],
        stdin=subprocess.PIPE,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )
    cluster: Cluster | None = None
    try:
        cluster = Cluster(directory, mark, iter(places) if places else _on_loopback(prefix), redis)
        cluster.add(nodes)
        yield cluster
    finally:
        watcher.communicate(timeout=_PATIENCE)
        if cluster is not None:
            for node in (cluster.head, *cluster.nodes):
                with suppress(ProcessLookupError):
                    os.killpg(node.process.pid, signal.SIGKILL)
                node.process.wait(_PATIENCE)
        rmtree(directory, ignore_errors=True)
