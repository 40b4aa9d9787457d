"""Whether and for how long a client is asked for a file, and what its answers come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from acp_adapter.documents import Documents
from acp_adapter.editor_files import READ, READ_SECONDS, WRITE, EditorFiles
from acp_adapter.requests import DocumentChange, Position
from acp_adapter.rpc.errors import ConnectionClosedError, InvalidResultError, RemoteError
from acp_adapter.wire.negotiation import codec_for
from engine import Redactor
from engine.log.redaction import NO_SECRETS

pytestmark = pytest.mark.anyio
R = TypeVar("R")
PATH, URI = "/work/a.py", "file:///work/a.py"


class Answering:
    """A client that gives what the test says, or raises it."""

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

    return EditorFiles("s", documents, peer, codec_for(1), spelled, redactor=redactor, reads=reads, writes=True)


async def test_a_path_with_a_secret_that_names_no_file_is_not_sent(tmp_path: Path) -> None:
    peer = Answering({"content": "x"})
    files = files_of(peer, Documents(), redactor=Redactor(["s3cret-value"]))
    path = tmp_path / "s3cret-value.txt"
    assert await files.read(str(path)) is None
    assert peer.asked == []
    path.touch()
    assert await files.read(str(path)) == "x"


async def test_a_path_is_asked_for_as_the_client_spells_it_and_moves_as_it_was_asked_for() -> None:
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


async def test_each_prompt_is_a_moment_for_a_client_that_does_not_say_what_it_opens() -> None:
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


async def test_one_that_has_not_answered_in_time_is_not_asked_again_before_the_next_prompt() -> None:
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
async def test_a_failure_is_a_file_that_the_client_says_nothing_of(failure: Exception, asked: int) -> None:
    peer = Answering(failure, failure)
    files = files_of(peer, Documents())
    assert [await files.read(PATH) for _ in range(2)] == [None, None]
    assert len(peer.asked) == asked


async def test_a_text_that_was_missed_is_asked_for_once() -> None:
    peer, documents = Answering({"content": "two"}), Documents()
    files = files_of(peer, documents)
    documents.did_open(URI, 1, "one")
    documents.did_focus(URI, 2)
    assert [await files.read(PATH) for _ in range(2)] == ["two", "two"]
    assert len(peer.asked) == 1
    assert await files.read("/work/other.py") is None


async def test_a_client_that_offers_nothing_offers_something_once_it_says_what_it_opens() -> None:
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


async def test_a_document_is_known_by_the_path_by_which_it_was_opened() -> None:
    documents, peer = Documents(), Answering({})
    files = files_of(peer, documents)
    documents.did_open("file:///real/a.py", 1, "one")
    assert await files.read("/real/a.py") == "one"
    await files.write("/real/a.py", "two")
    assert peer.asked == [(WRITE, {"sessionId": "s", "path": "/real/a.py", "content": "two"})]
    assert await files.read("/real/a.py") == "two"


async def test_what_was_written_is_what_the_client_holds() -> None:
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
async def test_a_write_that_failed_is_an_os_error_and_the_file_is_looked_at_again(failure: Exception) -> None:
    documents = Documents()
    files = files_of(Answering(failure, {"content": "one"}), documents)
    files.take_moved()
    with pytest.raises(OSError, match="the editor"):
        await files.write(PATH, "two")
    assert await files.read(PATH) == "one"
