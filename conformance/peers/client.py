"""A client as a process, and the agent that it starts: an executable that connects back to the suite.

`{agent}` in the command becomes the path of that executable, which takes no arguments and passes bytes between its
standard streams and a Unix socket. What arrives there are the client's messages; what the client itself prints is
recorded beside them. One scenario is one start of the client, and serves one connection: an agent that is started a
second time ends at once.
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
"""Bytes of a socket's path; systems allow about 104."""
_PATIENCE: Final = 0.05


class AgentSocket:
    """An executable that plays an agent, in a folder of its own, and the socket that it connects to."""

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
        # A shell, since an interpreter's path may hold spaces or be longer than a `#!` line may be.
        command = shlex.join([sys.executable, "-I", "-S", str(_RELAY), str(self._folder / "socket")])
        self.path.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        self.path.chmod(0o700)

    def close(self) -> None:
        """Serves nobody any more; twice is once."""
        self.listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class ClientPeer(ProcessPeer):
    """Starts a client, in whose command a word holds `{agent}`. Raises PeerStartError."""

    side: Side = "client"

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        try:
            self._agent = AgentSocket()
        except OSError as error:
            raise PeerStartError(f"the agent cannot be made: {error}") from None
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

    def _sink(self, until: float) -> int:
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
        # Nobody is left who could start the agent; what a client leaves in the background counts as the client.
        return self._process.poll() is not None and not any(self._left_behind())

    def _wait(self, until: float) -> None:
        # That a client has ended without an agent shows on no descriptor.
        super()._wait(until if self._wire is not None else min(until, self.now() + _PATIENCE))

    def _take(self, key: selectors.SelectorKey) -> None:
        if key.data != "listener":
            super()._take(key)
            if key.data == "client" and "client" not in self._open.values():
                self.close_input()  # as agents do, ours exits when its input ends
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
        self.close_input()  # the agent that the client may have left is ours
        return super()._count_left()

    def _close(self) -> None:
        super()._close()
        self._agent.close()
        if self._wire is not None:
            self._wire.close()
