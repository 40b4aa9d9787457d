"""Sessions of every kind on the served page: forms, pictures, replays, and those that are damaged, empty or deleted."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import anyio
import anyio.to_thread
import pytest

from engine.core.clock import SystemClock
from engine.log.redaction import NO_SECRETS
from engine.log.store import DATABASE
from engine.log.store.sqlite import SqliteStore
from session_page.app import WAS_SLOW, PageApp
from session_page.feed import DELETED
from session_page.file import write_file
from tests.support.agents import Agent
from tests.support.browser import Browser
from tests.support.damage import DAMAGES, VICTIM, damaged, intact
from tests.support.page_server import served, session_of
from tests.support.scripts import scripted
from tests.support.shown_page import ROW, WORDS, addresses, answered, go, ran, seen, shown_page
from tests.support.transcripts import asks_permission

pytestmark = pytest.mark.slow

REWINDOW = str(Path(sys.executable).with_name("rewindow"))
PICTURE = """
import struct, zlib

class Figure:
    def _repr_png_(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        rows = b"".join(b"\\0" + b"\\xff\\x80\\0" * 40 for _ in range(30))
        chunks = ((b"IHDR", struct.pack(">IIBBBBB", 40, 30, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)))
        return b"\\x89PNG\\r\\n\\x1a\\n" + b"".join(chunk(*each) for each in (*chunks, (b"IEND", b"")))

Figure()
"""
DRAWN = "(() => { const one = document.querySelector('#detail img'); return [one.naturalWidth, one.naturalHeight]; })()"
FACTS = """
(() => {
  const copy = document.querySelector("main").cloneNode(true);
  for (const each of copy.querySelectorAll("button, .acts, .file-note")) each.remove();
  return copy.textContent;
})()
"""
OPEN = """
(() => {
  for (const each of document.querySelectorAll("main details")) each.open = true;
  const more = [...document.querySelectorAll("main button.more")];
  for (const each of more.filter((button) => button.textContent !== "Show changed lines only")) each.click();
})()
"""


# --- what a session asks and shows ------------------------------------------------------------------------------------


async def test_form_is_answered_on_the_page(tab: Browser, tmp_path: Path) -> None:
    steps = (("Which one?", "chosen = ask('Which one?', ['old', 'new'])\nchosen"), ("Good.", ""))
    async with shown_page(tab, tmp_path, "1", steps=steps):
        await tab.fill("#prompt", "Ask me.")
        await tab.press("Enter")
        await tab.wait("#question input[type=radio]")
        await seen(tab, "form")
        assert "Which one?" in await tab.text("#question")
        assert [each.strip() for each in await tab.texts("#question label.check")] == ["old", "new"]
        await tab.click("#question label:has-text('new')")
        await tab.click("#question button.primary")
        await tab.wait("#question", "detached")
        await tab.click(f"{ROW}:has-text('chosen') >> nth=-1")
        await tab.wait("#detail pre[aria-label=Value]:has-text(\"'new'\")")


async def test_form_is_declined_on_the_page(tab: Browser, tmp_path: Path) -> None:
    steps = (("Which one?", "chosen = ask('Which one?', ['old', 'new'])\nrepr(chosen)"), ("Good.", ""))
    async with shown_page(tab, tmp_path, "1", steps=steps) as (client, session):
        await tab.fill("#prompt", "Ask me.")
        await tab.press("Enter")
        await tab.wait("#question")
        await tab.click("#question button:has-text('Decline')")
        await tab.wait("#question", "detached")
        await ran(client, session, 2)
        assert "new" not in str((await client.document(session))["executions"][-1].get("value", ""))


async def test_picture_is_drawn_on_the_page_and_in_the_file(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, PICTURE) as (client, session):
        await tab.click(ROW)
        await tab.wait("#detail img")
        assert await tab.evaluate(DRAWN) == [40, 30]
        await seen(tab, "picture")
        store = client.server._store
        written = tmp_path / "page.html"
        write_file(str(written), session, store.load(session), store.blob_get, NO_SECRETS, 1.0)
        await tab.open(written.as_uri())
        await tab.click(ROW)
        await tab.wait("#detail img")
        assert await tab.evaluate(DRAWN) == [40, 30]


async def test_replay_reports_what_differs(tab: Browser, tmp_path: Path) -> None:
    sources = ("import time", "time.time_ns()", "40 + 2")
    async with shown_page(tab, tmp_path, *sources):
        await tab.click(f"{ROW}:has-text('time_ns')")
        await tab.click("button:has-text('Replay')")
        await tab.click("label:has-text('Live:')")
        await seen(tab, "replay")
        await tab.click("dialog button.primary")
        await tab.wait("dialog h2:has-text('Report')")
        assert "differ" in await tab.text("dialog")
        await seen(tab, "report")
        await tab.press("Escape")
        await tab.wait("#detail .divergences")
        assert len(await tab.texts(".execution")) == 2


async def test_line_of_ten_megabytes_is_served_in_part(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, "print('x' * 10_000_000)"):
        await tab.click(ROW)
        await tab.wait("pre[aria-label=Output]")
        assert len(await tab.text("pre[aria-label=Output]")) < 5_000
        assert "10.0 MB" in await tab.text("#detail")
        assert await tab.evaluate("document.body.innerHTML.length") < 100_000


# --- sessions that are not as usual -----------------------------------------------------------------------------------


async def test_empty_session_takes_a_first_prompt(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, steps=(("I add.", "1 + 1"), ("Two.", ""))) as (client, session):
        assert "No statements yet" in await tab.text("main")
        await seen(tab, "empty")
        await tab.fill("#prompt", "Add.")
        await tab.press("Enter")
        await ran(client, session, 1)
        await tab.wait(f"{ROW}:has-text('1 + 1') .status-ok")


async def test_deleted_session_says_so(tab: Browser, tmp_path: Path) -> None:
    async with served(tmp_path / "state") as (client, host):
        session = await session_of(host, tmp_path, "1")
        await tab.open(client.server.access.address(token=client.token, session=session))
        await tab.wait(".activity:has-text('live')")
        await host.sessions.delete(session)
        await tab.wait(f".dock:has-text('{DELETED}')")
        await seen(tab, "deleted")
        assert await tab.count(ROW) == 1  # what was there can still be read
        await tab.click("button:has-text('Load again')")
        await tab.wait("h1:has-text('This session cannot be shown')")
        await seen(tab, "gone")
        await tab.click("text=All sessions")
        await tab.wait("text=No sessions yet")
        await seen(tab, "no-sessions")
        await tab.do("leave")


async def test_damaged_session_says_so(tab: Browser, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    intact(tmp_path / "whole", tmp_path)
    damage = next(each for each in DAMAGES if each.name == "event is no JSON")
    damaged(damage, tmp_path / "whole", tmp_path / "state")
    with closing(SqliteStore(tmp_path / "state" / DATABASE, SystemClock())) as store:
        async with served(tmp_path / "state", store) as (client, _):
            await tab.open(client.server.access.address(token=client.token, session=VICTIM))
            await tab.wait("h1:has-text('This session cannot be shown')")
            assert VICTIM in await tab.text("main .refusal")
            await seen(tab, "damaged")
            await tab.click("text=All sessions")
            await tab.wait("#sessions-list .row")
            assert await tab.count("#sessions-list .row") == 3
            await tab.do("leave")


async def test_slow_reader_is_told(tab: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = PageApp.begin_stream

    def begin_after_a_disconnection(app: PageApp, client: str) -> bool:
        app.end_stream(client, is_slow=True)
        return begin(app, client)

    monkeypatch.setattr(PageApp, "begin_stream", begin_after_a_disconnection)
    async with shown_page(tab, tmp_path, "1"):
        await tab.wait(f".notices:has-text('{WAS_SLOW}')")
        await tab.press("Tab")
        await tab.click(".notices button")
        await tab.wait(".notices p", "detached")


# --- the same facts everywhere ----------------------------------------------------------------------------------------

STEPS = (
    ("I look first.", "notes = view('notes.txt')\nshow(notes)\nprint(ls('.'))"),
    ("I change it.", "write('notes.txt', 'second\\n')\ngroup(['notes.txt'])"),
    ("It fails.", "1 / 0"),
    ("Done.", ""),
)


async def _facts(tab: Browser, places: Iterable[str]) -> dict[str, str]:
    """The text of each view and of each entry, whole and without what acts."""
    found: dict[str, str] = {}
    for place in places:
        await go(tab, place)
        before = ""
        with anyio.fail_after(30):
            while before != found.get(place) or "Loading" in before or "Searching" in before:
                before = found.get(place, "")
                await tab.evaluate(OPEN)
                await anyio.sleep(0.1)
                found[place] = await tab.evaluate(FACTS)
    return found


async def test_file_has_the_facts_of_each_view(tab: Browser, tmp_path: Path) -> None:
    sources = ("write('notes.txt', 'first\\n')", "number = 2", PICTURE, "print('x' * 5000)\nnumber + 1")
    async with shown_page(tab, tmp_path, *sources, steps=STEPS) as (client, session):
        await tab.fill("#prompt", "Look at the notes, then change them.")
        await tab.press("Enter")
        await answered(tab)
        await ran(client, session, len(sources) + 3)
        await client.done(session, "rewind", branch="main", statement=3)
        await client.done(session, "edit", branch="b1", statement=2, source="number = 5", mode="live")
        await tab.wait(f"{ROW}:has-text('number = 5') .status-ok")
        document = await client.document(session)
        compared = "/compare/" + quote(json.dumps(["main", "b2"]), safe="")
        places = [*addresses(document), f"#/{session}{compared}"]
        assert {place.split("/")[2] for place in places if place.count("/") > 2} >= {
            *(word for word, _ in WORDS.values()),
            "compare",
        }
        of_server = await _facts(tab, places)
        store = client.server._store
        written = tmp_path / "page.html"
        write_file(str(written), session, store.load(session), store.blob_get, NO_SECRETS, 1.0)
        await tab.open(written.as_uri())
        await tab.wait(ROW)
        of_file = await _facts(tab, places)
        assert of_file == of_server
        for fact in ("ZeroDivisionError", "second", "number = 5", "notes.txt", "x" * 1000):
            assert any(fact in text for text in of_file.values())
        assert await tab.problems() == []


async def test_call_as_text_is_what_the_command_prints(tab: Browser, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "state" / DATABASE, SystemClock())) as store:
        steps = (("I count \u00e4\u20ac.", "print('a\\tb\\n' * 200)\nlen('<b>&amp;</b>')"), *STEPS)
        async with shown_page(tab, tmp_path, "write('notes.txt', '1')", steps=steps, store=store) as (client, session):
            await tab.fill("#prompt", "Count: <b>&amp;</b>")
            await tab.press("Enter")
            await answered(tab)
            await ran(client, session, len(steps))
            await tab.wait(".activity:has-text('live')")
            for number in range(1, len(steps) + 1):
                await go(tab, f"#/{session}/call/{number}")
                await tab.click("text=Show as text")
                await tab.wait(f"dialog h2:has-text('Model call {number} as text')")
                for button in range(await tab.count("dialog button:has-text('more')")):
                    del button
                    await tab.click("dialog button:has-text('more')")
                shown = await tab.evaluate("document.querySelector('dialog pre').textContent")
                await tab.press("Escape")
                command = [REWINDOW, "show", session, "--projection", str(number)]
                environment = {**os.environ, "REWINDOW_STATE_DIR": str(tmp_path / "state")}
                printed = await anyio.run_process(command, env=environment)
                text = printed.stdout.decode()
                text = text[text.index("\u2500" * 4 + " instructions") :]
                assert shown == text.rstrip("\n")


# --- beside an editor -------------------------------------------------------------------------------------------------


async def test_question_of_an_editor_is_answered_on_the_page(tab: Browser, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("zero\n")
    replies = ({"statement": "write('one.txt', 'first\\n')"}, {"text": "Done."})
    model = scripted(tmp_path, *replies)
    with Agent(tmp_path / "state", "--model", model, permission=None) as agent:

        def open_page() -> tuple[str, int]:
            session = agent.open(tmp_path)
            option = {"sessionId": session, "configId": "_ask_about", "value": "acts"}
            agent.call("session/set_config_option", option)
            agent.prompt(session, "/page")
            found = re.search(r"http://[^\s\"\\]+ticket=[^\s\"\\]+", json.dumps(agent.received))
            assert found is not None
            prompt = agent.begin_prompt(session, "Write it.")
            agent.until(asks_permission)  # before a browser shows it
            return found[0], prompt

        address, prompt = await anyio.to_thread.run_sync(open_page)
        await tab.open(address)
        question = await answered(tab, shot="editor")
        assert "the first answer counts" in question
        assert "zero" in question
        assert "first" in question

        def ended() -> str:
            reason = agent.response(prompt)["result"]["stopReason"]
            asked = [message["id"] for message in agent.received if asks_permission(message)]
            cancels = [each["params"] for each in agent.received if each.get("method") == "$/cancel_request"]
            assert cancels == [{"requestId": request} for request in asked]
            assert len(asked) == 1
            return reason

        assert await anyio.to_thread.run_sync(ended) == "end_turn"
        assert (tmp_path / "one.txt").read_text() == "first\n"
        await tab.do("leave")
