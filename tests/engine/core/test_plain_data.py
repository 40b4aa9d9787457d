"""Values made fit for every encoder, in one spelling, and refused where they are no plain data."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.execution import ExceptionInfo
from engine.core.plain_data import clean, integer, number
from engine.log.events.codec import decode
from engine.log.events.execution import NamesRebound
from engine.log.redaction import NO_SECRETS
from engine.runtime.control_channel import MessageReader
from engine.runtime.worker.framing import frame, pack_events
from engine.runtime.worker.protocol import Ran

TEXT = st.text(st.characters(codec=None, categories=None))  # lone surrogates included
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.binary()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_data_encodes_and_stays_unchanged(value: object) -> None:
    cleaned = clean(value)
    msgspec.msgpack.encode(cleaned)
    msgspec.json.encode(cleaned)
    assert clean(cleaned) == cleaned


def test_numbers_that_no_encoder_takes_become_tagged_texts() -> None:
    big = 1 << 70
    assert clean([big, -big, math.nan, math.inf, -math.inf, 2**64 - 1, -(2**63), 1.5]) == [
        f"int:{big}",
        f"int:-{big}",
        "float:nan",
        "float:inf",
        "float:-inf",
        2**64 - 1,
        -(2**63),
        1.5,
    ]
    assert clean(10**5000).startswith("int:0x")


@pytest.mark.parametrize("value", [0, -1, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**19, 10**300, -(10**20)])
def test_an_integer_is_spelled_alike_wherever_it_was_read(value: int) -> None:
    assert integer(str(value)) == number(value)


def test_more_digits_than_python_converts_are_kept_as_they_are() -> None:
    assert integer("9" * 5000) == "int:" + "9" * 5000


def test_texts_are_made_valid_at_any_depth_keys_too() -> None:
    assert clean({"\ud800": ["a", ("\udfff",)]}) == {"\ufffd": ["a", ("\ufffd",)]}


def test_what_is_no_plain_data_is_refused() -> None:
    for value in (object(), {1: 2}, {1, 2}, [[object()]]):
        with pytest.raises(TypeError):
            clean(value)
    nested: list[object] = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(TypeError, match="64 levels"):
        clean(nested)


def test_records_and_events_with_lone_surrogates_are_sent_cleaned() -> None:
    ran = Ran(execution_id="e", status="error", value="\ud800", exception=ExceptionInfo(type="E", message="a\udfffb"))
    back = MessageReader(NO_SECRETS).message(frame(ran)[4:])
    assert back.value == "\ufffd"
    assert back.exception == ExceptionInfo(type="E", message="a\ufffdb")
    (packed,) = pack_events((NamesRebound(execution_id=None, names=("\udc80",)),))
    assert decode(packed) == NamesRebound(execution_id=None, names=("\ufffd",))
