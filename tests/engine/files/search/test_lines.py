"""The lines of a file, however large it and they are."""

from __future__ import annotations

import io

import pytest

from engine.files.search.walk import search
from engine.files.search.walk.dialect import compiled
from engine.files.search.walk.search import Searcher


def printed(data: bytes, pattern: str = "x", context: int = 0) -> bytes:
    return Searcher(*compiled(pattern), context, 20).search(io.BytesIO(data))


@pytest.mark.parametrize("size", range(1, 12))
def test_a_file_is_read_the_same_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    data = "a\r\nb\nx é\n\n日本 x\nc\nd\ne\nf\nx\xfc".encode()
    whole = printed(data, context=1)
    assert whole == "2-b\n3:x é\n4-\n5:日本 x\n6-c\n--\n9-f\n10:xü\n".encode()
    wide = "\ufeffa\nx 日\nb\n".encode("utf-16-le")
    monkeypatch.setattr(search, "BLOCK", size + 2)
    assert printed(data, context=1) == whole
    assert printed(wide, context=1) == "1-a\n2:x 日\n3-b\n".encode()
    assert printed(b"\xef\xbb\xbfx\n", "^x") == b"1:x\n"
    assert printed(b"\xffx\n") == b"1:\xffx\n"


def test_a_line_that_is_longer_than_memory_should_hold_is_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BLOCK", 4)
    monkeypatch.setattr(search, "LONGEST", 10)
    assert printed(b"a" * 100 + b"x" + b"a" * 100 + b"x" + b"a" * 50 + b"\nb\nx\n").splitlines()[1:] == [b"3:x"]


def test_what_follows_a_nul_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BLOCK", 4)
    file = io.BytesIO(b"x\nx\n\0" + b"x" * 100)
    assert Searcher(*compiled("x"), 0, 20).search(file) == b""
    assert file.tell() < 20
