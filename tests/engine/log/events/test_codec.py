"""Every kind of event survives the disk, and what is no event is refused with a reason."""

from __future__ import annotations

import threading
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.execution import StatementNumber
from engine.log.events import EVENTS, Event, codec
from engine.log.events.codec import UndecodableEventError, decode, encode, encode_readable
from tests.support.archives import dropped
from tests.support.examples import examples
from tests.support.stores import message

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT, st.lists, max_leaves=5)


def strategy_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type; `object` means any JSON."""
    if annotation is object:
        return JSON
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        hints = typing.get_type_hints(annotation, include_extras=True)
        return st.builds(annotation, **{name: strategy_of(hints[name]) for name in annotation.__struct_fields__})
    if annotation is StatementNumber:
        return st.integers(0, 2**63 - 1)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return strategy_of(arguments[0])
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(strategy_of(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, strategy_of(arguments[1]), max_size=3)
    if origin is not None:
        return st.one_of(*map(strategy_of, arguments))
    base = getattr(annotation, "__supertype__", annotation)
    return {
        str: TEXT,
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        bytes: st.binary(max_size=20),
        type(None): st.none(),
    }[base]


@pytest.mark.parametrize("kind", EVENTS, ids=lambda cls: cls.kind)
@examples(0.3)
@given(data=st.data())
def test_every_event_decodes_to_itself(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(strategy_of(kind))
    line = encode(event)
    assert b"\n" not in line
    assert decode(line) == event
    assert decode(line.decode()) == event
    assert encode_readable(event) == line


def test_kinds_are_named_once() -> None:
    kinds = [cls.kind for cls in EVENTS]
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"kind":"nothing_known"}',
        b'{"kind":"run_stop","v":99,"reason":"completed","cause":"end_turn"}',
        b'{"kind":"run_stop","v":1,"reason":"tired","cause":"end_turn"}',
        b'{"kind":"run_stop","v":1}',
        b'{"kind":"user_message","v":1,"message_id":"m","text":7}',
        b'{"kind":"user_message","v":1,"message_id":"m","text":"\xff"}',
    ],
)
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(UndecodableEventError):
        decode(data)


DEEP = 100_000


@pytest.mark.parametrize(
    "data",
    [
        b'{"kind":"tool_call","v":1,"tool_call_id":"c","tool":"t","arguments":'
        + b'{"a":' * DEEP
        + b"1"
        + b"}" * DEEP
        + b"}",
        b'{"kind":"user_message","v":1,"message_id":"m","text":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"kind":"user_message","v":1,"unknown":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"kind":' + b"[" * DEEP,
        b"[" * DEEP,
        b'{"kind":"' + b"x" * DEEP + b'"}',
        b'{"kind":"run_stop","v":1,"reason":"' + b"x" * DEEP + b'","cause":"end_turn"}',
    ],
    ids=["arguments", "text", "unknown field", "kind", "all", "long kind", "long word"],
)
def test_deep_or_long_json_is_refused_with_short_error(data: bytes) -> None:
    with pytest.raises(UndecodableEventError) as refused:
        decode(data)
    assert 0 < len(str(refused.value)) < 300


def test_decoders_are_made_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made, both = msgspec.json.Decoder, threading.Barrier(2)
    overlaps: list[bool] = []

    def slowly(cls: type[Event]) -> msgspec.json.Decoder[Any]:
        try:
            both.wait(0.3)
            overlaps.append(True)
        except threading.BrokenBarrierError:  # nobody else is here
            overlaps.append(False)
        return made(cls)

    monkeypatch.setattr(codec, "_DECODERS", {})
    monkeypatch.setattr(codec.msgspec.json, "Decoder", slowly)
    lines = [encode(event) for event in (message(0), dropped(1, 0))]
    threads = [threading.Thread(target=decode, args=(line,)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [False, False]
