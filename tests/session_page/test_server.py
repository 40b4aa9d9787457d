"""A served page: lists, documents, contents, live changes, actions and their refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine import Session
from engine.context.model import TextDelta
from engine.core.clock import SystemClock
from engine.core.errors import SessionInUseError
from engine.core.execution import TextChange
from engine.core.ids import Seq, SessionId, ToolCallId
from engine.log.forms import Form
from engine.log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionQuestion,
    ServerCallSubject,
    SiteSubject,
    StatementSubject,
)
from engine.log.redaction import NO_SECRETS, Redactor
from engine.log.store import DATABASE
from engine.log.store.memory import MemoryStore
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import Owner
from engine.session.session_json import SessionDocument, encoded, session_json
from session_page import server
from session_page.actions import NOT_ANSWERABLE, OTHER_BRANCH
from session_page.feed import DELETED, LEFT, STOPPED
from session_page.questions import NO_REMEMBERING, OVER, Questions
from session_page.server import PageServer, listen
from session_page.whole import WholeDocument
from tests.support.models import AnsweringModel, runs
from tests.support.page_server import Client, Message, served, session_of, until
from tests.support.rich_log import events_of, rich_items
from tests.support.stores import kept_log


def shows(text: str) -> Any:
    return lambda message: text in json.dumps(message, ensure_ascii=False)


async def refused(client: Client, session: str, action: str, **fields: object) -> str:
    response = await client.act(session, action, **fields)
    assert response.status_code == 409, response.text
    return response.json()["error"]


# --- reading ----------------------------------------------------------------------------------------------------------


async def test_document_is_what_the_command_prints(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1 + 1", "print('x' * 5000)")
        shown = await client.document(session)
        store = client.server._store
        expected = json.loads(session_json(session, store.load(session), store.blob_get, NO_SECRETS))
        contents = expected.pop("contents")
        assert shown == expected
        assert contents
        for digest, content in contents.items():
            assert await client.json(f"/api/sessions/{session}/contents/{digest}") == content


async def test_list_has_the_sessions(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        first, second = [await session_of(host, tmp_path, source) for source in ("1", "2")]
        rows = (await client.json("/api/sessions"))["sessions"]
        assert {row["session_id"] for row in rows} == {first, second}
        assert {(row["cwd"], row["is_held"]) for row in rows} == {(str(tmp_path), False)}


async def test_looking_opens_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        before = client.server._store.row(session).events
        shown = await client.json(f"/api/sessions/{session}")
        assert (shown["state"]["is_here"], shown["state"]["acts"]) == (False, True)
        assert client.server._store.row(session).events == before


async def test_whole_document_grows_with_its_session() -> None:
    store = MemoryStore(SystemClock())
    name = SessionId("ses_a")
    kept_log(store, name, "/work", events_of(rich_items()))
    document = SessionDocument(name, lambda _: None)
    whole = WholeDocument(document)
    assert json.loads(whole.encode()) == json.loads(encoded(document.document()))
    for number, event in enumerate(store.load(name)):
        document.apply(event)
        if number % 3 == 0:
            assert json.loads(whole.encode()) == json.loads(encoded(document.document()))
    assert json.loads(whole.encode()) == json.loads(encoded(document.document()))


async def _read_by(server: PageServer, session: SessionId) -> None:
    with anyio.fail_after(20):
        while session not in server._feeds or not server._feeds[session]._document.position:  # noqa: ASYNC110
            await anyio.sleep(0.01)  # nothing announces it


async def test_session_is_read_before_a_browser_asks(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        first, second = [await session_of(host, tmp_path, source) for source in ("1", "2")]
        # Of a server that runs, and of one that starts.
        client.server.prepare(first)
        client.server.prepare(SessionId("ses_none"))  # nobody is there to be told
        await _read_by(client.server, first)
        other = PageServer(host, client.server._store, NO_SECRETS, listen())
        other.prepare(second)
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.serve, stop)
            await _read_by(other, second)
            stop.set()
        assert (await client.document(first))["statements"]


async def test_comparison_and_search(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "a = 1", "a = 2", "print('Needle ' + 'x' * 2000 + ' needle2')")
        await client.done(session, "rewind", branch="main", statement=1)
        compared = await client.json(f"/api/sessions/{session}/compare?left=main&right=b1")
        assert (compared["shared"], len(compared["left_statements"]), compared["right_statements"]) == (1, 2, [])
        assert {"name": "a", "left": "2", "right": "1"} in compared["names"]
        found = (await client.json(f"/api/sessions/{session}/search?q=NEEDLE2"))["found"]
        assert {hit["table"] for hit in found} == {"statements", "executions", "conversation"}
        for hit in found:
            assert hit["excerpt"][hit["at"] :].casefold().startswith("needle2")


# --- the live stream --------------------------------------------------------------------------------------------------


async def test_live_changes_follow_a_statement(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        document = await client.document(session)
        await client.done(session, "open")
        async with client.live(session, document["session"]["events"]) as messages:
            await client.done(session, "prompt", branch="main", text="print('hello'); 2")
            found = await until(messages, shows('"value": {"text": "2"}'))
        assert found[0]["type"] == "changes"
        assert any(each["type"] == "state" and each["state"]["is_here"] for each in found)
        assert "".join(each["text"] for each in found if each["type"] == "output") in ("", "hello", "hello\n")


async def test_changes_bring_any_earlier_document_up_to_date(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    name = SessionId("ses_a")
    kept_log(store, name, "/work", events_of(rich_items()))
    log = store.load(name)
    async with served(tmp_path, store) as (client, _):
        expected = await client.document(name)
        for after in (0, 1, len(log) // 2, len(log) - 1, len(log), len(log) + 5):
            seen = json.loads(session_json(name, log[:after], store.blob_get, NO_SECRETS))
            async with client.live(name, after) as messages:
                message = await anext(messages)
            assert message["position"] == len(log)
            for table, entries in message["changes"].items():
                if table == "session":
                    seen["session"] = entries
                    continue
                known = {entry["key"]: entry for entry in seen[table]}
                seen[table] = list((known | {entry["key"]: entry for entry in entries}).values())
            del seen["contents"]
            if after <= len(log):
                assert seen == expected


async def test_session_of_another_process_is_shown_and_cannot_act(tmp_path: Path) -> None:
    path = tmp_path / "state" / DATABASE
    other, mine = SqliteStore(path, SystemClock()), SqliteStore(path, SystemClock())
    try:
        async with served(tmp_path / "other", other) as (_, host):
            session = await host.sessions.create(str(tmp_path))
            name = session.session_id
            await session.cell("1")
            async with served(tmp_path / "state", mine) as (client, _):
                events = (await client.document(name))["session"]["events"]
                async with client.live(name, events) as messages:
                    await session.cell("'from elsewhere'")
                    await until(messages, shows("'from elsewhere'"))
                sentence = await refused(client, name, "open")
                assert sentence.casefold().startswith(f"session {name} is in use by")
                assert sentence.casefold() == str(SessionInUseError(name, None)).casefold().replace(
                    "another process", sentence.split(" by ")[1].split(";")[0]
                )
    finally:
        mine.close()
        other.close()


@pytest.mark.parametrize("where", ["", "far.example"])
async def test_holder_is_named_before_an_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    store = MemoryStore(SystemClock())
    async with served(tmp_path, store) as (client, host):
        session = await session_of(host, tmp_path, "1")
        monkeypatch.setattr(store, "owners", lambda: {session: Owner(os.getpid() if where else 1, where)})
        async with client.live(session, 0) as messages:
            found = await until(messages, lambda each: each["type"] == "state" and not each["state"]["acts"])
        holder = SessionInUseError(session, os.getpid(), host=where) if where else SessionInUseError(session, 1)
        assert found[-1]["state"]["why_not"] == str(holder)
        assert (await client.json("/api/sessions"))["sessions"][0]["is_held"]


async def test_deleted_session_ends_its_pages(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        async with client.live(session, 0) as messages:
            await anext(messages)
            await host.sessions.delete(session)
            found = await until(messages, lambda each: each["type"] == "end")
        assert found[-1] == {"type": "end", "text": DELETED, "again": False}
        assert (await client.get(f"/api/sessions/{session}")).status_code == 404


async def test_server_ends_with_a_sentence(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        async with client.live(session, 0) as messages:
            await anext(messages)
            client.server._feeds[session].stop()
            found = await until(messages, lambda each: each["type"] == "end")
        assert found[-1]["text"] == STOPPED


async def test_session_that_nobody_looks_at_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 1.0)
    monkeypatch.setattr(server, "TIDY_SECONDS", 0.05)
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        async with client.live(session, 0) as messages:
            await client.done(session, "open")
            await until(messages, lambda each: each["type"] == "state" and each["state"]["is_here"])
            feed = client.server._feeds[session]
            await anyio.sleep(1.3)
            assert session in client.server._feeds  # it is looked at
        with anyio.fail_after(20):
            while client.server._feeds:  # noqa: ASYNC110 -- nothing announces it
                await anyio.sleep(0.02)
        assert feed.end == LEFT
        assert (await host.sessions.status(session)) == "saved"
        await client.document(session)


# --- actions ----------------------------------------------------------------------------------------------------------


async def test_rewind_lists_the_files_before(tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.mkdir()
    async with served(tmp_path) as (client, host):
        session = await session_of(host, place, "1", "write('a.txt', 'one')", "write('b.txt', 'two')")
        preview = await client.done(session, "preview", branch="main", statement=1)
        assert [file["name"] for file in preview["files"]] == ["a.txt", "b.txt"]
        assert sorted(path.name for path in place.glob("*.txt")) == ["a.txt", "b.txt"]
        gone = await client.done(session, "rewind", branch="main", statement=1)
        assert ([file["name"] for file in gone["restored"]], gone["branch"]) == (["a.txt", "b.txt"], "b1")
        assert not list(place.glob("*.txt"))
        back = await client.done(session, "switch", branch="b1", to="main")
        assert ([file["name"] for file in back["restored"]], back["branch"]) == (["a.txt", "b.txt"], "main")
        assert (place / "b.txt").read_text() == "two"


async def test_edit_runs_on_and_shows_the_divergence(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "price = 20", "price * 3")
        edited = await client.done(session, "edit", branch="main", statement=1, source="price = 50")
        assert (edited["outcome"], edited["branch"]) == ("completed", "b1")
        document = await client.document(session)
        values = [run["value"]["text"] for run in document["executions"] if "value" in run]
        assert values == ["60", "150"]
        assert any(run.get("divergences") for run in document["executions"])
        replayed = await client.done(session, "replay", branch="b1", first=1, mode="dry")
        assert replayed["outcome"] == "completed"


async def test_action_on_a_branch_that_is_not_active_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1", "2")
        await client.done(session, "rewind", branch="main", statement=1)
        for action, fields in (
            ("rewind", {"statement": 0}),
            ("preview", {"statement": 0}),
            ("edit", {"statement": 1, "source": "3"}),
            ("replay", {"first": 1}),
            ("prompt", {"text": "3"}),
            ("switch", {"to": "main"}),
        ):
            sentence = await refused(client, session, action, branch="main", **fields)
            assert sentence == OTHER_BRANCH.format(active="b1", given="main")


async def test_cancel_ends_what_runs(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        assert await refused(client, session, "cancel") == NOT_ANSWERABLE
        await client.done(session, "open")
        async with client.live(session, 0) as messages:
            await client.done(session, "prompt", branch="main", text="import time\nwhile True: time.sleep(0.01)")
            await until(messages, lambda each: shows('"running"')(each) and each["type"] == "changes")
            await client.done(session, "cancel")
            await until(messages, shows('"cancelled"'))


async def test_session_of_another_reader_goes_on_while_an_action_runs(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        async with client.live(session, 0) as messages:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.done, session, "open")
            found = await until(messages, lambda each: each.get("state", {}).get("is_here", False))
        assert found


# --- questions --------------------------------------------------------------------------------------------------------


async def asking(client: Client, session: Session, messages: Any) -> Message:
    """The question that waits next."""
    found = await until(messages, lambda each: bool(each.get("state", {}).get("questions")))
    (question,) = found[-1]["state"]["questions"]
    assert client.server._feeds[session.session_id].questions.shown == [question]
    return question


@pytest.mark.parametrize(("outcome", "text"), [("allowed", "new"), ("rejected", "old")])
async def test_question_is_answered_with_its_diff(tmp_path: Path, outcome: str, text: str) -> None:
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.txt").write_text("old")
    model = AnsweringModel(runs("write('a.txt', 'new')", typed=False))
    async with served(tmp_path, model=model) as (client, host):
        name = await session_of(host, place)
        await client.done(name, "open")
        session = host.sessions.find(name)
        session.set_option("ask_about", "acts")
        async with client.live(name, 0) as messages:
            await client.done(name, "prompt", branch="main", text="go")
            question = await asking(client, session, messages)
            assert (question["type"], question["paths"]) == ("file", [str(place / "a.txt")])
            assert [(each["old"]["text"], each["new"]["text"]) for each in question["regions"]] == [("old", "new")]
            assert await refused(client, name, "answer", question=question["id"], outcome="perhaps")
            assert (
                await refused(client, name, "answer", question=question["id"], outcome="rejected", rest=True)
                == NO_REMEMBERING
            )
            await client.done(name, "answer", question=question["id"], outcome=outcome, reason="not now")
            assert await refused(client, name, "answer", question=question["id"], outcome="allowed") == OVER
            await session.idle()
        assert (place / "a.txt").read_text() == text


async def test_form_is_filled_in_with_values_that_fit(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        name = await session_of(host, tmp_path)
        await client.done(name, "open")
        session = host.sessions.find(name)
        async with client.live(name, 0) as messages:
            await client.done(name, "prompt", branch="main", text="answer = ask('Which?', ['red', 'blue'])\nanswer")
            question = await asking(client, session, messages)
            assert question["type"] == "form"
            (field,) = question["fields"]
            assert [choice["value"] for choice in field["choices"]] == ["red", "blue"]
            wrong = await refused(
                client, name, "fill", question=question["id"], outcome="accepted", values={"no such": "red"}
            )
            assert "no such" in wrong
            await client.done(name, "fill", question=question["id"], outcome="accepted", values={field["name"]: "blue"})
            await until(messages, shows("'blue'"))


async def test_question_has_no_secret() -> None:
    questions = Questions(Redactor(["geheimes-passwort"]), lambda: None)
    secret = "# geheimes-passwort"
    subjects = (
        StatementSubject(secret, secret),
        FileSubject(path=secret, note=secret, changes=(TextChange(line=1, old=secret, new=secret),)),
        CommandSubject(command=secret, cwd=secret),
        ServerCallSubject(server=secret, tool=secret, arguments=secret),
        SiteSubject(url=secret, site=secret),
    )
    async with anyio.create_task_group() as tasks:
        for number, subject in enumerate(subjects):
            question = PermissionQuestion(tool_call_id=ToolCallId(f"c{number}"), subject=subject, seq=Seq(0))
            tasks.start_soon(questions.ask, question)
        tasks.start_soon(questions.fill, Form(tool_call_id=ToolCallId("f"), message=secret, seq=Seq(0)))
        await anyio.wait_all_tasks_blocked()
        assert len(questions.shown) == len(subjects) + 1
        assert "passwort" not in json.dumps(questions.shown)
        tasks.cancel_scope.cancel()
    assert questions.shown == []


async def test_question_ends_with_its_turn(tmp_path: Path) -> None:
    model = AnsweringModel(runs("write('a.txt', 'new')", typed=False))
    async with served(tmp_path, model=model) as (client, host):
        name = await session_of(host, tmp_path)
        await client.done(name, "open")
        session = host.sessions.find(name)
        async with client.live(name, 0) as messages:
            await client.done(name, "prompt", branch="main", text="go")
            question = await asking(client, session, messages)
            await client.done(name, "cancel")
            await until(messages, lambda each: each["type"] == "state" and not each["state"]["questions"])
        assert await refused(client, name, "answer", question=question["id"], outcome="allowed") == OVER


async def test_reply_is_streamed(tmp_path: Path) -> None:
    model = AnsweringModel(lambda _: [TextDelta("Good "), TextDelta("morning.")])
    async with served(tmp_path, model=model) as (client, host):
        name = await session_of(host, tmp_path)
        await client.done(name, "open")
        async with client.live(name, 0) as messages:
            await until(messages, lambda each: each.get("state", {}).get("is_here", False))
            await client.done(name, "prompt", branch="main", text="hello")
            found = await until(messages, lambda each: each["type"] == "changes" and shows("Good morning.")(each))
        assert "".join(each["text"] for each in found if each["type"] == "text") in ("", "Good morning.")
