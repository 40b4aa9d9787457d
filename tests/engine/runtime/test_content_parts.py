"""What a worker tells of files comes in parts, and has an end."""

from __future__ import annotations

import pytest

from engine.runtime.connection import ContentParts
from engine.runtime.worker.framing import ProtocolError
from engine.runtime.worker.protocol import TOUCHED_BYTES, TOUCHED_FILES


def test_contents_that_come_at_the_same_time_are_told_apart() -> None:
    parts = ContentParts()
    parts.add(1, b"a")
    parts.add(2, b"x")
    parts.add(1, b"b")
    assert parts.end(1, b"c") == b"abc"
    assert parts.end(3, b"only") == b"only"
    assert parts.end(4, None) is None
    assert parts.end(2, b"") == b"x"


@pytest.mark.slow
def test_a_worker_that_tells_without_an_end_is_refused() -> None:
    parts, piece = ContentParts(), bytes(TOUCHED_BYTES // 8)
    with pytest.raises(ProtocolError, match="more files than it may"):
        [parts.end(number, piece) for number in range(17)]
    files = ContentParts()
    with pytest.raises(ProtocolError, match="more files than it may"):
        [files.end(number, None) for number in range(2 * TOUCHED_FILES + 1)]
