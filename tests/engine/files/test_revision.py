"""Bytes become lines in their encoding; changes of them are one sentence, and as much of a diff as fits."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.tokens import count
from engine.files.changes import counted, describe, report
from engine.files.revision import Revision, digest_of, listing, without_content
from tests.support.examples import examples
from tests.support.revisions import decoded, from_text


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


TEXT = decoded(b"one\ntwo\n")
STATES = {
    "text": TEXT,
    "other text": decoded(b"one\n2\nthree\n"),
    "empty text": decoded(b""),
    "CRLF": decoded(b"one\r\ntwo\r\n"),
    "no newline": decoded(b"one\ntwo"),
    "Latin-1": decoded(b"one\ntw\xff\n"),
    "binary": decoded(b"\0\1" * 8),
    "directory": listing(b"a.py\nb/\n"),
    "other directory": listing(b"a.py\nc/\n"),
    "empty directory": listing(b""),
    "missing": without_content("missing", "(no file f; create it and Refresh(), or view another path)"),
    "pipe": without_content("unreadable", "(f cannot be read: a named pipe; Refresh() tries again)"),
    "directory unread": without_content("directory", "(f cannot be listed: Permission denied)"),
}


def _said(before: Revision, after: Revision) -> str:
    return report("f", "/f", before, after, count).summary


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("text", "other text", "2 lines changed in f (+2 -1), first at line 2"),
        ("text", "empty text", "2 lines changed in f (+0 -2), first at line 1"),
        ("text", "CRLF", "only the form of f changed: LF became CRLF"),
        ("CRLF", "no newline", "only the form of f changed: CRLF became LF, the newline at the end was removed"),
        ("no newline", "text", "only the form of f changed: a newline was added at the end"),
        ("text", "Latin-1", "1 line changed in f (+1 -1), first at line 2; UTF-8 became Latin-1 (not valid UTF-8)"),
        ("text", "binary", "f was replaced: binary, 16 bytes, beginning with 00 01 00 01"),
        ("text", "directory", "f was replaced: directory, 2 entries"),
        ("binary", "text", "f was replaced: 2 lines of text"),
        ("binary", "empty text", "f was replaced: empty text"),
        ("directory", "other directory", "entries of f: 1 new (c/), 1 gone (b/)"),
        ("directory", "empty directory", "entries of f: 2 gone (a.py, b/)"),
        ("text", "missing", "f was deleted"),
        ("text", "pipe", "f cannot be read: a named pipe; Refresh() tries again"),
        ("directory", "directory unread", "f cannot be listed: Permission denied"),
        ("pipe", "text", "f can be read now: 2 lines of text"),
        ("pipe", "directory", "f can be read now: directory, 2 entries"),
        ("missing", "text", "f exists now: 2 lines"),
        ("missing", "empty text", "f exists now: empty"),
        ("missing", "pipe", "f cannot be read: a named pipe; Refresh() tries again"),
    ],
)
def test_each_change_has_its_sentence(before: str, after: str, sentence: str) -> None:
    assert _said(STATES[before], STATES[after]) == sentence


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(STATES, STATES) if pair[0] != pair[1]])
def test_a_sentence_names_the_document_once(before: str, after: str) -> None:
    words = _said(STATES[before], STATES[after]).replace(":", "").replace(";", "").split()
    assert words.count("f") == 1
    assert len(words) > 2
    assert "0" not in words


def test_the_first_of_many_names_are_listed_and_others_counted() -> None:
    names = [f"n{number}" for number in range(1_200)]
    assert counted((("new", names), ("gone", ())), 2) == "1,200 new (n0, n1 and 1,198 more)"
    assert counted((("new", ()),)) == ""


_LINES = st.lists(
    st.one_of(st.sampled_from(["", " ", "}", "/", "x = 1"]), st.text("ab \t漢\r", max_size=12)), max_size=30
)


def test_the_diff_is_unified_with_one_line_of_context() -> None:
    _, delta = describe("f", list("abcde"), list("abXde"), count, 1000)
    assert delta.splitlines()[1:] == ["@@ -2,3 +2,3 @@", " b", "-c", "+X", " d"]


@examples(3)
@given(_LINES, _LINES, st.integers(0, 200))
def test_a_delta_is_within_its_budget_or_the_summary_alone(before: list[str], after: list[str], budget: int) -> None:
    summary, delta = describe("f.py", before, after, count, budget)
    assert delta.startswith(summary)
    assert "\n" not in summary
    assert delta == summary or count(delta + "\n") <= budget


def test_a_change_of_line_ends_shows_no_line_twice_alike() -> None:
    said, delta = describe("f", ["a", "b"], ["a\r", "b\r"], count, 300)
    assert said == delta == "only the form of f changed: encoding, line ends or final newline"
    assert describe("f", ["a", "b"], ["a\r", "c\r"], count, 300)[1].endswith(" a\n-b\n+c")


def test_a_cut_diff_says_so_and_long_lines_are_shortened() -> None:
    _, delta = describe("f", [], ["word " * 1000] * 50, count, 300)
    assert delta.endswith("\n...")
    assert max(map(len, delta.splitlines())) < 210
    assert count(delta + "\n") > 200
