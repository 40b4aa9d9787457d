"""Framing, JSON encoding and the queue of outgoing lines."""

from __future__ import annotations

import json
import math
import sys
import time
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_adapter.jsonrpc.lines import (
    BATCH,
    MAX_LINE,
    Broken,
    Frame,
    Line,
    LineDecoder,
    Outbox,
    ParseError,
    decode,
    encode,
    repaired,
)
from engine.core.text import valid_text

PIECE = 65_536


def frames_of(data: bytes, cuts: list[int], limit: int = MAX_LINE) -> list[Frame]:
    decoder = LineDecoder(limit)
    frames: list[Frame] = []
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        frames += decoder.feed(data[start:end])
    return frames + decoder.eof()


STREAM = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"{}", b" ", b"\xef\xbb\xbf", b"\xff", b"long line"])).map(
    b"".join
)


@given(data=STREAM, cuts=st.lists(st.integers(min_value=0)), limit=st.integers(min_value=1, max_value=12))
def test_any_split_of_a_stream_gives_the_same_frames(data: bytes, cuts: list[int], limit: int) -> None:
    assert frames_of(data, cuts, limit) == frames_of(data, [], limit)


@given(data=STREAM)
def test_the_frames_are_the_non_blank_lines(data: bytes) -> None:
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert frames_of(data, []) == [Line(line.removesuffix(b"\r")) for line in lines if line.strip()]


def test_last_line_without_newline() -> None:
    assert frames_of(b"one\ntwo", []) == [Line(b"one"), Line(b"two")]


def test_byte_order_mark_is_only_dropped_at_the_start() -> None:
    assert frames_of(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", []) == [Line(b"one"), Line(b"\xef\xbb\xbftwo")]


def test_line_limit_is_exact() -> None:
    assert frames_of(b"x" * 10 + b"\n", [], limit=10) == [Line(b"x" * 10)]
    refused = frames_of(b"x" * 11 + b"\nnext\n", [3, 6, 9], limit=10)
    assert [type(frame) for frame in refused] == [Broken, Line]
    assert refused[1] == Line(b"next")


def test_overlong_last_line_is_refused_once() -> None:
    assert [type(frame) for frame in frames_of(b"x" * 30, [5, 10, 15, 20], limit=10)] == [Broken]


def test_long_line_in_pieces_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        decoder = LineDecoder()
        piece = b"x" * PIECE
        start = time.thread_time()
        for _ in range(size // PIECE):
            assert decoder.feed(piece) == []
        (line,) = decoder.feed(b"\n")
        assert isinstance(line, Line)
        assert len(line.data) == size // PIECE * PIECE
        return time.thread_time() - start

    # quadratic joining would take 64 times as long for eight times the size, and some 20 s for the whole line
    small = min(seconds(6_250_000) for _ in range(3))
    assert seconds(50_000_000) < 32 * small + 0.5


def test_rest_of_an_overlong_line_is_not_stored() -> None:
    decoder = LineDecoder(limit=1_000_000)
    tracemalloc.start()
    broken = [frame for _ in range(500) for frame in decoder.feed(bytes(PIECE))]
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(broken) == 1
    assert peak < 2_000_000
    assert kept < 200_000


TEXT = st.text(alphabet=st.characters(codec=None, exclude_categories=[]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
def test_encoded_values_are_one_strict_line(value: Any) -> None:
    line = encode({"params": value})
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert b"\r" not in line
    text = line.decode("utf-8")

    def refuse(constant: str) -> Any:
        raise AssertionError(constant)

    assert "params" in json.loads(text, parse_constant=refuse)


@given(value=JSON.filter(lambda value: "nan" not in repr(value) and "inf" not in repr(value)))
def test_clean_values_round_trip(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return
    assert decode(encode(value)[:-1]) == value


def test_surrogates_are_repaired() -> None:
    assert encode({"a\udcff": ["b\ud800c", "\ud83d\ude00"]}) == '{"a\ufffd":["b\ufffdc","\U0001f600"]}\n'.encode()


def test_non_finite_floats_become_null() -> None:
    assert encode([math.nan, math.inf]) == b"[null,null]\n"
    assert encode([math.nan, math.inf, 2**70]) == b"[null,null,1180591620717411303424]\n"


def test_values_that_are_not_json_raise_type_error() -> None:
    with pytest.raises(TypeError):
        encode({"x": object()})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    if sys.version_info < (3, 14):  # newer versions check the stack's size instead
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
def test_parse_errors_repeat_no_input(line: bytes) -> None:
    with pytest.raises(ParseError) as refused:
        decode(line)
    assert len(str(refused.value)) < 60
    assert "\n" not in str(refused.value)


@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ParseError):
        decode(data)


@given(text=TEXT)
def test_repaired_text_equals_the_engines(text: str) -> None:
    """The engine has the same function; `jsonrpc` may not import it."""
    assert repaired(text) == valid_text(text)


pytestmark = pytest.mark.anyio
SECONDS = 10.0


async def test_queued_lines_leave_in_order_and_in_batches() -> None:
    outbox = Outbox()
    sent: list[bool] = []
    lines = [b"%d\n" % i for i in range(20_000)]
    for line in lines:
        outbox.put(line, sent.append if line == b"3\n" else None)
    taken = b""
    with anyio.fail_after(SECONDS):
        while outbox.size:
            batch = await outbox.take()
            assert len(batch.data) <= BATCH
            taken += batch.data
            outbox.sent(batch)
    assert taken == b"".join(lines)
    assert sent == [True]


async def test_a_line_longer_than_a_batch_goes_alone() -> None:
    outbox = Outbox()
    outbox.put(b"a" * (BATCH + 1))
    outbox.put(b"b")
    with anyio.fail_after(SECONDS):
        assert len((await outbox.take()).data) == BATCH + 1
        assert (await outbox.take()).data == b"b"


async def test_size_counts_until_the_transport_has_the_bytes() -> None:
    outbox = Outbox()
    outbox.put(b"12345")
    batch = await outbox.take()
    with anyio.move_on_after(0.01) as waited:
        await outbox.room(4)
    assert waited.cancelled_caught
    outbox.sent(batch)
    with anyio.fail_after(SECONDS):
        await outbox.room(0)


async def test_closing_drops_lines_and_wakes_producers() -> None:
    outbox = Outbox()
    sent: list[bool] = []
    outbox.put(b"x" * 100, sent.append)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.room, 0)
            await anyio.lowlevel.checkpoint()
            outbox.close()
    outbox.put(b"late", sent.append)
    assert outbox.size == 0
    assert sent == [False, False]
