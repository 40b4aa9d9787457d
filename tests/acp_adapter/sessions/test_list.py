"""`session/list`: pages, cursors, and changes between two pages."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from engine.core.ids import SessionId
from engine.core.text import TITLE_CHARS
from engine.log.store.memory import MemoryStore
from tests.support.gates import Gate
from tests.support.memory import Client

pytestmark = pytest.mark.anyio


async def named(agent: Client, store: MemoryStore, cwd: Path) -> str:
    """A new session with a title, as after its first prompt."""
    session = await agent.new_session(cwd)
    store.retitle(SessionId(session), "named")
    return session


async def test_sessions_are_listed_in_pages_newest_first(agent: Client, store: MemoryStore, tmp_path: Path) -> None:
    await agent.initialize()
    assert await agent.call("session/list", {}) == {"sessions": []}
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    made = [await named(agent, store, there if number % 10 == 0 else here) for number in range(53)]
    first = await agent.call("session/list", {})
    second = await agent.call("session/list", {"cursor": first["nextCursor"]})
    assert [row["sessionId"] for row in first["sessions"] + second["sessions"]] == made[::-1]
    assert (len(first["sessions"]), "nextCursor" in second) == (50, False)
    times = [row["updatedAt"] for row in first["sessions"] + second["sessions"]]
    assert times == sorted(times, reverse=True)
    only = await agent.call("session/list", {"cwd": str(there)})
    assert [row["sessionId"] for row in only["sessions"]] == made[::10][::-1]
    assert {row["cwd"] for row in only["sessions"]} == {str(there)}
    assert await agent.call("session/list", {"cwd": str(tmp_path)}) == {"sessions": []}
    await agent.prompt(made[0], "1")
    assert (await agent.call("session/list", {}))["sessions"][0]["sessionId"] == made[0]


async def test_changes_between_pages_hide_nothing(agent: Client, store: MemoryStore, tmp_path: Path) -> None:
    await agent.initialize()
    made = [await named(agent, store, tmp_path) for _ in range(53)]
    first = await agent.call("session/list", {"cwd": str(tmp_path)})
    shown = [row["sessionId"] for row in first["sessions"]]
    for gone in (shown[-1], shown[0], made[0]):
        await agent.call("session/delete", {"sessionId": gone})
    await named(agent, store, tmp_path)
    second = await agent.call("session/list", {"cwd": str(tmp_path), "cursor": first["nextCursor"]})
    assert [row["sessionId"] for row in second["sessions"]] == [made[2], made[1]]


def cursor(value: Any) -> str:
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode()


BAD_CURSORS = (
    "nonsense",
    "",
    "é",
    "A" * 100_000,
    cursor([]),
    cursor({}),
    cursor([1]),
    cursor(["x", "y"]),
    cursor([None, "x"]),
    cursor(b"[1" + b"0" * 400 + b', "x"]'),
    cursor(b"[" * 100_000),
    cursor(b'[NaN, "x"]'),
    cursor(b"\xff\xfe"),
)


async def test_foreign_cursor_is_refused(agent: Client) -> None:
    await agent.initialize()
    for bad in BAD_CURSORS:
        assert (await agent.error("session/list", {"cursor": bad}))["code"] == -32602, bad[:40]


async def test_page_reads_one_session_more(
    agent: Client, tmp_path: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.initialize()
    for _ in range(53):
        await named(agent, store, tmp_path)
    given: list[int] = []
    whole = store.rows

    def counted(**which: Any) -> Any:
        rows = whole(**which)
        given.append(len(rows))
        return rows

    monkeypatch.setattr(store, "rows", counted)
    first = await agent.call("session/list", {})
    await agent.call("session/list", {"cursor": first["nextCursor"]})
    assert given == [51, 3]


async def test_a_title_that_the_client_sets_is_kept(agent: Client, tmp_path: Path) -> None:
    await agent.initialize()
    session = await agent.new_session(tmp_path)
    params = {"sessionId": session, "title": f"  My title {'x' * 200}\nanother line"}
    stored = (await agent.call("session/set_title", params))["title"]
    assert (stored[:8], len(stored)) == ("My title", TITLE_CHARS)
    assert agent.updates("session_info_update")[-1]["title"] == stored
    await agent.prompt(session, "1")  # which names a session that has no title
    assert [row["title"] for row in (await agent.call("session/list", {}))["sessions"]] == [stored]
    await agent.call("session/close", {"sessionId": session})
    assert await agent.call("session/status", {"sessionId": session}) == {"status": "saved"}
    params = {"sessionId": session, "title": "Closed"}
    assert await agent.call("session/set_title", params) == {"title": "Closed"}
    assert [row["title"] for row in (await agent.call("session/list", {}))["sessions"]] == ["Closed"]
    where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    await agent.call("session/load", where)
    assert agent.updates("session_info_update")[-1]["title"] == "Closed"
    assert await agent.call("session/status", {"sessionId": session}) == {"status": "open"}


async def test_an_archived_session_is_closed_and_listed_apart(
    agent: Client, store: MemoryStore, tmp_path: Path, gate: Gate
) -> None:
    await agent.initialize()
    kept = await named(agent, store, tmp_path)
    gone = await named(agent, store, tmp_path)
    running = await agent.begin_prompt(gone, gate.source)
    await gate.reached()
    archiving = await agent.begin("session/archive", {"sessionId": gone})
    assert (await agent.response(running))["result"]["stopReason"] == "cancelled"
    assert (await agent.response(archiving))["result"] == {}
    assert await agent.call("session/archive", {"sessionId": gone}) == {}
    assert await agent.call("session/status", {"sessionId": gone}) == {"status": "saved"}

    async def listed(**which: Any) -> dict[str, bool]:
        found = await agent.call("session/list", {"cwd": str(tmp_path), **which})
        return {row["sessionId"]: row["archived"] for row in found["sessions"]}

    assert await listed() == await listed(archived=None) == await listed(archived="exclude") == {kept: False}
    assert await listed(archived="only") == {gone: True}
    assert await listed(archived="include") == {kept: False, gone: True}
    for unknown in ("", "_others", "all", 7):
        assert (await agent.error("session/list", {"archived": unknown}))["code"] == -32602
    await agent.call("session/load", {"sessionId": gone, "cwd": str(tmp_path), "mcpServers": []})
    assert await listed(archived="only") == {gone: True}
    fork = await agent.call("session/fork", {"sessionId": gone, "cwd": str(tmp_path)})
    await agent.prompt(fork["sessionId"], "1")
    assert await listed() == {kept: False, fork["sessionId"]: False}
    await agent.call("session/unarchive", {"sessionId": gone})
    await agent.call("session/unarchive", {"sessionId": kept})
    await agent.prompt(gone, "1")  # it was not closed
    assert set(await listed()) == {kept, gone, fork["sessionId"]}
    for method in ("session/archive", "session/unarchive"):
        error = await agent.error(method, {"sessionId": "ses_none"})
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "ses_none"})


async def test_titles_that_cannot_be_set_are_refused(agent: Client, tmp_path: Path) -> None:
    await agent.initialize()
    session = await agent.new_session(tmp_path)
    for title in ("", " \n\t", None, 7):
        assert (await agent.error("session/set_title", {"sessionId": session, "title": title}))["code"] == -32602
    for method in ("session/set_title", "session/status"):
        error = await agent.error(method, {"sessionId": "ses_none", "title": "t"})
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "ses_none"})
    assert (await agent.call("session/list", {}))["sessions"] == []
