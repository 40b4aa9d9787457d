"""Output and messages of a worker: limits, decoding, redaction."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from engine.core.execution import Captured, Display
from engine.core.ids import ObjId
from engine.files.tails import Looked
from engine.log.events.nodes import NodeChanged
from engine.log.redaction import NO_SECRETS, Redactor
from engine.runtime import connection as connection_module
from engine.runtime.connection import CAPTURED_BYTES, Capture, Connection, Hiding, WorkerConnection
from engine.runtime.control_channel import Death, MessageReader
from engine.runtime.worker.framing import FrameBuffer, ProtocolError, decoder_of, frame, pack_events
from engine.runtime.worker.protocol import AskHidden, Content, Kept, LookedAt, Ran, Stopping, Watch

PIECES = st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(lambda t: t.encode("utf-8", "replace"))))


@given(PIECES)
def test_the_pieces_in_which_bytes_come_make_no_difference(pieces: list[bytes]) -> None:
    heard: list[str] = []
    piecewise, whole = Capture(NO_SECRETS, heard.append), Capture(NO_SECRETS)
    for piece in pieces:
        piecewise.feed(piece)
    whole.feed(b"".join(pieces))
    captured = piecewise.finish()
    assert captured == whole.finish()
    assert captured.text == "".join(heard) == b"".join(pieces).decode("utf-8", "replace")
    assert captured.total_bytes == sum(map(len, pieces))
    assert captured.digest == xxhash.xxh3_64_hexdigest(b"".join(pieces))


def test_text_is_cut_at_a_character_boundary() -> None:
    capture = Capture(NO_SECRETS)
    data = b"a" + " €".encode() * CAPTURED_BYTES
    capture.feed(data)
    captured = capture.finish()
    assert captured.text == data[:CAPTURED_BYTES].decode("utf-8", "ignore")
    assert captured.truncated
    assert captured.total_bytes == len(data)
    assert captured.digest == xxhash.xxh3_64_hexdigest(data)


def test_output_of_exactly_the_limit_is_whole() -> None:
    capture = Capture(NO_SECRETS)
    text = "- " * ((CAPTURED_BYTES - len(KEY)) // 2) + KEY  # which may be a part of a key if more follows
    capture.feed(text.encode())
    captured = capture.finish()
    assert (captured.text, captured.truncated) == (text, False)


@pytest.mark.parametrize("lines", [3, 30_000])
async def test_lines_with_secrets_are_found_in_texts_of_any_size(lines: int) -> None:
    text = b"x\n" * lines + KEY.encode() + b"\n"
    assert list(await Hiding(REDACTOR).lines(text)) == [lines]


def test_all_that_wrote_nothing_have_one_record() -> None:
    silent = Capture(NO_SECRETS)
    silent.feed(b"")
    assert silent.finish() == Captured(digest=xxhash.xxh3_64_hexdigest(b""), kept_bytes=0)
    assert silent.finish() is Capture(NO_SECRETS).finish()


KEY = "s3cret-value"
REDACTOR = Redactor([KEY])
READER = MessageReader(REDACTOR)
HEADER = 4
"""Bytes of a frame ahead of its body."""


def test_messages_are_redacted_however_deep_a_text_is() -> None:
    shown = {"v": Display(obj_id="v-1", title=KEY, text=f"<{KEY}>", tokens=1)}
    read = READER.message(frame(LookedAt(Looked(shown=shown)))[HEADER:])
    assert read == LookedAt(Looked(shown={"v": Display(obj_id="v-1", title="***", text="<***>", tokens=1)}))
    ran = READER.message(frame(Ran(execution_id="e", status="ok", value=KEY))[HEADER:])
    assert ran == Ran(execution_id="e", status="ok", value="***")


def test_events_are_redacted() -> None:
    packed = pack_events((NodeChanged(obj_id=ObjId("v-1"), obj_type="v", delta=KEY),))
    assert READER.events(packed) == (NodeChanged(obj_id=ObjId("v-1"), obj_type="v", delta="***"),)


def test_an_error_quotes_no_secret() -> None:
    with pytest.raises(ProtocolError) as caught:
        READER.events((f'{{"kind":"{KEY}"}}'.encode(),))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_is_printed_is_redacted_in_pieces_of_any_size(size: int) -> None:
    pieces: list[str] = []
    capture = Capture(REDACTOR, pieces.append)
    data = f"a {KEY} b {KEY} c\n".encode()
    for start in range(0, len(data), size):
        capture.feed(data[start : start + size])
    assert capture.finish().text == "a *** b *** c\n"
    assert KEY not in "".join(pieces)


def test_no_part_of_a_secret_is_left_at_the_bound() -> None:
    key = f"{KEY}-that-is-long"
    capture = Capture(Redactor([key]))
    capture.feed(b"x" * (CAPTURED_BYTES - len(key) + 2) + key.encode())
    assert key[:1] not in capture.finish().text


def test_the_digest_of_an_output_with_a_secret_checks_no_guess_of_it() -> None:
    def digest(text: str, redactor: Redactor = REDACTOR) -> str:
        capture = Capture(redactor)
        capture.feed(text.encode())
        return capture.finish().digest

    assert digest(KEY) == digest("***", NO_SECRETS) != digest(KEY, NO_SECRETS)
    assert digest("plain") == digest("plain", NO_SECRETS)


class Scripted(Connection):
    """A connection whose messages arrive one at a time, whenever somebody waits for one."""

    def __init__(self, *arriving: Any) -> None:
        super().__init__(SimpleNamespace(redactor=REDACTOR, message=lambda body: body))
        self.arriving = list(arriving)
        self.arrived: list[Any] = []
        self.sent: list[Any] = []
        self.is_ended = False

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def _next_body(self) -> Any:
        return self.arrived.pop(0) if self.arrived else None

    async def _progress(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.arriving:
            self.arrived.append(self.arriving.pop(0))

    def look(self) -> bool:
        self.arrived, self.arriving = [*self.arrived, *self.arriving], []
        return True

    def end(self) -> None:
        self.is_ended = True

    def _unused(self, *_arguments: Any) -> Any:
        raise AssertionError("nobody calls this")

    def _stop_reading(self) -> None:
        self.arriving.clear()

    async def acknowledged(self) -> None:
        self._unused()

    interrupt = begin_capture = drain = close = _death_seconds = _give_up = _unused


KEPT = Kept(execution_id="e1")


async def test_values_that_come_after_a_result_are_waited_for() -> None:
    connection = Scripted(KEPT)
    connection.begin_keeping("e1")
    assert connection.keeping
    with anyio.fail_after(10):
        assert await connection.receive_kept(anyio.CancelScope()) is KEPT
        assert await connection.receive_kept(anyio.CancelScope()) is KEPT
    assert connection.kept() is KEPT
    assert not connection.is_ended


async def test_values_that_have_arrived_are_taken_without_waiting() -> None:
    connection = Scripted(KEPT)
    connection.begin_keeping("e1")
    assert connection.kept() is KEPT


async def test_a_worker_that_asks_for_too_many_texts_at_once_is_ended() -> None:
    def asking(count: int) -> Scripted:
        connection = Scripted()
        connection.arrived = [AskHidden(number, KEY.encode()) for number in range(count)]
        return connection

    busy, greedy = asking(8), asking(9)
    for connection in (busy, greedy):
        with anyio.move_on_after(10):
            while len(connection.sent) < 8 and not connection.is_ended:
                await connection.receive(anyio.move_on_after(0))
    assert (busy.is_ended, len(busy.sent)) == (False, 8)
    assert (greedy.is_ended, greedy.sent) == (True, [])


class Ending(Scripted):
    """A worker that ends within its time, or that a last look finds ended, or that must be given up."""

    def __init__(self, end: str) -> None:
        super().__init__()
        self._end = end

    async def _progress(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.is_ended and self._end == "in time":
            self._death = Death(self._end)

    def look(self) -> bool:
        if self._end == "seen late":
            self._death = Death(self._end)
        return False

    def _death_seconds(self) -> float:
        return 10.0 if self._end == "in time" else 0.0

    def _give_up(self) -> Death:
        return Death("given up")


@pytest.mark.parametrize("end", ["in time", "seen late", "given up"])
async def test_only_a_worker_that_does_not_end_is_given_up(end: str) -> None:
    with anyio.fail_after(20):
        assert await Ending(end).kill() == Death(end)


class Wired(NamedTuple):
    """A connection, and the worker's ends of its channels."""

    connection: WorkerConnection
    worker: socket.socket
    control: socket.socket
    output: int


