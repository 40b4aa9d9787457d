from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.codec import decode
from engine.events.execution import NamesRebound
from engine.execution import ExceptionInfo
from engine.worker.framing import frame, from_worker, pack_events
from engine.worker.protocol import Ran
from engine.worker.sanitize import sanitize, sanitize_text

TEXT = st.text(st.characters(codec=None, categories=None))  # lone surrogates included
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.binary()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=20,
)


@given(PLAIN)
def test_whatever_is_plain_can_be_encoded_afterwards_and_stays_as_it_is(value: object) -> None:
    clean = sanitize(value)
    msgspec.msgpack.encode(clean)
    assert sanitize(clean) == clean


@given(TEXT)
def test_only_lone_surrogates_are_replaced(text: str) -> None:
    clean = sanitize_text(text)
    assert len(clean) == len(text)
    for before, after in zip(text, clean, strict=True):
        assert after == ("\ufffd" if "\ud800" <= before <= "\udfff" else before)


def test_numbers_that_no_encoder_takes_become_tagged_texts() -> None:
    big = 1 << 70
    assert sanitize([big, -big, math.nan, math.inf, -math.inf, 2**64 - 1, -(2**63), 1.5]) == [
        f"int:{big}",
        f"int:-{big}",
        "float:nan",
        "float:inf",
        "float:-inf",
        2**64 - 1,
        -(2**63),
        1.5,
    ]
    assert sanitize(10**5000).startswith("int:0x")


def test_what_is_no_plain_data_is_refused() -> None:
    for value in (object(), {1: 2}, {1, 2}, [[object()]]):
        with pytest.raises(TypeError):
            sanitize(value)
    nested: list[object] = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(TypeError, match="64 levels"):
        sanitize(nested)


def test_records_and_events_with_lone_surrogates_are_sent_cleaned() -> None:
    ran = Ran(execution_id="e", status="error", value="\ud800", exception=ExceptionInfo(type="E", message="a\udfffb"))
    back = from_worker(frame(ran)[4:])
    assert isinstance(back, Ran)
    assert back.value == "\ufffd"
    assert back.exception == ExceptionInfo(type="E", message="a\ufffdb")
    (packed,) = pack_events((NamesRebound(execution_id=None, names=("\udc80",)),))
    assert decode(packed) == NamesRebound(execution_id=None, names=("\ufffd",))
