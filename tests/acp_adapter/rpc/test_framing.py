"""Lines come out of a byte stream whole, in order, and the same however the stream was cut."""

from __future__ import annotations

import time
import tracemalloc
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from acp_adapter.rpc.framing import MAX_LINE, Broken, Frame, Line, LineDecoder

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


def test_a_last_line_without_a_newline_counts() -> None:
    assert frames_of(b"one\ntwo", []) == [Line(b"one"), Line(b"two")]


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    assert frames_of(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", []) == [Line(b"one"), Line(b"\xef\xbb\xbftwo")]


def test_a_line_of_exactly_the_limit_passes_and_one_byte_more_is_refused_once() -> None:
    assert frames_of(b"x" * 10 + b"\n", [], limit=10) == [Line(b"x" * 10)]
    refused = frames_of(b"x" * 11 + b"\nnext\n", [3, 6, 9], limit=10)
    assert [type(frame) for frame in refused] == [Broken, Line]
    assert refused[1] == Line(b"next")


def test_an_overlong_line_at_the_end_of_the_stream_is_refused_once() -> None:
    assert [type(frame) for frame in frames_of(b"x" * 30, [5, 10, 15, 20], limit=10)] == [Broken]


def test_a_line_of_fifty_megabytes_in_small_pieces_takes_linear_time() -> None:
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


def test_the_rest_of_an_overlong_line_is_not_kept() -> None:
    decoder = LineDecoder(limit=1_000_000)
    tracemalloc.start()
    broken = [frame for _ in range(500) for frame in decoder.feed(bytes(PIECE))]
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(broken) == 1
    assert peak < 2_000_000
    assert kept < 200_000
