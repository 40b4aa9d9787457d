"""Unsaved text in the editor: views show it, ticks follow it, tools do not overwrite it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.log.store.memory import MemoryStore
from tests.support.fake_editor import OFFERS, READ, WRITE, FakeEditor
from tests.support.memory import Client, in_memory, logged

pytestmark = pytest.mark.anyio
READS_ONLY = {"readTextFile": True, "writeTextFile": False}
RANGE = {"start": {"line": 9, "character": 0}, "end": {"line": 9, "character": 0}}
"""A position outside every text of these tests: a change there makes the text unknown."""

TWICE = 2
"""An unsaved text is read once more while no process of another session can change what its path leads to."""


@pytest.fixture
def editor() -> FakeEditor:
    return FakeEditor()


@pytest.fixture
async def client(tmp_path: Path, store: MemoryStore, editor: FakeEditor) -> AsyncIterator[Client]:
    async with in_memory(tmp_path, store=store) as made:
        made.editor = editor
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    put(tmp_path / "a.py", "saved = 1\n")
    return tmp_path / "a.py"


def put(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def on_disk(path: Path) -> bytes:
    return path.read_bytes()


async def opened(client: Client, root: Path, **capabilities: Any) -> str:
    await client.initialize(**(capabilities or OFFERS))
    return await client.new_session(root)


async def answer(client: Client, session: str, text: str) -> str:
    """Prompt, and return the agent's text."""
    before = len(client.text())
    assert await client.prompt(session, text) == "end_turn"
    return client.text()[before:]


def adopted(store: MemoryStore, session: str) -> list[bytes]:
    """The contents of the revisions on the log, in order."""
    events = [event for event in logged(store, session) if event["kind"] == "revision_adopted"]
    return [store.blob_get(event["content"]) for event in events]


async def did(client: Client, what: str, path: Path, **params: Any) -> None:
    """Send a notification about a document, with an unknown session id."""
    await client.notify(f"document/did{what}", {"sessionId": "nes-1", "uri": path.as_uri(), **params})


async def did_open(client: Client, path: Path, text: str, version: int = 1) -> None:
    await did(client, "Open", path, languageId="python", version=version, text=text)


# --- a client that can be asked ---------------------------------------------------------------------------------------


