"""A transparent proxy: starts a program and passes every byte between it and whoever started us, and records it.

Bytes are passed on as they come, whatever they are; each chunk is recorded before it is passed on, so that a message
stands before what answers it. A side that ends is seen by the other one as if nothing stood between them: the end of a
stream, a closed pipe, the exit status; signals are passed on. Knows no protocol.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from conformance.peers.peer import PeerStartError
from conformance.transcript import Entry, Kind, Transcript, written

_CHUNK: Final = 1 << 16
_LEAVING: Final = 1.0
"""Seconds in which what the program started may still write, when the program itself has ended."""
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Recorder:
    """A transcript that grows from several threads, and on disk as well where there is a file for it."""

    def __init__(self, transcript: Transcript, file: BinaryIO | None = None) -> None:
        self.transcript = transcript
        self._file = file
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._kept = 0
        self.problem = ""
        """Why the file is not whole; empty where it is."""
        self._write(transcript.head())

    def add(self, kind: Kind, data: bytes) -> None:
        """Records a chunk, while there is room; what comes after is passed on and not recorded."""
        with self._lock:
            if self.transcript.is_full:
                self._mark("stopped", "the traffic reached the limit of 64 MiB; the rest was not recorded")
            else:
                self.transcript.add(self._ms(), kind, data)
            self._write_new()

    def end_logs(self) -> None:
        """Records the end of what the program logged, where that was much."""
        with self._lock:
            self.transcript.end_logs()
            self._write_new()

    def mark(self, label: str, value: object = None) -> None:
        """Records what the bytes do not say."""
        with self._lock:
            self._mark(label, value)
            self._write_new()

    def _mark(self, label: str, value: object) -> None:
        if not any(entry.label == label for entry in self.transcript.entries[-4:]):
            self.transcript.mark(self._ms(), label, value)

    def _ms(self) -> float:
        return (time.monotonic() - self._start) * 1000

    def _write_new(self) -> None:
        entries: list[Entry] = self.transcript.entries[self._kept :]
        self._kept += len(entries)
        for entry in entries:
            self._write(written(entry))

    def _write(self, line: str) -> None:
        if self._file is None or self.problem:
            return
        data = line.encode() + b"\n"
        try:
            if self._file.write(data) < len(data):
                self.problem = "a line was written in part"
        except OSError as error:
            self.problem = error.strerror or str(error)


def trace(command: Sequence[str], recorder: Recorder) -> int:
    """Stands between our standard streams and the program's until it ends; returns its exit status, as a shell would.

    Must run in the main thread, because signals are passed on. Raises PeerStartError.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 -- the user's own command is what is traced
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise PeerStartError(f"{command[0]} cannot be started: {reason}") from None
    assert process.stdin
    assert process.stdout
    assert process.stderr
    rung = ["by itself"]

    def pass_on(number: int, _frame: object) -> None:
        rung[0] = signal.Signals(number).name
        process.send_signal(number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    ours = sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno()
    for descriptor in ours:
        os.set_blocking(descriptor, True)

    def input_ended() -> None:
        rung[0] = "close stdin" if rung[0] == "by itself" else rung[0]
        recorder.mark("input-closed")

    _start(_Way(ours[0], process.stdin.fileno(), "client", recorder, input_ended, process.stdin.close))
    outward = [
        _start(_Way(process.stdout.fileno(), ours[1], "server", recorder, lambda: recorder.mark("output-closed"))),
        _start(_Way(process.stderr.fileno(), ours[2], "server-log", recorder)),
    ]
    code = process.wait()
    for thread in outward:
        thread.join(_LEAVING)
    recorder.end_logs()
    recorder.mark("ended", {"by": rung[0], "code": code})
    return code if code >= 0 else 128 - code


class _Way:
    """One direction: reads until the end, records, writes. Where nobody takes it any more, the rest is let go."""

    def __init__(
        self,
        source: int,
        target: int,
        kind: Kind,
        recorder: Recorder,
        ended: Callable[[], None] = lambda: None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._target: int | None = target
        self._kind: Kind = kind
        self._recorder = recorder
        self._ended = ended
        self._close = close

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._source, _CHUNK):
                self._recorder.add(self._kind, data)
                self._pass_on(data)
        self._ended()
        with contextlib.suppress(OSError):
            self._close()

    def _pass_on(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest and self._target is not None:
                rest = rest[os.write(self._target, rest) :]
        except OSError:
            self._target = None


def _start(way: _Way) -> threading.Thread:
    thread = threading.Thread(target=way.run, daemon=True)
    thread.start()
    return thread


def opened(path: Path | None) -> contextlib.AbstractContextManager[BinaryIO | None]:
    """The file that a recorder writes to, line by line, so that it is there if we are killed. Raises OSError."""
    if path is None:
        return contextlib.nullcontext()
    return path.open("wb", buffering=0)
