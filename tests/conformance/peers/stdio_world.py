"""Runs a peer as a process: bytes on two pipes, timers in a select loop."""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any


class World:
    """The world of a program in memory, for a real process. Messages go to `output`."""

    def __init__(self, output: int = 1) -> None:
        self.sink = output
        self.left = 0
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.sink, data) :]

    def log(self, data: bytes) -> None:
        os.write(2, data)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.timers, (time.monotonic() + seconds, next(self.order), act))

    def exit(self, code: int) -> None:
        for _ in range(self.left):
            subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(60)"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        os._exit(code)


KEEP = "CONFORMING_PEER_KEEPS_IN"
"""The variable with the directory of `Files`. Without it, a peer saves nothing beyond its process."""


class Files:
    """Texts by name in the files of one directory, never in a file that a message names."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, name: str) -> str:
        return os.path.join(self.folder, hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest())

    def __setitem__(self, name: str, text: str) -> None:
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def get(self, name: str) -> str | None:
        with contextlib.suppress(FileNotFoundError), open(self.path(name), encoding="utf-8") as file:
            return file.read()
        return None


def run(make: Callable[[World], Any], agent: subprocess.Popen[bytes] | None = None, number: int | None = None) -> None:
    """Run a program until it exits: on standard input and output, or a client on its agent's pipes.

    `number` is the signal that interrupts it.
    """
    source = agent.stdout.fileno() if agent is not None and agent.stdout else 0
    world = World(agent.stdin.fileno() if agent is not None and agent.stdin else 1)
    program = make(world)
    waking, woken = os.pipe()
    if number is not None:
        signal.signal(number, lambda *_: os.write(woken, b"!"))
    is_open = True
    while True:
        wait = max(0.0, world.timers[0][0] - time.monotonic()) if world.timers else None
        ready = select.select([source, waking] if is_open else [waking], [], [], wait)[0]
        if waking in ready:
            os.read(waking, 1)
            program.interrupted()
        if source in ready:
            data = os.read(source, 1 << 20)
            is_open = bool(data)
            program.receive(data) if data else program.input_ended()
        while world.timers and world.timers[0][0] <= time.monotonic():
            heapq.heappop(world.timers)[2]()


def start_server(server: dict[str, Any]) -> bool:
    """Start an MCP server and initialize it; False on failure."""
    variables = {pair["name"]: pair["value"] for pair in server.get("env", [])}
    try:
        process = subprocess.Popen(
            [server["command"], *server.get("args", [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **variables},
        )
    except (OSError, ValueError):  # such as a NUL in a variable
        return False
    assert process.stdin
    assert process.stdout
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}\n')
    process.stdin.flush()
    process.stdout.readline()
    return True
