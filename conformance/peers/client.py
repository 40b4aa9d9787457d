"""A client process, and the agent executable that it starts, which connects back to the suite.

`{agent}` in the command becomes the path of that executable. It takes no arguments and relays bytes between its
standard streams and a Unix socket. The socket carries the client's messages; the client's own output is recorded as a
log. A scenario starts the client once and serves one connection: a second start of the agent exits at once.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.peers.peer import PeerGoneError, PeerStartError, Side
from conformance.peers.process import ProcessPeer

AGENT: Final = "{agent}"
_RELAY: Final = Path(__file__).parents[1] / "probes" / "agent_relay.py"
_LONGEST: Final = 90
"""Bytes of a socket path. Systems allow about 104."""
_PATIENCE: Final = 0.05


class AgentSocket:
    """An executable that plays an agent, in a folder of its own, and the socket it connects to."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rwc-"))
        if len(os.fsencode(self._folder)) > _LONGEST:
            self._folder.rmdir()
            self._folder = Path(tempfile.mkdtemp(prefix="rwc-", dir="/tmp"))
        self.path = self._folder / "agent"
        self.listener = socket.socket(socket.AF_UNIX)
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def _make(self) -> None:
        self.listener.bind(str(self._folder / "socket"))
        self.listener.listen()
        self.listener.setblocking(False)
        # A shell script, because an interpreter's path may contain spaces or exceed the limit of a `#!` line.
        command = shlex.join([sys.executable, "-I", "-S", str(_RELAY), str(self._folder / "socket")])
        self.path.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        self.path.chmod(0o700)

    def close(self) -> None:
        """Stop serving and remove the folder. Idempotent."""
        self.listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class ClientPeer(ProcessPeer):
    """Starts a client whose command contains `{agent}`. Raises PeerStartError."""

    side: Side = "client"

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        try:
            self._agent = AgentSocket()
        except OSError as error:
            raise PeerStartError(f"the agent executable cannot be created: {error}") from None
        self._wire: socket.socket | None = None
        words = [word.replace(AGENT, str(self._agent.path)) for word in command]
        try:
            self._launch(words, cwd, env, subprocess.DEVNULL)
        except PeerStartError:
            self._agent.close()
            raise
        assert self._process.stdout
        assert self._process.stderr
        self._attach(self._process.stdout.fileno(), "client-log")
        self._attach(self._process.stderr.fileno(), "client-log")
        self._selector.register(self._agent.listener, selectors.EVENT_READ, "listener")

    def _write_descriptor(self, until: float) -> int:
        while self._wire is None and self.now() < until and not self._has_hung_up():
            self._wait(until)
        if self._wire is None:
            raise PeerGoneError
        return self._wire.fileno()

    def close_input(self) -> None:
        self._stop_listening()
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.shutdown(socket.SHUT_WR)

    def _is_open(self) -> bool:
        return bool(self._open) or not self._has_hung_up()

    def _has_hung_up(self) -> bool:
        if self._wire is not None:
            return super()._has_hung_up()
        # No process is left that could start the agent. Background processes count as the client.
        return self._process.poll() is not None and not any(self._left_behind())

    def _wait(self, until: float) -> None:
        # No descriptor shows that a client exited without starting an agent, so poll.
        super()._wait(until if self._wire is not None else min(until, self.now() + _PATIENCE))

    def _take(self, key: selectors.SelectorKey) -> None:
        if key.data != "listener":
            super()._take(key)
            if key.data == "client" and "client" not in self._open.values():
                self.close_input()  # our agent exits when its input ends, as agents do
            return
        with contextlib.suppress(BlockingIOError):
            self._wire, _ = self._agent.listener.accept()
            self._attach(self._wire.fileno(), "client")
            self._stop_listening()

    def _stop_listening(self) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(self._agent.listener)
        self._agent.listener.close()

    def _count_left(self) -> int:
        self.close_input()  # an agent that the client left behind is ours
        return super()._count_left()

    def _close(self) -> None:
        super()._close()
        self._agent.close()
        if self._wire is not None:
            self._wire.close()
