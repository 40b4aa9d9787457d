"""Open documents, and when a client is asked for the text of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_adapter.editor_files import LARGEST, READ, READ_SECONDS, WRITE, Documents, EditorFiles, path_of
from acp_adapter.jsonrpc.messages import ConnectionClosedError, InvalidResultError, RemoteError
from acp_adapter.requests import DocumentChange, Position
from engine.log.redaction import NO_SECRETS, Redactor

URI = "file:///work/a.py"
PATH = "/work/a.py"


def opened(text: str, version: int = 1) -> tuple[Documents, list[str]]:
    documents, moved = Documents(), list[str]()
    documents.subscribe(moved.append)
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
    st.text(alphabet="a\u00e4\U0001f600\n", max_size=30),
    st.integers(0, 30),
    st.integers(0, 30),
    st.text(alphabet="b\u00e4\U0001f600\n", max_size=5),
)
def test_any_range_is_replaced(text: str, start: int, length: int, new: str) -> None:
    start = min(start, len(text))
    end = min(start + length, len(text))
    documents, _ = opened(text)
    documents.did_change(URI, 2, [edit(position(text, start), position(text, end), new)])
    assert text_of(documents) == text[:start] + new + text[end:]


def position(text: str, offset: int) -> tuple[int, int]:
    line = text.count("\n", 0, offset)
    column = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line, len(column.encode("utf-16-le")) // 2


def test_changes_apply_in_order_from_the_last_whole_text() -> None:
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
def test_invalid_change_makes_the_text_unknown(version: int, change: DocumentChange) -> None:
    documents, moved = opened("one")
    documents.did_change(URI, version, [change])
    assert text_of(documents) is None
    assert moved == [PATH]
    documents.did_change(URI, version, [DocumentChange("whole")])
    assert text_of(documents) == "whole", "a whole text is believed, whatever its version"


def test_change_of_an_unopened_document_is_unknown() -> None:
    documents = Documents()
    documents.did_change(URI, 3, [edit((0, 0), (0, 0), "x")])
    assert text_of(documents) is None
    assert documents.announces


def test_focus_reveals_a_missed_change() -> None:
    documents, moved = opened("one")
    documents.did_focus(URI, 1)
    assert (text_of(documents), moved) == ("one", [])
    documents.did_focus(URI, 2)
    assert (text_of(documents), moved) == (None, [PATH])


def test_requested_text_is_dropped_after_a_change() -> None:
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


def test_documents_may_be_closed_twice() -> None:
    documents, moved = opened("one")
    documents.did_close(URI)
    documents.did_close(URI)
    documents.did_save(URI)
    assert documents.find(PATH) is None
    assert moved == [PATH]


def test_stored_texts_are_bounded() -> None:
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
def test_uri_to_local_path(uri: str, path: str | None) -> None:
    assert path_of(uri) == path
    documents = Documents()
    documents.did_open(uri, 1, "x")
    documents.did_change(uri, 2, [DocumentChange("y")])
    documents.did_save(uri)
    documents.did_focus(uri, 3)
    documents.did_close(uri)


pytestmark = pytest.mark.anyio
R = TypeVar("R")
PATH, URI = "/work/a.py", "file:///work/a.py"


class Answering:
    """A client that returns or raises the prepared answers."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        raise AssertionError(method)

    async def request(
        self, method: str, params: Mapping[str, Any], read: Callable[[object], R], deadline: float | None = None
    ) -> R:
        assert deadline is not None
        self.asked.append((method, params))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return read(answer)

    def close(self) -> None:
        raise AssertionError


def files_of(
    peer: Answering, documents: Documents, *, redactor: Redactor = NO_SECRETS, reads: bool = True
) -> EditorFiles:
    def spelled(path: str) -> str:
        return path.replace("/real/", "/work/")

    return EditorFiles("s", documents, peer, spelled, redactor=redactor, reads=reads, writes=True)


async def test_missing_path_with_a_secret_is_not_sent(tmp_path: Path) -> None:
    peer = Answering({"content": "x"})
    files = files_of(peer, Documents(), redactor=Redactor(["s3cret-value"]))
    path = tmp_path / "s3cret-value.txt"
    assert await files.read(str(path)) is None
    assert peer.asked == []
    path.touch()
    assert await files.read(str(path)) == "x"


