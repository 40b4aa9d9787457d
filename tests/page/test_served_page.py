"""The served page in a browser, on a real session with a scripted model: what runs, what asks, and what goes back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from engine import Owner
from engine.cli.show import PastCall
from engine.core.clock import SystemClock
from engine.core.errors import SessionInUseError
from engine.log.redaction import NO_SECRETS
from engine.log.store import DATABASE
from engine.log.store.sqlite import SqliteStore
from session_page.actions import OTHER_BRANCH
from session_page.app import USED_TICKET
from session_page.file import write_file
from tests.support.browser import Browser
from tests.support.page_server import served
from tests.support.shown_page import ROW, answered, ran, seen, shown_page

pytestmark = pytest.mark.slow

STEPS = (
    ("I write both files.", "write('one.txt', 'first\\n')\nwrite('two.txt', 'first\\n')"),
    ("Now I change both.", "write('one.txt', 'second\\n')\nwrite('two.txt', 'second\\n')\nlen(read('one.txt'))"),
    ("Both are changed.", ""),
)


async def test_prompt_asks_and_rewind_restores_files(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, "write('one.txt', 'zero\\n')", steps=STEPS) as (client, session):
        await tab.fill("#prompt", "Write two files, then change them.")
        await tab.press("Enter")
        questions = [await answered(tab, shot="question"), *[await answered(tab) for _ in range(3)]]
        await tab.wait(f"{ROW}:has-text('second') .status-ok")
        await tab.wait(".activity:has-text('live')")
        # Each question shows the change that it is about.
        assert "zero" in questions[0]
        assert "first" in questions[0]
        assert [("one.txt" if "one.txt" in each else "two.txt") for each in questions] == ["one.txt", "two.txt"] * 2
        project = tmp_path / "project"
        assert (project / "one.txt").read_text() == "second\n"

        await tab.click(f"{ROW}:has-text('first')")
        await tab.wait("h2:has-text('Statement 2')")
        await tab.click("text=Rewind to here")
        await tab.wait("dialog .paths li")
        assert sorted(map(str.strip, await tab.texts("dialog .paths li"))) == ["one.txt", "two.txt"]
        await seen(tab, "rewind")
        await tab.click("dialog button.primary")
        await tab.wait("dialog", "detached")
        await tab.wait(f"{ROW}:has-text('Went back to statement 2')")
        assert {path.name: path.read_text() for path in project.glob("*.txt")} == {
            "one.txt": "first\n",
            "two.txt": "first\n",
        }
        document = await client.document(session)
        assert document["session"]["branch"] == "b1"


async def test_edit_shows_differences_and_switch_goes_back(tab: Browser, tmp_path: Path) -> None:
    sources = ("number = 2", "print(number * 10)", "number + 1")
    async with shown_page(tab, tmp_path, *sources) as (client, session):
        await tab.click(f"{ROW}:has-text('number = 2')")
        await tab.click("text=Edit and run on")
        await tab.fill("dialog textarea", "number = 7")
        await seen(tab, "edit")
        await tab.click("dialog button.primary")
        await tab.wait("dialog h2:has-text('Report')")
        await tab.press("Escape")
        await tab.wait("dialog", "detached")
        await tab.click(f"{ROW}:not(.elsewhere):has-text('number + 1')")
        await tab.wait(".divergences")
        assert "8" in await tab.text(".divergences ins")
        assert "3" in await tab.text(".divergences del")
        assert len(await tab.texts(".execution")) == 2
        await tab.shot("divergence-1440-light")

        await tab.click(f"{ROW}.elsewhere:has-text('number = 2')")
        await tab.click("text=Switch to its branch")
        await tab.click("dialog button.primary")
        await tab.wait("dialog", "detached")
        await tab.wait(f"{ROW}:has-text('Switched to branch main')")
        assert (await client.document(session))["session"].get("branch", "main") == "main"

        # The other statements of the new branch are still there, and the comparison names both values.
        await tab.press("6")
        await tab.wait(".sides")
        assert [line.split() for line in await tab.texts(".sides tbody tr")] == [["number", "2", "7"]]


async def test_output_streams_and_cancel_ends_it(tab: Browser, tmp_path: Path) -> None:
    source = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.05)"
    async with shown_page(tab, tmp_path, "1", steps=(("I wait.", source),)):
        await tab.fill("#prompt", "Wait.")
        await tab.press("Enter")
        await tab.wait(".running pre:has-text('begun')")
        await tab.wait(f"{ROW} .status-running")
        await seen(tab, "running")
        await tab.click("button.danger:has-text('Cancel')")
        await tab.wait(f"{ROW} .status-cancelled")
        await tab.wait(".running", "detached")


async def test_refusal_is_shown_as_a_sentence(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, "1", "2") as (client, session):
        await tab.click(f"{ROW} >> nth=0")
        await tab.click("text=Rewind to here")
        await tab.wait("dialog button.primary:not([disabled])")
        # Somebody else goes back meanwhile, so that the numbers mean other statements now.
        await client.done(session, "rewind", branch="main", statement=1)
        await tab.click("dialog button.primary")
        await tab.wait("dialog .refusal")
        assert OTHER_BRANCH.format(active="b1", given="main") in await tab.text("dialog .refusal")


async def test_page_catches_up_after_sleep(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, "first = 1") as (client, session):
        await tab.wait(".activity:has-text('live')")
        await tab.do("hide", hidden=True)
        await client.done(session, "prompt", branch="main", text="second = 2")
        await ran(client, session, 2)
        assert await tab.count(f"{ROW}:has-text('second = 2')") == 0
        await tab.do("hide", hidden=False)
        await tab.wait(f"{ROW}:has-text('second = 2') .status-ok")


async def test_list_follows_new_statements_at_its_end(tab: Browser, tmp_path: Path) -> None:
    sources = [f"number_{index} = {index}" for index in range(45)]
    top = "document.querySelector('#timeline-list').scrollTop"
    async with shown_page(tab, tmp_path, *sources) as (client, session):
        assert await tab.evaluate(top) == 0
        await client.done(session, "prompt", branch="main", text="'not followed'")
        await ran(client, session, 46)
        await tab.wait(".tabs a:has-text('Timeline 46')")
        assert await tab.evaluate(top) == 0
        await tab.evaluate(f"{top} = 1e6")
        await tab.wait(f"{ROW}:has-text('not followed')")
        await client.done(session, "prompt", branch="main", text="'followed'")
        await tab.wait(f"{ROW}:has-text(\"'followed'\") .status-ok")
        left = "(({ scrollTop, clientHeight, scrollHeight }) => scrollHeight - scrollTop - clientHeight)"
        assert await tab.evaluate(f"{left}(document.querySelector('#timeline-list'))") < 2
        # The rows that stay in sight while it scrolls are those of now.
        await tab.press("j")
        await tab.evaluate(f"{top} = 0")
        await tab.wait(f"{ROW}:has-text('number_0 ')")
        await tab.evaluate(f"{top} = 100")
        await tab.click(f"{ROW}:has-text('number_5 ')")
        await tab.wait(f"{ROW}.chosen:has-text('number_5 ')")
        assert await tab.count(f"{ROW}.chosen") == 1


async def test_token_leaves_the_address(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, "1") as (client, session):
        access = client.server.access
        assert await tab.do("url") == f"{client.base}/#/{session}"
        assert client.token not in "".join(await tab.do("requests"))
        assert await tab.evaluate("sessionStorage.getItem('token')") == client.token
        assert await tab.evaluate("document.cookie") == ""
        # A ticket is good once; then the page says so, and takes the address of the terminal.
        address = access.address(ticket=access.ticket(), session=session)
        await tab.open(address)
        await tab.wait(ROW)
        assert await tab.do("url") == f"{client.base}/#/{session}"
        await tab.open(address)
        await tab.wait("#token")
        assert USED_TICKET in await tab.text("main")
        await tab.fill("#token", access.address(token=client.token, session=session))
        await tab.press("Enter")
        await tab.wait(ROW)
        await tab.do("reload")
        await tab.wait(ROW)


async def test_list_leads_to_a_session(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, "'found'") as (client, session):
        await tab.click(".brand")
        await tab.wait("#sessions-list .row")
        assert str(tmp_path / "project") in await tab.text("#sessions-list .row")
        await tab.shot("sessions-1440-light")
        assert await tab.do("axe") == []
        await tab.fill("#search", "no such session")
        await tab.wait("text=No session matches")
        await tab.fill("#search", "project")
        await tab.click("#sessions-list .row")
        await tab.wait(ROW)
        assert await tab.do("url") == f"{client.base}/#/{session}"


async def test_call_is_shown_as_the_command_prints_it(tab: Browser, tmp_path: Path) -> None:
    steps = (("I count \u00e4\u20ac.", "print('a\\tb\\n' * 200)\nlen('<b>&amp;</b>')"), ("Done.", ""))
    async with shown_page(tab, tmp_path, "1", steps=steps) as (client, session):
        await tab.fill("#prompt", "Count: <b>&amp;</b>")
        await tab.press("Enter")
        await tab.press("Escape", "3")
        await tab.wait("#calls-list .row >> nth=1")
        await tab.click("#calls-list .row >> nth=1")
        await tab.wait("h2:has-text('Model call 2')")
        await tab.click("text=Show as text")
        await tab.wait("dialog pre")
        store = client.server._store
        call = PastCall(list(store.load(session)), 2, store.blob_get, NO_SECRETS.redact)
        _tokens, *blocks = call.blocks(None)
        assert await tab.text("dialog pre") == "\n\n".join(blocks)
        assert [block.split()[1] for block in blocks] == ["instructions", "user", "reply", "call", "result", "end"]


async def test_file_shows_what_the_page_shows(tab: Browser, tmp_path: Path) -> None:
    sources = ("number = 2", "write('one.txt', str(number))", "number + 1")
    async with shown_page(tab, tmp_path, *sources) as (client, session):
        await client.done(session, "rewind", branch="main", statement=2)
        await client.done(session, "edit", branch="b1", statement=1, source="number = 5", mode="live")
        await tab.wait(f"{ROW}:has-text('number = 5') .status-ok")
        await tab.wait(".activity:has-text('live')")
        served_rows = await tab.texts(ROW)
        served_details = await _details(tab)
        store = client.server._store
        written = tmp_path / "page.html"
        write_file(str(written), session, store.load(session), store.blob_get, NO_SECRETS, 1.0)
        await tab.open(written.as_uri())
        await tab.wait(ROW)
        assert await tab.texts(ROW) == served_rows
        assert await _details(tab) == served_details
        assert await tab.problems() == []
        await tab.press("6")
        await tab.wait(".sides")


async def _details(tab: Browser) -> list[str]:
    """The details of every row, without the buttons, which a file has fewer of."""
    details: list[str] = []
    for row in range(await tab.count(ROW)):
        await tab.click(f"{ROW} >> nth={row}")
        await tab.wait(f"{ROW}.chosen >> nth=0")
        expression = (
            "(() => { const copy = document.querySelector('#detail').cloneNode(true);"
            "for (const each of copy.querySelectorAll('button, .acts')) each.remove(); return copy.textContent; })()"
        )
        details.append(await tab.evaluate(expression))
    return details


async def test_page_of_a_session_elsewhere_is_live_and_cannot_act(
    tab: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state" / DATABASE
    with closing(SqliteStore(path, SystemClock())) as other, closing(SqliteStore(path, SystemClock())) as mine:
        async with served(tmp_path / "other", other) as (_, host):
            session = await host.sessions.create(str(tmp_path))
            await session.cell("1 + 1")
            monkeypatch.setattr(mine, "owners", lambda: {session.session_id: Owner(1)})
            async with served(tmp_path / "state", mine) as (client, _):
                await tab.open(client.server.access.address(token=client.token, session=session.session_id))
                await tab.wait(".activity:has-text('read only')")
                assert str(SessionInUseError(session.session_id, 1)) in await tab.text(".dock")
                assert await tab.count("#prompt") == 0
                await session.cell("40 + 2")
                await tab.click(f"{ROW}:has-text('40 + 2')")
                await tab.wait("#detail:has-text('42')")
                assert await tab.count("text=Rewind to here") == 0
                await tab.shot("elsewhere-1440-light")
                await tab.do("leave")