@pytest.fixture
def wired() -> Iterator[Wired]:
    (control, their_control), (worker, their_worker), (handover, their_handover) = (
        socket.socketpair() for _ in range(3)
    )
    reader, writer = os.pipe()
    parent: Any = SimpleNamespace(brand=1)
    yield Wired(
        WorkerConnection(parent, control, worker, [reader], handover, READER), their_worker, their_control, writer
    )
    os.close(writer)
    for end in (their_control, their_worker, their_handover):
        end.close()


async def test_a_message_larger_than_the_channel_is_sent_as_the_worker_reads(wired: Wired) -> None:
    message = Content(digest="d", data=os.urandom(4 << 20))
    expected, received = frame(message) + frame(Stopping()), bytearray()
    scope = anyio.CancelScope()

    def read() -> None:
        while len(received) < len(expected) and (piece := wired.worker.recv(1 << 20)):
            received.extend(piece)

    wired.worker.settimeout(10)
    wired.connection.send(message)
    wired.connection.send(Stopping())
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wired.connection.receive, scope)
            await anyio.to_thread.run_sync(read)
            scope.cancel()
    assert received == expected
    wired.connection.close()


async def test_a_closed_connection_is_dead_and_has_no_descriptors(wired: Wired) -> None:
    with anyio.fail_after(10):
        os.write(wired.output, b"x")
        wired.worker.send(frame(Ran(execution_id="e1", status="ok")))
        assert await wired.connection.receive(anyio.CancelScope()) == Ran(execution_id="e1", status="ok")
        assert not wired.connection.dead
        wired.connection.close()
        wired.connection.close()
        assert wired.connection.dead
        assert not wired.connection.look()
    assert wired.worker.recv(1) == wired.control.recv(1) == b""
    with pytest.raises(BrokenPipeError):
        os.write(wired.output, b"x")


async def test_memory_is_watched_from_the_first_look_to_the_end_of_each_statement(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = FrameBuffer()

    def requests() -> list[Watch]:
        wired.connection.look()  # sends what waits
        with suppress(BlockingIOError):
            frames.feed(wired.control.recv(1 << 16))
        return [decoder_of(Watch).decode(body) for body in iter(frames.next, None)]

    wired.control.setblocking(False)
    monkeypatch.setattr(connection_module, "LOOK_SECONDS", 0.0)
    for _ in range(2):
        wired.connection.watch_memory(True)
        assert requests() == []  # most statements end before the first look
        with anyio.fail_after(10):
            while not (found := requests()):
                await anyio.lowlevel.checkpoint()
        assert found == [Watch(on=True)]
        for expected in ([Watch(on=False)], []):
            wired.connection.watch_memory(False)
            assert requests() == expected
    wired.connection.close()
