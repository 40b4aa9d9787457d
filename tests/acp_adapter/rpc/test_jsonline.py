"""Any JSON comes in, only clean JSON goes out."""

from __future__ import annotations

import json
import math
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_adapter.rpc.jsonline import ParseError, decode, encode, mended
from engine.core.text import valid_text

TEXT = st.text(alphabet=st.characters(codec=None, exclude_categories=[]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
def test_whatever_is_sent_is_one_line_that_a_strict_reader_takes(value: Any) -> None:
    line = encode({"params": value})
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert b"\r" not in line
    text = line.decode("utf-8")

    def refuse(constant: str) -> Any:
        raise AssertionError(constant)

    assert "params" in json.loads(text, parse_constant=refuse)


@given(value=JSON.filter(lambda value: "nan" not in repr(value) and "inf" not in repr(value)))
def test_what_is_clean_comes_back_as_it_was(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return
    assert decode(encode(value)[:-1]) == value


def test_lone_surrogates_go_out_as_replacement_characters_and_pairs_as_characters() -> None:
    assert encode({"a\udcff": ["b\ud800c", "\ud83d\ude00"]}) == '{"a\ufffd":["b\ufffdc","\U0001f600"]}\n'.encode()


def test_floats_that_are_not_finite_go_out_as_null_on_both_ways_of_encoding() -> None:
    assert encode([math.nan, math.inf]) == b"[null,null]\n"
    assert encode([math.nan, math.inf, 2**70]) == b"[null,null,1180591620717411303424]\n"


def test_what_json_cannot_hold_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        encode({"x": object()})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    if sys.version_info < (3, 14):  # from then on Python goes by the room on its stack
        with pytest.raises(TypeError):
            encode(deep)
    else:
        assert encode(deep) == b"[" * 100_001 + b"]" * 100_001 + b"\n"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'["\\ud800","\\uD83D\\uDE00","\\udc00x"]', ["\ufffd", "\U0001f600", "\ufffdx"]),
        (b'{"\\ud800":"\\\\ud800"}', {"\ufffd": "\\ud800"}),
        (b'"\\u0000"', "\x00"),
        (b" [1 , 2]\t", [1, 2]),
    ],
)
def test_unusual_json_is_read(line: bytes, value: Any) -> None:
    assert decode(line) == value


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"NaN",
        b'{"a":-Infinity}',
        b"\xff\xfe{}",
        b'"\xed\xa0\x80"',
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * 200_000,
        b"1" * 10_000,
        b'"\x01"',
        b"{'a':1}",
        b"{} {}",
        b"//",
    ],
)
def test_what_is_no_json_is_a_parse_error_that_repeats_nothing(line: bytes) -> None:
    with pytest.raises(ParseError) as refused:
        decode(line)
    assert len(str(refused.value)) < 60
    assert "\n" not in str(refused.value)


@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ParseError):
        decode(data)


@given(text=TEXT)
def test_text_is_mended_here_as_everywhere_else(text: str) -> None:
    """Two homes, because `rpc` knows nothing of the engine; held equal."""
    assert mended(text) == valid_text(text)
