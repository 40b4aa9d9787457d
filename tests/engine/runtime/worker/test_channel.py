"""Frames between host and worker: their channel, their cutting, and questions to the host."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.execution import ExceptionInfo
from engine.core.ids import ObjId, Seq
from engine.log.events import Event
from engine.log.events.codec import encode
from engine.log.events.conversation import RunStop
from engine.log.events.execution import NamesRebound
from engine.log.events.nodes import NodeChanged
from engine.log.redaction import NO_SECRETS
from engine.runtime.control_channel import WORKER_EVENTS, MessageReader
from engine.runtime.worker.channel import Channel
from engine.runtime.worker.framing import (
    MAX_FRAME,
    FrameBuffer,
    FrameTooLargeError,
    ProtocolError,
    frame,
    from_zygote,
    pack_events,
    to_worker,
    to_zygote,
)
from engine.runtime.worker.guarding.guard import KEPT_STOPS, ReplayEffect
from engine.runtime.worker.interrupts import SignalInterrupts
from engine.runtime.worker.protocol import (
    Answer,
    Ask,
    CleanedUp,
    Died,
    Kill,
    Noted,
    Ran,
    Run,
    Started,
    Stopping,
    Tick,
    Touching,
)
from engine.runtime.worker.statements.effects import Effects, exception_named

PATIENCE = 10.0


def test_waiting_returns_at_once_for_a_received_message() -> None:
    host, worker = socket.socketpair()
    with host, worker:
        channel = Channel(worker)
        host.sendall(frame(Answer(ordinal=0)) + frame(Answer(ordinal=1)))
        assert channel.receive() == Answer(ordinal=0)
        waiting = threading.Thread(target=channel.wait, daemon=True)
        waiting.start()
        waiting.join(PATIENCE)
        assert not waiting.is_alive()
        assert channel.receive() == Answer(ordinal=1)


def test_message_that_another_thread_has_read_ends_the_wait() -> None:
    host, worker = socket.socketpair()
    with host, worker:
        channel = Channel(worker)
        waiting = threading.Thread(target=channel.wait, daemon=True)
        reading = threading.Thread(target=lambda: channel.inbox.is_noted(1, PATIENCE), daemon=True)
        for thread in (waiting, reading):
            thread.start()
        host.sendall(frame(Answer(ordinal=0)) + frame(Noted(1)))
        reading.join(PATIENCE)
        waiting.join(PATIENCE)
        assert not waiting.is_alive()
        assert not reading.is_alive()
        assert channel.receive() == Answer(ordinal=0)


def test_reason_of_an_interrupt_is_taken_ahead_of_other_messages() -> None:
    host, worker = socket.socketpair()
    with host, worker:
        channel = Channel(worker)
        host.sendall(frame(Answer(ordinal=0)) + frame(Stopping(2.0)))
        assert channel.stopping() == Stopping(2.0)
        assert channel.stopping() is None
        assert channel.receive() == Answer(ordinal=0)


def test_reason_alone_is_no_message() -> None:
    host, worker = socket.socketpair()
    with host, worker:
        channel = Channel(worker)
        host.sendall(frame(Stopping()))
        channel.wait()
        taken: list[object] = []
        taking = threading.Thread(target=lambda: taken.append(channel.take()), daemon=True)
        taking.start()
        taking.join(1)
        host.sendall(frame(Answer(ordinal=0)))  # which ends a wait that should not be
        taking.join(PATIENCE)
        assert taken == [None]
        assert channel.stopping() == Stopping()


@pytest.mark.parametrize(("end", "code"), [("close", 0), ("lose", 71)])
def test_a_process_without_its_host_or_its_socket_ends(end: str, code: int) -> None:
    host, worker = socket.socketpair()
    pid = os.posix_spawn(*_child(worker.fileno(), end))
    worker.close()
    host.close()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code


def _child(descriptor: int, end: str) -> tuple[str, list[str], dict[str, str]]:
    os.set_inheritable(descriptor, True)
    script = (
        "import os, socket, sys\nfrom engine.runtime.worker.channel import Channel\n"
        f"channel = Channel(socket.socket(fileno={descriptor}))\n"
        f"if {end!r} == 'lose': os.close({descriptor})\n"
        "channel.receive()\n"
    )
    return sys.executable, [sys.executable, "-c", script], {"PYTHONPATH": os.getcwd()}


def test_a_frame_is_sent_whole() -> None:
    host, worker = socket.socketpair()
    with host, worker:
        Channel(worker).send(Started())
        assert host.recv(100) == frame(Started())


def test_frames_of_threads_and_of_handlers_do_not_mix() -> None:
    host, worker = socket.socketpair()
    channel = Channel(worker)
    large = Ask(ordinal=0, operation="write", arguments={"text": "x" * (4 << 20)})
    small = Touching(number=1, path=b"a")
    handled: list[int] = []

    def handle(*_: object) -> None:
        handled.append(1)
        channel.send(small)

    received: list[object] = []

    def receive() -> None:
        buffer = FrameBuffer()
        while data := host.recv(1 << 16):
            buffer.feed(data)
            while body := buffer.next():
                received.append(MessageReader(NO_SECRETS).message(body))

    previous = signal.signal(signal.SIGALRM, handle)
    threads = [threading.Thread(target=lambda: [channel.send(small) for _ in range(200)]) for _ in range(3)]
    reader = threading.Thread(target=receive)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for thread in (reader, *threads):
            thread.start()
        for _ in range(20):
            channel.send(large)
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        channel.send(small)
        worker.close()
        reader.join(PATIENCE)
        host.close()
    assert received.count(large) == 20
    assert received.count(small) == 601 + len(handled)
    assert handled


def fill(channel: Channel) -> None:
    """Sends until there is no room in the socket, and waits there."""
    while True:
        channel.send(Started())


def test_exception_of_a_signal_handler_reaches_the_sender() -> None:
    host, worker = socket.socketpair()

    def handle(*_: object) -> None:
        raise TimeoutError("too slow")

    previous = signal.signal(signal.SIGALRM, handle)
    try:
        with host, worker:
            channel = Channel(worker)
            worker.setblocking(True)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(TimeoutError, match="too slow"):
                fill(channel)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


READER = MessageReader(NO_SECRETS)


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 7))
def test_frames_survive_any_cutting(values: list[bytes], step: int) -> None:
    data = b"".join(frame(Answer(ordinal=n, value=value)) for n, value in enumerate(values))
    buffer, bodies = FrameBuffer(), []
    for start in range(0, len(data), step):
        buffer.feed(data[start : start + step])
        while buffer.complete:
            bodies.append(buffer.next())
        assert buffer.next() is None
    assert [to_worker(body) for body in bodies if body] == [
        Answer(ordinal=n, value=value) for n, value in enumerate(values)
    ]


def test_oversized_frame_is_refused_before_reading() -> None:
    buffer = FrameBuffer()
    buffer.feed((MAX_FRAME + 1).to_bytes(4, "little"))
    with pytest.raises(ProtocolError):
        buffer.next()


def test_a_message_too_large_is_not_sent() -> None:
    with pytest.raises(FrameTooLargeError):
        frame(Answer(ordinal=0, value=b"x" * MAX_FRAME))


@given(st.binary(max_size=200))
def test_invalid_bytes_are_a_protocol_error(data: bytes) -> None:
    for decode in (READER.message, to_worker, from_zygote, to_zygote):
        with pytest.raises(ProtocolError):
            decode(data)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "Ran", "execution_id": "e", "status": "fine"},
        {"type": "Ran", "execution_id": "e", "status": "ok", "diff": {"added": {"x": 1}}},
        {"type": "Ran", "execution_id": "e", "status": "ok", "stdout": 1, "events": [1]},
        {"type": "Ask", "ordinal": 1, "operation": "x", "arguments": [1]},
        {"type": "Ask", "ordinal": 1, "operation": "x", "arguments": {"a": msgspec.msgpack.Ext(5, b"x")}},
        {"type": "Run", "source": "x"},
        {"type": "Nothing"},
        [],
        None,
    ],
)
def test_messages_of_the_wrong_shape_are_a_protocol_error(message: object) -> None:
    with pytest.raises(ProtocolError):
        READER.message(msgspec.msgpack.encode(message))


def test_deeply_nested_data_is_a_protocol_error() -> None:
    body = msgspec.msgpack.encode(Ask(ordinal=0, operation="x", arguments={"a": 0}))
    deep = body[:-1] + b"\x91" * 100_000 + b"\x00"
    with pytest.raises(ProtocolError):
        READER.message(deep)


def test_messages_of_one_direction_are_refused_in_another() -> None:
    run = Run(execution_id="e", label="l", source="s", round_id=0)
    for decode, message in (
        (READER.message, run),
        (to_worker, CleanedUp()),
        (to_zygote, Died(0)),
        (from_zygote, Kill()),
    ):
        with pytest.raises(ProtocolError):
            decode(frame(message)[4:])
    assert to_worker(frame(Tick(1, 2.0))[4:]) == Tick(1, 2.0)


def test_events_travel_as_their_json() -> None:
    events: tuple[Event, ...] = (
        NodeChanged(obj_id=ObjId("v-1"), obj_type="v", delta="d"),
        NamesRebound(execution_id=None, names=("a",)),
    )
    assert READER.events(pack_events(events)) == events


@pytest.mark.parametrize(
    "data",
    [
        encode(RunStop(reason="completed", cause="end_turn")),
        encode(NodeChanged(seq=Seq(3), obj_id=ObjId("v-1"), obj_type="v", delta="d")),
        b'{"kind":"node_changed"}',
        b'{"kind":"node_changed","v":99,"obj_id":"a","obj_type":"b","delta":"c"}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_forbidden_events_are_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        READER.events((data,))


def test_a_large_record_of_many_parts_round_trips() -> None:
    ran = Ran(execution_id="e", status="ok", value="é" * 10_000, events=(b"x",) * 100, stops=("s",))
    assert READER.message(frame(ran)[4:]) == ran
    assert WORKER_EVENTS


Ends = tuple[socket.socket, Effects]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The host's socket, and the asking side at its other end."""
    host, worker = socket.socketpair()
    with host, worker:
        host.settimeout(10)
        yield host, Effects(Channel(worker), SignalInterrupts(), lambda _operation: None)


