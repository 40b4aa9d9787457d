"""What tests of the store share: a clock that counts, a listener to wait on, events, and real processes over a
store.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

from msgspec import structs

from engine.core.ids import EventId, MessageId, Seq, SessionId
from engine.log.events import Event
from engine.log.events.conversation import UserMessage
from engine.log.store_protocol import SessionRow, Store

PATIENCE = 20.0
"""Seconds after which a test gives up on something that ought to happen at once."""
ROOT = Path(__file__).resolve().parents[2]
AnyRecorder = TypeVar("AnyRecorder", bound="Recorder")
A = SessionId("ses_a")
B = SessionId("ses_b")


class CountingClock:
    """Every reading is one second later than the one before."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start

    def now(self) -> float:
        self._now += 1.0
        return self._now


class Recorder:
    """A commit listener that keeps what it was told, and by which thread."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.errors: list[Exception] = []
        self.threads: set[threading.Thread] = set()
        self._changed = threading.Condition()

    def __call__(self, seq: Seq, error: Exception | None) -> None:
        with self._changed:
            self.threads.add(threading.current_thread())
            if error is None:
                self.seqs.append(seq)
            else:
                self.errors.append(error)
            self._changed.notify_all()

    def wait_for(self, seq: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.errors or (self.seqs and self.seqs[-1] >= seq), PATIENCE)
        assert not self.errors

    def wait_until(self, seq: int, calls: int = 1) -> None:
        """Waits for a position that is reported in spite of errors before it, in at least so many calls."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seqs) >= calls and self.seqs[-1] >= seq, PATIENCE)

    def wait_for_error(self) -> Exception:
        with self._changed:
            assert self._changed.wait_for(lambda: self.errors, PATIENCE)
        return self.errors[0]


class Gate(Recorder):
    """A listener that can keep the writer, on whose thread it is called, from its next transaction."""

    def __init__(self) -> None:
        super().__init__()
        self._entered = threading.Event()
        self._open = threading.Event()
        self._open.set()

    def __call__(self, seq: Seq, error: Exception | None) -> None:
        super().__call__(seq, error)
        self._entered.set()
        assert self._open.wait(PATIENCE)

    @contextmanager
    def closed(self, store: Store, session_id: SessionId, seq: int) -> Iterator[None]:
        """All that is submitted meanwhile goes into one transaction; the event at `seq` is committed before it."""
        self._entered.clear()
        self._open.clear()
        store.submit(session_id, message(seq))
        assert self._entered.wait(PATIENCE)
        yield
        self._open.set()


def message(seq: int, text: str = "hello") -> Event:
    """The stamped event at `seq`."""
    return UserMessage(
        seq=Seq(seq), event_id=EventId(f"e{seq}"), at=float(seq), message_id=MessageId(f"m{seq}"), text=text
    )


def row(session_id: SessionId = A, cwd: str = "/work") -> SessionRow:
    return SessionRow(session_id=session_id, cwd=cwd)


def begun(store: Store, session_id: SessionId = A, events: int = 0, text: str = "hello") -> Recorder:
    """A new session with so many events, committed where there are any."""
    return begun_with(Recorder(), store, session_id, events, text)


def begun_with(
    recorder: AnyRecorder, store: Store, session_id: SessionId = A, events: int = 0, text: str = "hello"
) -> AnyRecorder:
    store.create(row(session_id))
    store.acquire(session_id, recorder)
    for seq in range(events):
        store.submit(session_id, message(seq, text))
    if events:
        recorder.wait_for(events - 1)
    return recorder


def texts(store: Store, session_id: SessionId = A) -> list[str]:
    return [event.text for event in store.load(session_id) if isinstance(event, UserMessage)]


PRELUDE = """
import os, resource, signal, sys, threading
sys.path.insert(0, os.environ["REWINDOW_ROOT"])
from pathlib import Path
from engine.core.errors import *
from engine.core.ids import SessionId
from engine.core.clock import SystemClock
from engine.log.store.sqlite import SqliteStore
from tests.support.stores import A, B, CountingClock, Gate, Recorder, begun, begun_with, message, row, texts

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

path = Path(os.fsdecode(os.environb[b"REWINDOW_STORE"]))
"""


def environment(path: Path) -> dict[bytes, bytes]:
    """What PRELUDE needs to know, for the store at `path`."""
    return {**os.environb, b"REWINDOW_ROOT": os.fsencode(ROOT), b"REWINDOW_STORE": os.fsencode(path)}


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # With the children that a test has it make, which would keep the pipes open.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def program(source: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real process that runs `source` after PRELUDE, with pipes; killed at the end with its children."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(path),
        bufsize=0,
        start_new_session=True,
    )
    try:
        yield process
    except BaseException:
        _kill_group(process)
        if process.stderr is not None:
            print(process.stderr.read().decode(errors="replace"))  # shown by pytest with the failure
        raise
    finally:
        _kill_group(process)
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def outcome(source: str, path: Path) -> list[str]:
    """The lines that the program said; it must end by itself, and well."""
    with program(source, path) as process:
        output, errors = process.communicate(timeout=PATIENCE * 3)
    assert process.returncode == 0, errors.decode()
    return output.decode().splitlines()


def line(pipe: IO[bytes] | None) -> str:
    """The next line, within PATIENCE."""
    assert pipe is not None
    found = b""
    while not found.endswith(b"\n"):
        assert select.select([pipe], [], [], PATIENCE)[0], f"only {found!r} came"
        byte = pipe.read(1)
        assert byte, f"it ended after {found!r}"
        found += byte
    return found.decode().rstrip("\n")


def kept_log(store: Store, session_id: SessionId, cwd: str, events: Sequence[Event]) -> None:
    """Puts a log into the store as a process that was killed left it."""
    store.create(SessionRow(session_id=session_id, cwd=cwd))
    store.acquire(session_id, lambda _seq, _error: None)
    for seq, event in enumerate(events):
        store.submit(session_id, structs.replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}"), at=1.0))
    store.release(session_id)
