"""The bounds of captured output."""

from __future__ import annotations

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from engine.core.execution import Captured
from engine.log.redaction import NO_SECRETS
from engine.runtime.connection import CAPTURED_BYTES, Capture

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
    data = b"a" + "€".encode() * CAPTURED_BYTES
    capture.feed(data)
    captured = capture.finish()
    assert captured.text == "a" + "€" * ((CAPTURED_BYTES - 1) // 3)
    assert captured.truncated
    assert captured.total_bytes == len(data)
    assert captured.digest == xxhash.xxh3_64_hexdigest(data)


def test_all_that_wrote_nothing_have_one_record() -> None:
    silent = Capture(NO_SECRETS)
    silent.feed(b"")
    assert silent.finish() == Captured(digest=xxhash.xxh3_64_hexdigest(b""), kept_bytes=0)
    assert silent.finish() is Capture(NO_SECRETS).finish()