def test_stale_answer_is_skipped(ends: Ends) -> None:
    host, effects = ends
    effects.open(None)
    host.sendall(frame(Answer(ordinal=7, value="stale")) + frame(Answer(ordinal=0, value="right")))
    assert effects.ask("read", {"path": "x"}) == "right"
    buffer = FrameBuffer()
    buffer.feed(host.recv(1000))
    assert MessageReader(NO_SECRETS).message(buffer.next() or b"") == Ask(
        ordinal=0, operation="read", arguments={"path": "x"}
    )


def test_arguments_are_sanitized_before_sending(ends: Ends) -> None:
    host, effects = ends
    effects.open(None)
    with pytest.raises(TypeError):
        effects.ask("read", {"path": object()})
    host.sendall(frame(Answer(ordinal=0)))
    effects.ask("read", {"path": "\ud800", "n": 1 << 80})
    buffer = FrameBuffer()
    buffer.feed(host.recv(1000))
    asked = MessageReader(NO_SECRETS).message(buffer.next() or b"")
    assert asked.arguments == {"path": "\ufffd", "n": f"int:{1 << 80}"}


def test_outside_of_a_statement_nothing_is_asked(ends: Ends) -> None:
    _, effects = ends
    with pytest.raises(RuntimeError, match="while a statement runs"):
        effects.ask("read", {})
    effects.open(None)
    effects.close()
    with pytest.raises(RuntimeError, match="while a statement runs"):
        effects.ask("read", {})


def test_a_recording_answers_by_ordinal_and_stops_where_it_ends(ends: Ends) -> None:
    _, effects = ends
    effects.open((Answer(ordinal=0, value=1), Answer(ordinal=1, error=ExceptionInfo(type="OSError", message="m"))))
    assert effects.ask("a", {}) == 1
    with pytest.raises(OSError, match="m"):
        effects.ask("b", {})
    with pytest.raises(ReplayEffect):
        effects.ask("c", {})
    assert effects.stops == ("called c, which has no recorded answer",)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ValueError", ValueError), ("KeyboardInterrupt", RuntimeError), ("print", RuntimeError), ("", RuntimeError)],
)
def test_only_builtin_exceptions_are_raised_by_name(name: str, kind: type[Exception]) -> None:
    assert type(exception_named(name, "m")) is kind


def test_many_questions_without_an_answer_are_counted(ends: Ends) -> None:
    _, effects = ends
    effects.open(())
    for _ in range(20_000):
        with pytest.raises(ReplayEffect):
            effects.ask("read", {})
    assert len(effects.stops) == KEPT_STOPS + 1
    assert effects.stops[-1] == "made 19,995 more calls without a recorded answer"
