"""Who is at the other end of a connection, as the kernel tells."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.runtime.system import peers
from engine.runtime.system.brands import Brand, own_brand
from engine.runtime.system.peers import Peer, peer_of

SECONDS = 30
CONNECT = """
import resource, socket, sys
port, soft, hard = map(int, sys.argv[1:])
if soft:
    resource.setrlimit(resource.RLIMIT_RTTIME, (soft, hard))
connection = socket.create_connection(("127.0.0.1", port))
print(connection.getsockname()[1], flush=True)
sys.stdin.read()
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")


@contextmanager
def connected(server: socket.socket, brand: Brand | None) -> Iterator[tuple[str, int]]:
    """A connection of another process, which a statement would have started if there is a brand; its end."""
    values = (0, 0) if brand is None else brand
    command = [sys.executable, "-c", CONNECT, *map(str, (server.getsockname()[1], *values))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield "127.0.0.1", int(process.stdout.readline())
    finally:
        process.communicate("", timeout=SECONDS)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.parametrize(("is_branded", "expected"), [(False, Peer.STRANGER), (True, Peer.STATEMENT)])
def test_processes_of_statements_are_recognized(server: socket.socket, is_branded: bool, expected: Peer) -> None:
    with connected(server, own_brand(1) if is_branded else None) as client:
        assert peer_of(server.getsockname(), client) is expected


def test_a_process_that_hides_is_suspected_if_nobody_else_has_the_socket(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connected(server, own_brand(1)) as client:
        monkeypatch.setattr(peers, "_has", lambda pid, name: None)
        monkeypatch.setattr(peers, "_is_zygote", lambda pid: False)
        assert peer_of(server.getsockname(), client) is Peer.STATEMENT
        monkeypatch.setattr(peers, "_has", lambda pid, name: True if pid == os.getpid() else None)
        assert peer_of(server.getsockname(), client) is Peer.STRANGER


def test_a_zygote_is_not_suspected(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(server, own_brand(1)) as client:  # its parent has no brand, like that of a zygote
        monkeypatch.setattr(peers, "_has", lambda pid, name: None)
        monkeypatch.setattr(peers, "pids", lambda: list(filter(is_ours, all_pids())))
        assert peer_of(server.getsockname(), client) is Peer.STRANGER


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_ours(pid: int) -> bool:
    found = peers.stat_of(pid)
    return found is not None and found.parent == os.getpid()


def test_another_user_is_recognized(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(server, None) as client:
        user, inode = peers._socket(client, server.getsockname()) or (0, 0)
        assert (user, inode > 0) == (os.getuid(), True)
        monkeypatch.setattr(peers, "_socket", lambda local, remote: (os.getuid() + 4242, inode))
        assert peer_of(server.getsockname(), client) is Peer.OTHER_USER


def test_a_connection_that_the_kernel_does_not_list_is_a_strangers() -> None:
    assert peer_of(("127.0.0.1", 1), ("127.0.0.1", 2)) is Peer.STRANGER


def test_addresses_in_both_families_are_recognized() -> None:
    assert peers._is_end(b"0100007F:1F90", ("127.0.0.1", 8080))
    assert peers._is_end(b"0000000000000000FFFF00000100007F:1F90", ("127.0.0.1", 8080))
    assert not peers._is_end(b"0200007F:1F90", ("127.0.0.1", 8080))
    assert not peers._is_end(b"0100007F:1F91", ("127.0.0.1", 8080))