async def test_a_view_shows_the_unsaved_text_and_says_so(
    client: Client, store: MemoryStore, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    editor.hold(path, "unsaved = 2\n")
    session = await opened(client, tmp_path)
    text = await answer(client, session, "a = view('a.py')")
    assert "(unsaved: text of the editor; the file on disk differs)\n1\tunsaved = 2\n" in text
    assert editor.asked == [str(path)] * TWICE
    assert adopted(store, session) == [b"unsaved = 2\n"]


async def test_file_that_only_the_editor_has_is_shown(client: Client, editor: FakeEditor, tmp_path: Path) -> None:
    editor.hold(tmp_path / "new.py", "fresh = 1\n")
    session = await opened(client, tmp_path)
    text = await answer(client, session, "a = view('new.py')")
    assert "(unsaved: text of the editor; there is no such file on disk)\n1\tfresh = 1\n" in text


async def test_client_without_file_capability_is_not_asked(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    editor.hold(path, "unsaved = 2\n")
    session = await opened(client, tmp_path, fs={"readTextFile": False, "writeTextFile": True})
    assert "1\tsaved = 1" in await answer(client, session, "a = view('a.py').Run()")
    await answer(client, session, "/tick")
    await answer(client, session, "edit('a.py', 'saved = 1', 'saved = 3')")
    assert on_disk(path) == b"saved = 3\n"
    assert editor.asked == editor.written == []


async def test_prompt_refreshes_running_views_once(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    session = await opened(client, tmp_path)
    await answer(client, session, "a = view('a.py').Run()")
    editor.hold(path, "unsaved = 2\n")
    editor.asked.clear()
    assert "1 line changed in a.py" in await answer(client, session, "/tick")
    assert editor.asked == [str(path)] * TWICE
    assert "unsaved = 2" in await answer(client, session, "tick(); tick(); show(a)")
    assert editor.asked == [str(path)] * 2 * TWICE, "once for the prompt, although it ticked three times"


async def test_rebuild_uses_recorded_unsaved_text(
    client: Client, store: MemoryStore, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    editor.hold(path, "unsaved = 2\n")
    session = await opened(client, tmp_path)
    await answer(client, session, "a = view('a.py')")
    del editor.buffers[str(path)]
    editor.asked.clear()
    await client.call("session/close", {"sessionId": session})
    await client.load(session, tmp_path, "session/resume")
    text = await answer(client, session, "show(a)")
    assert "(unsaved: text of the editor; the file on disk differs)\n1\tunsaved = 2\n" in text
    assert editor.asked == []
    assert "environment_restored" in [event["kind"] for event in logged(store, session)]
    assert not [event for event in logged(store, session) if event.get("divergences")]


# --- a client that answers badly --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-32601, -32002, -32603])
async def test_refused_read_falls_back_to_the_disk(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path, code: int
) -> None:
    editor.refusals[READ] = code
    session = await opened(client, tmp_path)
    assert "1\tsaved = 1" in await answer(client, session, "a = view('a.py')")
    await answer(client, session, "a.Refresh()")
    assert len(editor.asked) == (1 if code == -32601 else 2)


async def test_cancel_ends_a_read_from_the_editor(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    editor.silent = True
    session = await opened(client, tmp_path)
    prompt = await client.begin_prompt(session, "a = view('a.py')")
    asked = await client.until(lambda message: message.get("method") == READ)
    await client.notify("session/cancel", {"sessionId": session})
    assert (await client.response(prompt))["result"] == {"stopReason": "cancelled"}
    await client.answer(asked, {"content": "late = 1\n"})
    editor.silent = False
    assert "1\tsaved = 1" in await answer(client, session, "a = view('a.py')")


async def test_cancel_ends_a_tick_that_waits_for_the_editor(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_adapter.editor_files.READ_SECONDS", 3600.0)
    session = await opened(client, tmp_path)
    await answer(client, session, "a = view('a.py').Run()")
    editor.silent = True
    prompt = await client.begin_prompt(session, "x = 1")
    await client.until(lambda message: message.get("method") == READ)
    await client.notify("session/cancel", {"sessionId": session})
    assert (await client.response(prompt))["result"] == {"stopReason": "cancelled"}
    editor.silent = False
    assert "1\tsaved = 1" in await answer(client, session, "show(a)")
    assert "environment_restored" not in client.text()


# --- a client that sends document notifications -----------------------------------------------------------------------


async def test_views_follow_documents_by_version_without_asking(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    session = await opened(client, tmp_path)
    await did_open(client, path, "saved = 1\n")
    await answer(client, session, "a = view('a.py').Run()")
    change = {"range": {"start": {"line": 0, "character": 8}, "end": {"line": 0, "character": 9}}, "text": "2"}
    await did(client, "Change", path, version=2, contentChanges=[change])
    assert "1 line changed in a.py" in await answer(client, session, "/tick")
    assert "No changes" in await answer(client, session, "/tick")
    assert "1\tsaved = 2" in await answer(client, session, "show(a)")
    assert editor.asked == []


async def test_missed_version_is_requested_once(client: Client, editor: FakeEditor, tmp_path: Path, path: Path) -> None:
    session = await opened(client, tmp_path)
    await did_open(client, path, "saved = 1\n")
    await answer(client, session, "a = view('a.py').Run()")
    editor.hold(path, "unsaved = 3\n")
    position = {"line": 0, "character": 0}
    await did(client, "Focus", path, version=3, position=position, visibleRange={"start": position, "end": position})
    assert "1 line changed in a.py" in await answer(client, session, "/tick")
    assert "No changes" in await answer(client, session, "/tick")
    assert editor.asked == [str(path)]


async def test_client_with_notifications_is_not_asked_for_other_files(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    session = await opened(client, tmp_path)
    await did_open(client, tmp_path / "b.py", "b\n")
    await answer(client, session, "a = view('a.py').Run()")
    await answer(client, session, "a.Refresh()")
    assert editor.asked == []


async def test_documents_work_without_the_read_capability(client: Client, tmp_path: Path, path: Path) -> None:
    session = await opened(client, tmp_path, terminal=False)
    await did_open(client, path, "unsaved = 2\n")
    assert "1\tunsaved = 2" in await answer(client, session, "a = view('a.py').Run()")


async def test_closing_unsaved_discards_the_text(client: Client, tmp_path: Path, path: Path) -> None:
    session = await opened(client, tmp_path)
    await did_open(client, path, "unsaved = 2\n")
    await answer(client, session, "a = view('a.py').Run()")
    await did(client, "Close", path)
    assert "1 line changed in a.py" in await answer(client, session, "/tick")
    assert "1\tsaved = 1" in await answer(client, session, "show(a)")


async def test_dirty_document_wins_over_the_disk(client: Client, tmp_path: Path, path: Path) -> None:
    session = await opened(client, tmp_path)
    await did_open(client, path, "unsaved = 2\n")
    await answer(client, session, "a = view('a.py').Run()")
    put(path, "elsewhere = 3\n")
    assert "No changes" in await answer(client, session, "/tick")
    await did(client, "Save", path)
    put(path, "unsaved = 2\n")
    assert "the editor's text" in await answer(client, session, "/tick")


@pytest.mark.parametrize("links", [("a.py", "link.py"), ("linked/a.py", "link.py"), ("link.py", "linked/a.py")])
async def test_document_opened_through_a_symlink(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path, links: tuple[str, str]
) -> None:
    (tmp_path / "link.py").symlink_to(path)
    (tmp_path / "linked").symlink_to(tmp_path)
    name, opened_as = links[0], tmp_path / links[1]
    session = await opened(client, tmp_path)
    await answer(client, session, f"a = view({name!r}).Run()")
    await did_open(client, opened_as, "unsaved = 2\n")
    assert "1 line changed in " in await answer(client, session, "/tick")
    await did(client, "Change", opened_as, version=2, contentChanges=[{"text": "unsaved = 3\n"}])
    assert "1 line changed in " in await answer(client, session, "/tick")
    assert "1\tunsaved = 3" in await answer(client, session, "show(a)")
    editor.hold(opened_as, "unsaved = 3\n")
    await answer(client, session, f"edit({name!r}, 'unsaved', 'edited')")
    assert editor.written == [(str(opened_as), "edited = 3\n")]
    await did(client, "Close", opened_as)
    put(path, "saved = 1\n")
    assert "1 line changed in " in await answer(client, session, "/tick")


async def test_unknown_unsaved_text_blocks_writes(client: Client, tmp_path: Path, path: Path) -> None:
    (tmp_path / "link.py").symlink_to(path)
    session = await opened(client, tmp_path, terminal=False)
    await did_open(client, tmp_path / "link.py", "one\n")
    await did(client, "Change", tmp_path / "link.py", version=3, contentChanges=[{"range": RANGE, "text": "x"}])
    for statement in ("edit('a.py', 'saved', 'x')", "write('a.py', 'x')", f"open({str(path)!r}, 'w').write('x')"):
        assert "a.py is open in the editor, which did not send its text" in await answer(client, session, statement)
    assert on_disk(path) == b"saved = 1\n"
    await did(client, "Save", tmp_path / "link.py")
    await answer(client, session, "edit('a.py', 'saved', 'x')")
    assert on_disk(path) == b"x = 1\n"


async def test_two_sessions_of_a_client_see_one_buffer(client: Client, tmp_path: Path, path: Path) -> None:
    first = await opened(client, tmp_path)
    second = await client.new_session(tmp_path)
    await did_open(client, path, "unsaved = 2\n")
    for session in (first, second):
        assert "1\tunsaved = 2" in await answer(client, session, "a = view('a.py').Run()")
    await did(client, "Change", path, version=2, contentChanges=[{"text": "unsaved = 3\n"}])
    for session in (first, second):
        assert "1 line changed in a.py" in await answer(client, session, "/tick")


@pytest.mark.parametrize(
    "params",
    [
        {"version": 2},
        {"version": "2", "contentChanges": []},
        {"version": 2, "contentChanges": [{"range": {"start": 1}, "text": "x"}]},
        {"version": 2, "contentChanges": [{"range": None}]},
        {"uri": "https://example.com/a.py", "version": 2, "contentChanges": [{"text": "x"}]},
    ],
)
async def test_malformed_notification_changes_nothing(
    client: Client, tmp_path: Path, path: Path, params: dict[str, Any]
) -> None:
    session = await opened(client, tmp_path)
    await did_open(client, path, "unsaved = 2\n")
    await did(client, "Change", path, **params)
    assert "1\tunsaved = 2" in await answer(client, session, "a = view('a.py')")


# --- tools ------------------------------------------------------------------------------------------------------------


async def test_read_returns_unsaved_text(client: Client, editor: FakeEditor, tmp_path: Path, path: Path) -> None:
    editor.hold(path, "unsaved = 2\n")
    session = await opened(client, tmp_path)
    assert "unsaved = 2" in await answer(client, session, "read('a.py')")


@pytest.mark.parametrize(
    "source", ["edit('a.py', 'unsaved = 2', 'x = 1')", "write('a.py', 'x = 1')", "open({path!r}, 'w').write('x')"]
)
async def test_unsaved_changes_are_not_overwritten(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path, source: str
) -> None:
    editor.hold(path, "unsaved = 2\n")
    session = await opened(client, tmp_path, fs=READS_ONLY)
    await answer(client, session, "a = view('a.py')")
    assert "a.py has unsaved changes in the editor" in await answer(client, session, source.format(path=str(path)))
    assert on_disk(path) == b"saved = 1\n"


async def test_an_edit_of_unsaved_text_goes_through_the_editor(
    client: Client, store: MemoryStore, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    put(path, b"one\r\ntwo\r\n")
    editor.hold(path, "one\n2\n")
    session = await opened(client, tmp_path)
    await answer(client, session, "a = view('a.py').Run()")
    await answer(client, session, "edit('a.py', '2', 'three')")
    assert editor.written == [(str(path), "one\nthree\n")]
    (written,) = [event for event in logged(store, session) if event["kind"] == "file_written"]
    assert store.blob_get(written["before"]) == b"one\r\n2\r\n"
    assert store.blob_get(written["after"]) == b"one\r\nthree\r\n"
    assert "2\tthree" in await answer(client, session, "show(a)")


async def test_failed_editor_write_is_the_reason(
    client: Client, editor: FakeEditor, tmp_path: Path, path: Path
) -> None:
    editor.hold(path, "unsaved = 2\n")
    editor.refusals[WRITE] = -32603
    session = await opened(client, tmp_path)
    await answer(client, session, "a = view('a.py')")
    assert "the editor did not write the file" in await answer(client, session, "edit('a.py', '2', '3')")
    assert on_disk(path) == b"saved = 1\n"
