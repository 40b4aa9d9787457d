"""What a client says of its documents: changes are applied as they are told, and what cannot be is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_adapter.documents import LARGEST, Documents, path_of
from acp_adapter.requests import DocumentChange, Position

URI = "file:///work/a.py"
PATH = "/work/a.py"


def opened(text: str, version: int = 1) -> tuple[Documents, list[str]]:
    documents, moved = Documents(), list[str]()
    documents.follow(moved.append)
    documents.did_open(URI, version, text)
    moved.clear()
    return documents, moved


def text_of(documents: Documents) -> str | None:
    document = documents.find(PATH)
    assert document is not None
    return document.text


def edit(start: tuple[int, int], end: tuple[int, int], text: str) -> DocumentChange:
    return DocumentChange(text, Position(*start), Position(*end))


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("one\ntwo\n", edit((1, 0), (1, 3), "2"), "one\n2\n"),
        ("one\r\ntwo\r\n", edit((1, 0), (1, 3), "2"), "one\r\n2\r\n"),
        ("one\rtwo\r", edit((1, 3), (2, 0), ""), "one\rtwo"),
        ("one\n", edit((1, 0), (1, 0), "two"), "one\ntwo"),
        ("one\n", edit((0, 99), (0, 99), "!"), "one!\n"),
        ("\U0001f600x\n", edit((0, 2), (0, 3), "y"), "\U0001f600y\n"),
        ("\u00e4x\n", edit((0, 1), (0, 2), "y"), "\u00e4y\n"),
        ("", edit((0, 0), (0, 0), "x"), "x"),
        ("one\n", DocumentChange("all"), "all"),
    ],
)
def test_a_change_is_applied_in_utf_16_units(before: str, change: DocumentChange, after: str) -> None:
    documents, moved = opened(before)
    documents.did_change(URI, 2, [change])
    assert text_of(documents) == after
    assert moved == [PATH]


@given(
    st.text(alphabet="a\u00e4\U0001f600\n", max_size=30), st.integers(0, 30), st.integers(0, 30), st.text(max_size=5)
)
def test_any_range_is_replaced_as_its_offsets_say(text: str, start: int, length: int, new: str) -> None:
    start = min(start, len(text))
    end = min(start + length, len(text))
    documents, _ = opened(text)
    documents.did_change(URI, 2, [edit(position(text, start), position(text, end), new)])
    assert text_of(documents) == text[:start] + new + text[end:]


def position(text: str, offset: int) -> tuple[int, int]:
    line = text.count("\n", 0, offset)
    column = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line, len(column.encode("utf-16-le")) // 2


def test_changes_follow_each_other_and_the_last_whole_text_counts() -> None:
    documents, _ = opened("one")
    documents.did_change(URI, 2, [edit((9, 0), (9, 0), "?"), DocumentChange("two"), edit((0, 0), (0, 1), "T")])
    assert text_of(documents) == "Two"


@pytest.mark.parametrize(
    ("version", "change"),
    [
        (2, edit((5, 0), (5, 0), "x")),
        (2, edit((0, 2), (0, 1), "x")),
        (1, edit((0, 0), (0, 0), "x")),
        (-7, edit((0, 0), (0, 0), "x")),
    ],
)
def test_a_change_that_cannot_be_right_leaves_the_text_unknown(version: int, change: DocumentChange) -> None:
    documents, moved = opened("one")
    documents.did_change(URI, version, [change])
    assert text_of(documents) is None
    assert moved == [PATH]
    documents.did_change(URI, version, [DocumentChange("whole")])
    assert text_of(documents) == "whole", "a whole text is believed, whatever its version"


def test_a_change_of_what_was_never_opened_is_one_that_has_to_be_asked_for() -> None:
    documents = Documents()
    documents.did_change(URI, 3, [edit((0, 0), (0, 0), "x")])
    assert text_of(documents) is None
    assert documents.announces


def test_a_focus_tells_whether_a_change_was_missed() -> None:
    documents, moved = opened("one")
    documents.did_focus(URI, 1)
    assert (text_of(documents), moved) == ("one", [])
    documents.did_focus(URI, 2)
    assert (text_of(documents), moved) == (None, [PATH])


def test_what_is_learned_counts_unless_a_change_came_meanwhile() -> None:
    documents, _ = opened("one")
    documents.did_focus(URI, 2)
    document = documents.find(PATH)
    assert document is not None
    changes = document.changes
    documents.did_change(URI, 3, [edit((0, 0), (0, 0), "x")])
    documents.learn(PATH, document, changes, "late")
    assert text_of(documents) is None
    documents.learn(PATH, document, document.changes, "two")
    assert text_of(documents) == "two"


def test_what_is_closed_is_nobodys_and_may_be_closed_twice() -> None:
    documents, moved = opened("one")
    documents.did_close(URI)
    documents.did_close(URI)
    documents.did_save(URI)
    assert documents.find(PATH) is None
    assert moved == [PATH]


def test_texts_are_kept_up_to_a_bound() -> None:
    documents, _ = opened("x" * (LARGEST + 1))
    assert text_of(documents) is None
    for number in range(6):
        documents.did_open(f"file:///work/{number}", 1, "x" * LARGEST)
    kept = [documents.find(f"/work/{number}") for number in range(6)]
    assert [document is not None and document.text is not None for document in kept] == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("/a", "/a"),
        ("file://host/a", None),
        ("https://x/a", None),
        ("a.py", None),
        ("file:///a%00b", None),
        ("file://[", None),
        ("untitled:Untitled-1", None),
    ],
)
def test_a_uri_names_a_file_of_this_machine_or_none(uri: str, path: str | None) -> None:
    assert path_of(uri) == path
    documents = Documents()
    documents.did_open(uri, 1, "x")
    documents.did_change(uri, 2, [DocumentChange("y")])
    documents.did_save(uri)
    documents.did_focus(uri, 3)
    documents.did_close(uri)
