"""Bytes become lines in their encoding, and binary content is recognized."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.revision import decoded, digest_of, from_text


@pytest.mark.parametrize(
    ("data", "encoding", "lines"),
    [
        (b"h\xc3\xa9\nx", "UTF-8", ["hé", "x"]),
        (b"\xef\xbb\xbfh\xc3\xa9\n", "UTF-8 with byte order mark", ["hé"]),
        ("hé\nx\n".encode("utf-16"), "UTF-16", ["hé", "x"]),
        (b"\xfe\xff" + "hé".encode("utf-16-be"), "UTF-16", ["hé"]),
        (b"caf\xe9\n", "Latin-1 (not valid UTF-8)", ["café"]),
        (b"", "UTF-8", []),
        (b"\n", "UTF-8", [""]),
    ],
)
def test_text_is_decoded_and_its_encoding_said(data: bytes, encoding: str, lines: list[str]) -> None:
    revision = decoded(data)
    assert (revision.state, revision.encoding, list(revision.lines)) == ("text", encoding, lines)
    assert revision.digest == digest_of(data)
    assert revision.size == len(data)


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x00\x01", b"\xff\xfe\x00", b"\xff\xfe\x00\xd8", bytes(range(128, 256)) + bytes(range(1, 32))]
)
def test_binary_is_told_apart(data: bytes) -> None:
    revision = decoded(data)
    assert (revision.state, revision.encoding) == ("binary", "binary")
    assert revision.notice == f"(binary, {len(data):,} bytes, beginning with {data[:4].hex(' ')})"
    assert not revision.lines


@pytest.mark.parametrize(
    ("data", "line_ends", "final"),
    [
        (b"a\nb\n", "LF", True),
        (b"a\r\nb\r\n", "CRLF", True),
        (b"a\r\nb\nc", "mixed LF and CRLF", False),
        (b"a", "", False),
        (b"a\rb", "", False),
        (b"a\r\nb", "CRLF", False),
    ],
)
def test_line_ends_are_kept_and_named(data: bytes, line_ends: str, final: bool) -> None:
    revision = decoded(data)
    assert (revision.line_ends, revision.final_newline) == (line_ends, final)
    assert ("\n".join(revision.lines) + ("\n" if final else "")).encode() == data


@given(st.text())
def test_a_given_text_is_kept_but_for_lone_surrogates(text: str) -> None:
    revision = from_text(text)
    shown = "\n".join(revision.lines) + ("\n" if revision.final_newline and revision.lines else "")
    assert shown == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_a_lone_surrogate_in_a_text_becomes_the_replacement_character() -> None:
    assert from_text("a\ud800b").lines[0] == "a\ufffdb"
