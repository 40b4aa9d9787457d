"""Hosts of users on a Ray cluster of this machine, through the real server: placed, found again, and replaced."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest

from tests.support.environments import until
from tests.support.remote import PROGRAM, Server, add_token, forget_connections, over_websocket, serving

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.anyio
forgotten = pytest.fixture(autouse=True)(forget_connections)
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster") / "state"


@pytest.fixture(scope="module")
def token(state: Path) -> str:
    return add_token(state)


@pytest.fixture(scope="module")
def server(state: Path, token: str) -> Iterator[Server]:
    with serving(state, "--cluster", "local") as running:
        yield running


def hosts(server: Server) -> list[psutil.Process]:
    """The processes of hosts below the server."""
    below = psutil.Process(server.process.pid).children(recursive=True)
    return [each for each in below if "--connections" in each.cmdline()]


async def test_a_host_is_the_child_of_an_actor_and_knows_nothing_of_ray(
    server: Server, token: str, tmp_path: Path
) -> None:
    async with over_websocket(server, token) as client:
        session = await client.open(tmp_path)
        assert await client.prompt(session, "20 + 3") == "end_turn"
        assert client.text() == "23"
        (host,) = hosts(server)
        parent = host.parent()
        assert parent is not None
        assert "ray::" in " ".join(parent.cmdline())
        assert [name for name in host.environ() if name.startswith("RAY_")] == []


async def test_a_host_whose_actor_was_killed_is_replaced(server: Server, token: str, tmp_path: Path) -> None:
    async with over_websocket(server, token) as client:
        session = await client.open(tmp_path)
        await client.prompt(session, "x = 42")
    (host,) = hosts(server)
    parent = host.parent()
    assert parent is not None
    parent.kill()
    await anyio.to_thread.run_sync(host.wait, 30)
    async with over_websocket(server, token) as again:
        await again.initialize()
        await again.load(session, tmp_path)
        assert await again.prompt(session, "x + 1") == "end_turn"
        assert again.text().endswith("43")


async def test_a_host_whose_actor_is_stopped_ends_and_is_replaced(server: Server, token: str, tmp_path: Path) -> None:
    async with over_websocket(server, token) as client:
        session = await client.open(tmp_path)
        await client.prompt(session, "x = 42")
    (host,) = hosts(server)
    parent = host.parent()
    assert parent is not None
    os.kill(parent.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):  # its handshake waits as long as the actor may take
            async with over_websocket(server, token, open_timeout=8):
                pass
        await until(lambda: not host.is_running() or host.status() == psutil.STATUS_ZOMBIE)
        async with over_websocket(server, token) as again:
            await again.initialize()
            await again.load(session, tmp_path)
            assert await again.prompt(session, "x + 1") == "end_turn"
            assert again.text().endswith("43")
    finally:
        with suppress(ProcessLookupError):  # Ray may have ended it
            os.kill(parent.pid, signal.SIGCONT)


async def test_nobody_enters_without_a_ticket(server: Server, token: str, tmp_path: Path) -> None:
    async with over_websocket(server, token) as client:
        await client.open(tmp_path)
        (host,) = hosts(server)
        parent = host.parent()
        assert parent is not None
        listening = [each.laddr for each in parent.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        refused = 0
        for address in listening:
            for sent in (b"", b"\0" * 32, os.urandom(32), os.urandom(31)):
                with anyio.move_on_after(15):
                    async with await anyio.connect_tcp(address.ip, address.port) as stream:
                        await stream.send(sent + INITIALIZE)
                        try:
                            received = await stream.receive()
                        except (anyio.EndOfStream, anyio.BrokenResourceError):
                            received = b""
                        assert b"protocolVersion" not in received
                        refused += 1
        assert refused >= 4


async def test_connections_without_a_ticket_shut_out_nobody(server: Server, token: str, tmp_path: Path) -> None:
    async with over_websocket(server, token) as client:
        await client.open(tmp_path)
        (host,) = hosts(server)
        parent = host.parent()
        assert parent is not None
        ports = [each.laddr for each in parent.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        with ExitStack() as opened:
            clients = [[opened.enter_context(socket.create_connection(at)) for _ in range(70)] for at in ports]
            async with over_websocket(server, token) as other:
                await other.initialize()
            with anyio.fail_after(5):
                await until(lambda: any(all(map(_is_closed, each[:6])) for each in clients))
        assert hosts(server) == [host]


def _is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return not client.recv(1)
    except BlockingIOError:
        return False


def test_only_this_account_can_enter_the_directory_of_ray_s_files(server: Server) -> None:
    below = psutil.Process(server.process.pid).children(recursive=True)
    found: set[Path] = set()
    for each in below:
        with suppress(psutil.Error):
            found |= {Path(file.path) for file in each.open_files()}
            found |= {Path(end.laddr) for end in each.net_connections("unix") if end.laddr.startswith("/")}
    of_ray = [path for path in found if any(part.startswith("session_") for part in path.parts)]
    assert len(of_ray) > 3
    for path in of_ray:
        session = next(above for above in path.parents if above.name.startswith("session_"))
        assert any(not above.stat().st_mode & 0o077 for above in session.parents), path


def test_ray_serves_only_who_has_its_token(server: Server) -> None:
    below = psutil.Process(server.process.pid).children(recursive=True)
    (store,) = [each for each in below if each.name() == "gcs_server"]
    (address,) = {each.laddr for each in store.net_connections("tcp") if each.status == psutil.CONN_LISTEN}
    node = re.search(r"--node-ip-address=(\S+)", " ".join(store.cmdline()))
    assert node is not None
    code = f"import ray; ray.init('{node[1]}:{address.port}', logging_level='ERROR'); print('joined')"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    tries = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environ | token, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for token in (
            {},
            {"RAY_AUTH_MODE": "token"},  # from Ray's file in the home directory, which statements may read
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64},
        )
    ]
    for each in tries:
        out, told = each.communicate(timeout=90)
        assert (each.returncode, out) == (1, "")
        assert re.search("Failed to connect to Ray cluster|no authentication token was found", told)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster", "10.0.0.1:6379"], "needs a store that all its nodes reach; set --store postgresql://"),
        (
            ["--cluster", "10.0.0.1:6379", "--store", "postgresql://me@127.0.0.1/none"],
            "start Ray with RAY_AUTH_MODE=token on each node",
        ),
        (["--cluster-cpus", "1"], "--cluster-cpus, --cluster-memory and --cluster-label need --cluster"),
        (["--cluster", "local", "--cluster-label", "zone"], "--cluster-label takes NAME=VALUE"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(state: Path, token: str, arguments: list[str], said: str) -> None:
    del token
    command = [PROGRAM, "--listen", "127.0.0.1:0", "--state-dir", str(state), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert said in done.stderr
