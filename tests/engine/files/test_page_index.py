"""An index of pages agrees with the whole text, however it is split."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.document import resolve
from engine.files.paging import (
    PagedLines,
    PageIndex,
    PageLostError,
    is_page,
    page_path,
    page_place,
    page_revision,
    scan,
    unpacked,
)
from engine.files.revision import decoded
from tests.support.examples import examples

_PIECES = st.sampled_from(
    [
        "\n",
        "\u0a05\u0100",
        "\u0100\u0a05",
        "\r\n",
        "\r",
        "a",
        "xyz",
        "é",
        "日本",
        "😀",
        " " * 9,
        "l" * 40,
        "日" * 15,
        "\0",
    ]
)
"""Two of them hold the bytes of a newline in UTF-16, at a place where they are none."""
_ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1"])
_MARKS = {"utf-16-be": b"\xfe\xff"}


@st.composite
def _contents(draw: st.DrawFn) -> bytes:
    text = "".join(draw(st.lists(_PIECES, max_size=40)))
    encoding = draw(_ENCODINGS)
    data = _MARKS.get(encoding, b"") + text.encode(encoding, "replace")
    end = draw(st.binary(max_size=2))
    return data + end


def _lines(data: bytes, page: int) -> PagedLines:
    index = scan(lambda offset, size: data[offset : offset + size], len(data), page).pages
    assert index is not None
    return PagedLines(unpacked(index.packed()), "/f", "f", lambda path, _: _page(data, path))


def _page(data: bytes, path: str) -> bytes:
    place = page_place(path)
    revision = page_revision(path, data[place.start : place.start + place.size])
    assert revision is not None
    return revision.page


@examples(4)
@given(_contents(), st.integers(4, 64))
def test_it_is_the_same_text_as_when_it_is_held(data: bytes, page: int) -> None:
    held = decoded(data)
    found = scan(lambda offset, size: data[offset : offset + size], len(data), page)
    assert (found.digest, found.size) == (held.digest, held.size)
    assert (found.pages is None) == (held.state == "binary")
    if found.pages is None:
        return
    index = found.pages
    lines = _lines(data, page)
    assert list(lines) == held.lines
    assert (index.encoding, index.line_ends) == (held.encoding, held.line_ends)
    assert index.final_newline == held.final_newline
    assert max(map(int.__sub__, index.starts[1:], index.starts), default=0) <= page


@examples(4)
@given(_contents(), st.integers(4, 64), st.integers(0, 60), st.integers(0, 60))
def test_parts_of_lines_and_offsets_are_those_of_the_text(data: bytes, page: int, start: int, size: int) -> None:
    held = decoded(data)
    if held.state == "binary" or not held.lines:
        return
    lines = _lines(data, page)
    assert [lines.length(line) for line in range(len(lines))] == [len(line) for line in held.lines]
    assert [lines.part(line, start, size) for line in range(len(lines))] == [
        line[start : start + size] for line in held.lines
    ]
    assert tuple(lines.point(start)) == tuple(resolve(start, held.lines))


def _read(data: bytes) -> PageIndex:
    index = scan(lambda offset, size: data[offset : offset + size], len(data), 16).pages
    assert index is not None
    return index


def test_pages_end_at_newlines_and_long_lines_are_split() -> None:
    index = _read(b"one\ntwo\nthree and four\n" + "é".encode() * 12 + b"12345\r\nend")
    assert list(index.starts) == [0, 8, 23, 39, 54, 57]
    assert list(index.lines) == [0, 2, 3, 3, 4, 4]
    assert index.pages_of(2) == (1, 1)
    assert index.pages_of(3) == (2, 3)


def test_a_return_is_not_parted_from_its_newline() -> None:
    index = _read(b"x" * 15 + b"\r\nnext\n")
    assert list(index.starts) == [0, 15, 22]
    assert index.line_ends == "mixed LF and CRLF"


def test_appended_or_truncated_files_are_indexed_as_read() -> None:
    data = b"one\ntwo\nthree\nfour\n"
    assert scan(lambda offset, size: data[offset : offset + size], 8, 16).size == 8
    shorter = scan(lambda offset, size: data[offset : offset + size], 1_000, 16)
    assert shorter.size == len(data)
    assert shorter.pages is not None
    assert shorter.pages.line_count == 4


def test_an_index_that_was_tampered_with_is_refused() -> None:
    index = _read(b"one\ntwo\n" * 20)
    packed = index.packed()
    assert unpacked(packed).packed() == packed
    for bad in (b"", packed[:-1], b"\x90", PageIndex("cp037", *_rest(index)).packed()):
        with pytest.raises(ValueError, match="no index of pages"):
            unpacked(bad)
    larger = array("Q", [0, *(start + (1 << 20) for start in index.starts[1:])])
    with pytest.raises(ValueError, match="a page cannot be so"):
        unpacked(PageIndex("utf-8", "UTF-8", "LF", True, larger, index.lines, index.chars, index.digests).packed())


def _rest(index: PageIndex) -> tuple[str, str, bool, array[int], array[int], array[int], array[int]]:
    return (
        index.encoding,
        index.line_ends,
        index.final_newline,
        index.starts,
        index.lines,
        index.chars,
        index.digests,
    )


def test_a_page_that_contradicts_the_index_is_not_shown() -> None:
    data = b"one\ntwo\nthree\n"
    index = _read(data)
    index.lines[-1] += 1
    lines = PagedLines(index, "/f", "f", lambda path, _: _page(data, path))
    with pytest.raises(PageLostError, match="cannot be shown"):
        lines[0]


def test_a_very_long_line_is_returned_in_parts() -> None:
    data = b"x" * (2 << 20) + b"end\nnext"
    lines = _lines(data, 64 << 10)
    assert (len(lines), lines.length(0)) == (2, (2 << 20) + 3)
    assert (lines.part(0, (2 << 20) - 1, 10), lines[1]) == ("xend", "next")
    with pytest.raises(ValueError, match="line 1 has 2,097,155 characters; it is shown in parts"):
        lines[0]


def test_the_name_of_a_page_says_which_it_is() -> None:
    path = page_path("/a/b.log", 65_536, 12, 0xAB)
    assert is_page(path)
    assert not is_page("/a/b..log")
    assert page_place(path) == ("/a/b.log", 65_536, 12, "00000000000000ab")
    assert page_revision(path, b"another page") is None
    assert page_revision("/a/../b", b"") is None
    with pytest.raises(ValueError, match="no place of a page"):
        page_place("/a/../b")
