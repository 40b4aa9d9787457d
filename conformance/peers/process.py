"""A program as a process: in a process group of its own, with pipes that nobody blocks on.

One thread drives one process. Whatever waits, reads both output streams meanwhile, so that a program that floods
standard error, or writes while a line of 50 MB is written to it, never stops on a full pipe.

The end is a ladder: its input is closed, then SIGTERM, then SIGKILL, each with a second of patience, the signals to the
whole group. Children that left the group are found by a variable that everything started here inherits.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.peers.inbox import Inbox
from conformance.peers.peer import (
    CLOSING,
    Ending,
    PeerFloodError,
    PeerGoneError,
    PeerStartError,
    Received,
    Rung,
    Side,
    Stream,
)

_PATIENCE: Final = 1.0
_GRACE: Final = 0.5
_LEAVING: Final = 0.2
"""Seconds in which a program that closed its standard output may exit by itself."""
_CHUNK: Final = 1 << 16
_MARK: Final = "REWINDOW_CONFORMANCE_PEER"
_PROC: Final = Path("/proc")


class ProcessPeer:
    """Starts a command, whose messages are on its standard streams. Raises PeerStartError where that fails."""

    side: Side = "server"

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._launch(command, cwd, env, subprocess.PIPE)
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._stdin = self._process.stdin
        os.set_blocking(self._stdin.fileno(), False)
        self._attach(self._process.stdout.fileno(), "server")
        self._attach(self._process.stderr.fileno(), "server-log")

    def _launch(self, command: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: int) -> None:
        self._token = secrets.token_hex(8)
        try:
            self._process = subprocess.Popen(  # noqa: S603 -- the user's own command is what is judged
                list(command),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env={**os.environ, **env, _MARK: f"{os.environ.get(_MARK, '')}/{self._token}"},
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise PeerStartError(f"{command[0]} cannot be started: {_reason(error)}") from None
        self._start = time.monotonic()
        self._inbox = Inbox(self.side)
        self._ending: Ending | None = None
        self._selector = selectors.DefaultSelector()
        self._open: dict[int, Stream] = {}

    def _attach(self, number: int, stream: Stream) -> None:
        os.set_blocking(number, False)
        self._selector.register(number, selectors.EVENT_READ, stream)
        self._open[number] = stream

    @property
    def pid(self) -> int:
        return self._process.pid

    def now(self) -> float:
        return time.monotonic() - self._start

    def write(self, data: bytes, until: float) -> None:
        number = self._sink(until)
        rest = memoryview(data)
        # A descriptor of its own: that of a client's socket is registered for reading.
        writable = os.dup(number)
        self._selector.register(writable, selectors.EVENT_WRITE, None)
        try:
            while rest:
                self._wait(until)
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(number, rest[: 1 << 20]) :]
                if rest and self.now() > until:
                    raise TimeoutError
                if rest and self._inbox.is_flooded:
                    raise PeerFloodError
        except (BrokenPipeError, ConnectionError):
            raise PeerGoneError from None
        finally:
            self._selector.unregister(writable)
            os.close(writable)

    def _sink(self, until: float) -> int:
        """The descriptor that takes what is written. Raises PeerGoneError."""
        del until
        if self._stdin.closed:
            raise PeerGoneError
        return self._stdin.fileno()

    def close_input(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()

    def read(self, until: float) -> Received | None:
        while not self._inbox and self._is_open():
            self._wait(until)
            if not self._inbox and self.now() >= until:
                return None
        return self._inbox.take()

    def _is_open(self) -> bool:
        """Whether anything may still be received."""
        return bool(self._open)

    def has_closed(self) -> bool:
        return self._has_hung_up() and not self._inbox.has_messages

    def _has_hung_up(self) -> bool:
        """Whether it has ended its messages, read or not."""
        return self.side not in self._open.values()

    def interrupt(self) -> None:
        self._signal(signal.SIGINT)

    def _wait(self, until: float) -> None:
        """Waits for any stream, and takes what the output streams hold."""
        for key, _ in self._selector.select(max(0.0, until - self.now())):
            if key.data is not None:
                self._take(key)

    def _take(self, key: selectors.SelectorKey) -> None:
        try:
            data = os.read(key.fd, _CHUNK)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        self._inbox.add(Received(key.data, data))
        if not data:
            self._selector.unregister(key.fd)
            del self._open[key.fd]

    # --- the ladder ---------------------------------------------------------------------------------------------------

    def end(self) -> Ending:
        if self._ending is None:
            try:
                self._ending = self._climb_down()
            finally:
                self.kill()
                self._drain()
                self._close()
        return self._ending

    def _climb_down(self) -> Ending:
        rung: Rung = "by itself"
        self._wait(0.0)
        if self._has_hung_up():
            self._drain_until_exit(_LEAVING)
        if self._process.poll() is None:
            rung = CLOSING[self.side]
            self.close_input()
            self._drain_until_exit()
        if self._process.poll() is None:
            rung = "SIGTERM"
            self._signal(signal.SIGTERM)
            self._drain_until_exit()
        if self._process.poll() is None:
            rung = "SIGKILL"
            self._signal(signal.SIGKILL)
            self._process.wait()
        return Ending(rung, self._process.returncode, left=self._count_left())

    def _count_left(self) -> int:
        """Processes that still run when those that end with their parent's pipes had time to."""
        until = self.now() + _GRACE
        while (left := len(list(self._left_behind()))) and self.now() < until:
            time.sleep(0.02)  # processes that are no children of ours tell nobody of their end
        return left

    def _drain_until_exit(self, patience: float = _PATIENCE) -> None:
        until = self.now() + patience
        pause = 0.001
        while self._process.poll() is None and self.now() < until:
            if self._open:
                self._wait(min(until, self.now() + pause))
            else:
                time.sleep(pause)  # it has closed its pipes, so nothing but its end is to be waited for
            pause = min(pause * 2, 0.05)
            self._inbox.shorten()

    def _drain(self) -> None:
        """Takes what is left in the pipes, without waiting for whoever else may hold them."""
        for _ in range(256):
            taken = self._inbox.taken
            self._wait(0.0)
            if self._inbox.taken == taken:
                return

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Ends the group and whatever left it, at once. Safe to call from another thread."""
        self._signal(signal.SIGKILL)
        for pid in self._left_behind():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _left_behind(self) -> Iterator[int]:
        """Processes that inherited the mark and still run; none where the system does not tell."""
        mark = self._token.encode()
        for folder in _PROC.glob("[0-9]*"):
            pid = int(folder.name)
            if pid != self._process.pid:
                with contextlib.suppress(OSError):
                    if mark in (folder / "environ").read_bytes():
                        yield pid

    def _close(self) -> None:
        self._selector.close()
        self._open.clear()  # whoever else holds the pipes is not waited for
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        self._process.wait()


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
