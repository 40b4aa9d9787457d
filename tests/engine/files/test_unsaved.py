"""What an editor's text means beside what is on disk: nothing, or bytes as the file has its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.encodings import decode
from engine.files.buffers import if_saved, mark_of


@pytest.mark.parametrize(
    ("text", "on_disk"),
    [
        ("", None),
        ("", b""),
        ("a\nb\n", b"a\nb\n"),
        ("a\nb", b"a\nb\n"),
        ("a\nb\n", b"a\r\nb\r\n"),
        ("a\r\nb\r\n", b"a\nb\n"),
        ("a\nb\n", b"a\rb\r"),
        ("\u00e4\n", b"\xef\xbb\xbf\xc3\xa4\n"),
        ("\ufeff\u00e4\n", b"\xc3\xa4\n"),
        ("\u00e4\n", b"\xff\xfe\xe4\x00\n\x00"),
        ("\u00e4\n", b"\xe4\n"),
        ("\ufffd\n", b"\xe4\n"),
        ("text", b"\x00binary"),
    ],
)
def test_how_an_editor_holds_a_file_is_no_change(text: str, on_disk: bytes | None) -> None:
    assert if_saved(text, on_disk) is None


@pytest.mark.parametrize(
    ("text", "on_disk", "saved"),
    [
        ("new\n", None, b"new\n"),
        ("b\n", b"a\n", b"b\n"),
        ("", b"a\n", b""),
        ("a\nc\n", b"a\r\nb\r\n", b"a\r\nc\r\n"),
        ("a\r\nc\r\n", b"a\nb\n", b"a\nc\n"),
        ("a\nc\r\n", b"a\nb\r\n", b"a\nc\r\n"),
        ("\ufeffb\n", b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        ("b\n", b"\xff\xfea\x00\n\x00", b"\xff\xfeb\x00\n\x00"),
        ("\u00e4b\n", b"\xe4\n", b"\xe4b\n"),
        ("\u20ac\n", b"\xe4\n", "\u20ac\n".encode()),
        ("\ud83d\ude00\udc00\n", b"a\n", "\U0001f600\ufffd\n".encode()),
    ],
)
def test_a_change_has_the_encoding_and_the_line_ends_of_its_file(
    text: str, on_disk: bytes | None, saved: bytes
) -> None:
    assert if_saved(text, on_disk) == saved


@given(st.text(), st.binary())
def test_what_would_be_saved_is_no_change_once_it_is(text: str, on_disk: bytes) -> None:
    saved = if_saved(text, on_disk)
    if saved is not None and decode(saved) is not None:
        assert if_saved(text, saved) is None


@given(st.text(alphabet="a\n\ufeff"))
def test_texts_that_may_be_one_content_have_one_mark(text: str) -> None:
    assert mark_of(text) == mark_of(text.replace("\n", "\r\n"))
    assert mark_of("a" + text) != mark_of("b" + text)
