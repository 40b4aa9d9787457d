from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.ids import ObjId, Seq
from engine.log.events import Event
from engine.log.events.codec import encode
from engine.log.events.conversation import RunStop
from engine.log.events.execution import NamesRebound
from engine.log.events.nodes import NodeChanged
from engine.log.redaction import NO_SECRETS
from engine.runtime.control_channel import WORKER_EVENTS, MessageReader
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
from engine.runtime.worker.protocol import Answer, Ask, CleanedUp, Died, Kill, Ran, Run, Tick

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


def test_a_frame_that_announces_too_much_is_refused_before_it_is_read() -> None:
    buffer = FrameBuffer()
    buffer.feed((MAX_FRAME + 1).to_bytes(4, "little"))
    with pytest.raises(ProtocolError):
        buffer.next()


def test_a_message_too_large_is_not_sent() -> None:
    with pytest.raises(FrameTooLargeError):
        frame(Answer(ordinal=0, value=b"x" * MAX_FRAME))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_a_protocol_error_and_nothing_else(data: bytes) -> None:
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
def test_events_that_a_worker_must_not_report_are_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        READER.events((data,))


def test_a_large_record_of_many_parts_round_trips() -> None:
    ran = Ran(execution_id="e", status="ok", value="é" * 10_000, events=(b"x",) * 100, stops=("s",))
    assert READER.message(frame(ran)[4:]) == ran
    assert WORKER_EVENTS
