"""Hosts of a network as network namespaces of this machine, joined by a bridge.

What they send passes a whole network stack of the kernel, on interfaces and addresses of their own.

Only root has that, on Linux. Others measure over loopback, and are told so. A delay on the way is a proxy of ours.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from queue import Queue
from typing import Final

from tests.support.ray_nodes import Place

_BRIDGE: Final = "rwbench"
_NETWORK: Final = "10.213.71"
"""With this machine as host 1."""
_CHUNK: Final = 65_536


@contextmanager
def network(count: int) -> Iterator[Sequence[Place]]:
    """So many hosts for the block; on this machine itself where there are no namespaces."""
    with ExitStack() as stack:
        try:
            stack.callback(_quietly, "link", "del", _BRIDGE)
            _ip("link", "add", _BRIDGE, "type", "bridge")
            _ip("address", "add", f"{_NETWORK}.1/24", "dev", _BRIDGE)
            _ip("link", "set", _BRIDGE, "up")
            places = [_host(stack, number) for number in range(2, count + 2)]
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or error
            print(f"there are no network namespaces, so hosts are on loopback: {said}", file=sys.stderr)
            places = [Place(f"127.0.0.{number}", ()) for number in range(1, count + 1)]
        yield places


def _host(stack: ExitStack, number: int) -> Place:
    """A namespace with an interface, whose other end is at the bridge."""
    name, outer, inner = (f"{_BRIDGE}{kind}{number}" for kind in ("", "o", "i"))
    _quietly("netns", "del", name)  # of a run that was killed
    _ip("netns", "add", name)
    stack.callback(_quietly, "netns", "del", name)
    _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
    _ip("link", "set", outer, "master", _BRIDGE, "up")
    _ip("-n", name, "address", "add", f"{_NETWORK}.{number}/24", "dev", inner)
    for interface in ("lo", inner):
        _ip("-n", name, "link", "set", interface, "up")
    return Place(f"{_NETWORK}.{number}", ("nsenter", f"--net={os.path.join('/run/netns', name)}"))


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def _quietly(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=False, capture_output=True)


@contextmanager
def delayed(address: str, port: int, seconds: float) -> Iterator[int]:
    """A port of this machine for the block, whose bytes reach the address so much later, in both directions."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, (address, port), seconds), daemon=True).start()
        yield listening.getsockname()[1]


def _accept(listening: socket.socket, target: tuple[str, int], seconds: float) -> None:
    with suppress(OSError):  # the block has ended
        while True:
            near, _ = listening.accept()
            far = socket.create_connection(target)
            for source, sink in ((near, far), (far, near)):
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                late: Queue[tuple[float, bytes]] = Queue()
                threading.Thread(target=_read, args=(source, late, seconds), daemon=True).start()
                threading.Thread(target=_write, args=(sink, late), daemon=True).start()


def _read(source: socket.socket, late: Queue[tuple[float, bytes]], seconds: float) -> None:
    data = b"none yet"
    while data:
        try:
            data = source.recv(_CHUNK)
        except OSError:
            data = b""
        late.put((time.monotonic() + seconds, data))


def _write(sink: socket.socket, late: Queue[tuple[float, bytes]]) -> None:
    with sink, suppress(OSError):
        while (due := late.get())[1]:
            time.sleep(max(0.0, due[0] - time.monotonic()))
            sink.sendall(due[1])
        sink.shutdown(socket.SHUT_RDWR)  # so that its reader ends, too
