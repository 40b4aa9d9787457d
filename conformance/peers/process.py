"""A program as a process: its pipes, its unread output, and its end with everything it started.

One thread drives one process. Every wait reads both output streams, so that a program never blocks on a full pipe, even
while it receives a line of 50 MB. The program is ended in steps of one second each: close its input, SIGTERM, SIGKILL.
Signals go to its whole process group. Processes that left the group are found by an inherited environment variable.

Some processes also drop that variable. On Linux they become our children when their parent exits, because we are a
subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)) during a run. After the run, every new child is such an orphan.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from conformance.peers.peer import (
    FIRST_END_STEP,
    Ending,
    EndStep,
    PeerFloodError,
    PeerGoneError,
    PeerStartError,
    Received,
    Side,
    Stream,
)

_MOST_BYTES: Final = 16 << 20
"""For messages."""
_MOST_PIECES: Final = 100_000
_LEFT_PIECES: Final = 1024
"""For a program that is being ended."""
_LOG_BYTES: Final = 256 << 10
"""For logs between messages, and again for logs after them."""
_LOG_PIECES: Final = 1000


class Inbox:
    """Unread chunks of one program, in order and bounded. `side` is the stream of its messages.

    A program may write while a scenario does not read. Logs keep their newest bytes, because the pipe must be drained.
    Messages are all kept up to a limit; more is a flood.
    """

    def __init__(self, side: Side) -> None:
        self._side = side
        self._chunks: deque[Received] = deque()
        self._size = 0
        self._log_size = 0
        self._late: deque[Received] = deque()
        """Log chunks that did not fit into `_chunks`."""
        self._late_size = 0
        self._omitted: dict[Stream, int] = {}
        self._taken = 0

    def __bool__(self) -> bool:
        return bool(self._chunks or self._late)

    @property
    def taken(self) -> int:
        """How many chunks were ever added."""
        return self._taken

    @property
    def has_messages(self) -> bool:
        """Whether messages, or their end, are unread."""
        return any(chunk.stream == self._side for chunk in self._chunks)

    @property
    def is_flooded(self) -> bool:
        return self._size > _MOST_BYTES or len(self._chunks) > _MOST_PIECES

    def add(self, chunk: Received) -> None:
        self._taken += 1
        size = len(chunk.data)
        if chunk.stream == self._side or not size:
            self._chunks.append(chunk)
            self._size += size
        elif not self._late and self._log_size + size <= _LOG_BYTES and len(self._chunks) < _LOG_PIECES:
            self._chunks.append(chunk)
            self._log_size += size
        else:
            self._add_late(chunk)

    def _add_late(self, chunk: Received) -> None:
        self._late.append(chunk)
        self._late_size += len(chunk.data)
        while self._late_size > _LOG_BYTES or len(self._late) > _LOG_PIECES:
            oldest = self._late.popleft()
            self._late_size -= len(oldest.data)
            self._omitted[oldest.stream] = self._omitted.get(oldest.stream, 0) + len(oldest.data)

    def take(self) -> Received | None:
        """Return the next chunk, or None."""
        if self._chunks:
            return self._counted(self._chunks.popleft())
        if not self._late:
            return None
        chunk = self._late.popleft()
        self._late_size -= len(chunk.data)
        return Received(chunk.stream, chunk.data, self._omitted.pop(chunk.stream, 0))

    def shorten(self) -> None:
        """Drop the newest chunks of a flood whose transcript is full."""
        while len(self._chunks) > _LEFT_PIECES or self._size > _MOST_BYTES:
            self._counted(self._chunks.pop())

    def _counted(self, chunk: Received) -> Received:
        if chunk.stream == self._side:
            self._size -= len(chunk.data)
        else:
            self._log_size -= len(chunk.data)
        return chunk


# --- the process ------------------------------------------------------------------------------------------------------


_STEP_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 0.5
_EXIT_SECONDS: Final = 0.2
"""Seconds for a program to exit after it closes its standard output."""
_CHUNK: Final = 1 << 16
_MARK: Final = "REWINDOW_CONFORMANCE_PEER"
_PROC: Final = Path("/proc")


class ProcessPeer:
    """Starts a command that communicates over its standard streams. Raises PeerStartError."""

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
        number = self._write_descriptor(until)
        rest = memoryview(data)
        # A duplicate, because the descriptor of a client's socket is already registered for reading.
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

    def _write_descriptor(self, until: float) -> int:
        """Return the descriptor to write to. Raises PeerGoneError."""
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
        """Whether more data may arrive."""
        return bool(self._open)

    def has_closed(self) -> bool:
        return self._has_hung_up() and not self._inbox.has_messages

    def _has_hung_up(self) -> bool:
        """Whether the program ended its messages, read or unread."""
        return self.side not in self._open.values()

    def interrupt(self) -> None:
        self._signal(signal.SIGINT)

    def _wait(self, until: float) -> None:
        """Wait for any stream and read the output streams."""
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
                self._ending = self._end_gently()
            finally:
                self.kill()
                self._drain()
                self._close()
        return self._ending

    def _end_gently(self) -> Ending:
        step: EndStep = "by itself"
        self._wait(0.0)
        if self._has_hung_up():
            self._drain_until_exit(_EXIT_SECONDS)
        if self._process.poll() is None:
            step = FIRST_END_STEP[self.side]
            self.close_input()
            self._drain_until_exit()
        if self._process.poll() is None:
            step = "SIGTERM"
            self._signal(signal.SIGTERM)
            self._drain_until_exit()
        if self._process.poll() is None:
            step = "SIGKILL"
            self._signal(signal.SIGKILL)
            self._process.wait()
        return Ending(step, self._process.returncode, left=self._count_left())

    def _count_left(self) -> int:
        """Count processes that still run after a grace period for those that end with their parent's pipes."""
        until = self.now() + _GRACE_SECONDS
        while (left := len(list(self._left_behind()))) and self.now() < until:
            time.sleep(0.02)  # there is no notification for processes that are not our children
        return left

    def _drain_until_exit(self, patience: float = _STEP_SECONDS) -> None:
        until = self.now() + patience
        pause = 0.001
        while self._process.poll() is None and self.now() < until:
            if self._open:
                self._wait(min(until, self.now() + pause))
            else:
                time.sleep(pause)  # the pipes are closed, so only the exit is left to wait for
            pause = min(pause * 2, 0.05)
            self._inbox.shorten()

    def _drain(self) -> None:
        """Read what is left in the pipes, without waiting for other processes that hold them."""
        for _ in range(256):
            taken = self._inbox.taken
            self._wait(0.0)
            if self._inbox.taken == taken:
                return

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill the process group and everything that left it. Thread-safe."""
        self._signal(signal.SIGKILL)
        for pid in self._left_behind():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _left_behind(self) -> Iterator[int]:
        """Yield the ids of running processes that inherited the mark; none if the system does not show them."""
        mark = self._token.encode()
        for folder in _PROC.glob("[0-9]*"):
            pid = int(folder.name)
            if pid != self._process.pid:
                with contextlib.suppress(OSError):
                    if mark in (folder / "environ").read_bytes():
                        yield pid

    def _close(self) -> None:
        self._selector.close()
        self._open.clear()  # other processes that hold the pipes are not waited for
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        self._process.wait()


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


# --- orphans ----------------------------------------------------------------------------------------------------------


_SET_CHILD_SUBREAPER: Final = 36
_ROUNDS: Final = 100
"""Rounds: a killed orphan may leave children, which the next round kills."""


@contextmanager
def kill_orphans() -> Generator[None]:
    """Kill every process that becomes our child during the block. The block must not start children to keep."""
    if sys.platform != "linux" or not _adopt(yes=True):
        yield
        return
    before = _children()
    try:
        yield
    finally:
        for _ in range(_ROUNDS):
            if not (left := _children() - before):
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        _adopt(yes=False)


def _adopt(*, yes: bool) -> bool:
    """Set or clear the subreaper flag; False if unsupported."""
    try:
        return ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def _children() -> set[int]:
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may contain anything; the state and the parent follow it.
            parent = path.read_bytes().rpartition(b")")[2].split()[1]
            if int(parent) == os.getpid():
                found.add(int(path.parent.name))
    return found
