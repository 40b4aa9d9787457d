"""What a tick says of a document: one sentence for each way in which it may change, which names the document once."""

from __future__ import annotations

from itertools import product

import pytest

from engine.core.tokens import count
from engine.files.changes import counted, told
from engine.files.revision import Revision, decoded, listing, without_content

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
    return told("f", "/f", before, after, count).summary


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("text", "other text", "2 lines changed in f (+2 -1), first at line 2"),
        ("text", "empty text", "2 lines changed in f (+0 -2), first at line 1"),
        ("text", "CRLF", "no line changed in f: LF became CRLF"),
        ("CRLF", "no newline", "no line changed in f: CRLF became LF, the newline at the end was removed"),
        ("no newline", "text", "no line changed in f: a newline was added at the end"),
        (
            "text",
            "Latin-1",
            "1 line changed in f (+1 -1), first at line 2; UTF-8 became Latin-1 (not valid UTF-8)",
        ),
        ("text", "binary", "f is something else now: binary, 16 bytes, beginning with 00 01 00 01"),
        ("text", "directory", "f is something else now: directory, 2 entries"),
        ("binary", "text", "f is something else now: 2 lines of text"),
        ("binary", "empty text", "f is something else now: an empty text"),
        ("directory", "other directory", "entries of f: 1 new (c/), 1 gone (b/)"),
        ("directory", "empty directory", "entries of f: 2 gone (a.py, b/)"),
        ("text", "missing", "f was deleted"),
        ("text", "pipe", "f cannot be read: a named pipe; Refresh() tries again"),
        ("directory", "directory unread", "f cannot be listed: Permission denied"),
        ("pipe", "text", "f can be read now: 2 lines of text"),
        ("pipe", "directory", "f can be read now: directory, 2 entries"),
        ("missing", "text", "f is there now: 2 lines"),
        ("missing", "empty text", "f is there now: empty"),
        ("missing", "pipe", "f cannot be read: a named pipe; Refresh() tries again"),
    ],
)
def test_each_change_has_its_sentence(before: str, after: str, sentence: str) -> None:
    assert _said(STATES[before], STATES[after]) == sentence


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(STATES, STATES) if pair[0] != pair[1]])
def test_a_sentence_names_the_document_once_and_says_something_of_it(before: str, after: str) -> None:
    words = _said(STATES[before], STATES[after]).replace(":", "").replace(";", "").split()
    assert words.count("f") == 1
    assert len(words) > 2
    assert "0" not in words


def test_of_many_names_the_first_are_said_and_the_others_counted() -> None:
    names = [f"n{number}" for number in range(1_200)]
    assert counted((("new", names), ("gone", ())), 2) == "1,200 new (n0, n1 and 1,198 more)"
    assert counted((("new", ()),)) == ""