async def test_paths_are_sent_in_the_clients_spelling() -> None:
    peer, documents = Answering({"content": "x"}), Documents()
    files = files_of(peer, documents)
    assert files.take_moved() is None, "of a client that nobody has asked yet, anything may have moved"
    assert await files.read("/real/a.py") == "x"
    assert peer.asked == [(READ, {"sessionId": "s", "path": PATH})]
    documents.did_open(URI, 1, "y")
    assert files.take_moved() is None, "from now on it says what it opens"
    assert await files.read("/real/a.py") == "y"
    documents.did_change(URI, 2, [DocumentChange("z")])
    assert files.take_moved() == {PATH, "/real/a.py"}
    assert files.take_moved() == set()
    assert len(peer.asked) == 1
    documents.did_open("file:///link/a.py", 1, "other")
    assert list(files.opened) == [PATH, "/link/a.py"]
    assert files.take_moved() == {"/link/a.py"}, "nobody has asked for it, and it may be a file that was asked for"


async def test_prompt_counts_as_a_change_without_notifications() -> None:
    documents = Documents()
    files = files_of(Answering(), documents)
    files.take_moved()
    assert files.take_moved() == set()
    files.user_acted()
    assert files.take_moved() is None
    documents.did_open(URI, 1, "y")
    files.take_moved()
    files.user_acted()
    assert files.take_moved() == set()


async def test_silent_client_is_not_asked_until_the_next_prompt() -> None:
    peer = Answering(TimeoutError(), {"content": "x"})
    files = files_of(peer, Documents())
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await files.read(PATH)
    files.user_acted()
    assert await files.read(PATH) == "x"
    assert len(peer.asked) == 2
    assert READ_SECONDS < 5


@pytest.mark.parametrize(
    ("failure", "asked"),
    [
        (RemoteError(READ, -32601, "Method not found"), 1),
        (RemoteError(READ, -32002, "Resource not found"), 2),
        (InvalidResultError(READ, "content: is required"), 2),
        (ConnectionClosedError(READ), 2),
    ],
)
async def test_failed_read_falls_back_to_the_disk(failure: Exception, asked: int) -> None:
    peer = Answering(failure, failure)
    files = files_of(peer, Documents())
    assert [await files.read(PATH) for _ in range(2)] == [None, None]
    assert len(peer.asked) == asked


async def test_unknown_text_is_requested_once() -> None:
    peer, documents = Answering({"content": "two"}), Documents()
    files = files_of(peer, documents)
    documents.did_open(URI, 1, "one")
    documents.did_focus(URI, 2)
    assert [await files.read(PATH) for _ in range(2)] == ["two", "two"]
    assert len(peer.asked) == 1
    assert await files.read("/work/other.py") is None


async def test_notifications_count_as_an_offer() -> None:
    documents = Documents()
    files = files_of(Answering(), documents, reads=False)
    assert not files.offers
    documents.did_open(URI, 1, "one")
    assert files.offers
    documents.did_focus(URI, 2)
    with pytest.raises(LookupError):
        await files.read(PATH)
    documents.did_save(URI)
    assert await files.read(PATH) is None, "so the file has it"
    documents.did_change(URI, 9, [DocumentChange("", Position(9, 0), Position(9, 0))])
    with pytest.raises(LookupError):
        await files.read(PATH)


async def test_document_is_found_by_its_opened_path() -> None:
    documents, peer = Documents(), Answering({})
    files = files_of(peer, documents)
    documents.did_open("file:///real/a.py", 1, "one")
    assert await files.read("/real/a.py") == "one"
    await files.write("/real/a.py", "two")
    assert peer.asked == [(WRITE, {"sessionId": "s", "path": "/real/a.py", "content": "two"})]
    assert await files.read("/real/a.py") == "two"


async def test_written_text_is_the_clients_text() -> None:
    peer, documents = Answering({}, None), Documents()
    files, other = files_of(peer, documents), files_of(Answering(), documents)
    documents.did_open(URI, 1, "one")
    await files.read(PATH)
    await other.read("/real/a.py")
    files.take_moved(), other.take_moved()
    await files.write(PATH, "two")
    assert peer.asked == [(WRITE, {"sessionId": "s", "path": PATH, "content": "two"})]
    assert (files.take_moved(), other.take_moved()) == ({PATH}, {PATH, "/real/a.py"})
    assert await other.read("/real/a.py") == "two"
    await files.write(PATH, "three")  # answered with null, which some clients do


@pytest.mark.parametrize(
    "failure",
    [RemoteError(WRITE, -32603, "No"), ConnectionClosedError(WRITE), TimeoutError(), InvalidResultError("", "")],
)
async def test_failed_write_raises_os_error(failure: Exception) -> None:
    documents = Documents()
    files = files_of(Answering(failure, {"content": "one"}), documents)
    files.take_moved()
    with pytest.raises(OSError, match="the editor"):
        await files.write(PATH, "two")
    assert await files.read(PATH) == "one"
