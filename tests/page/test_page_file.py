"""The page of a session as a file in a browser: what it shows, what it must not run, its keys, and who can read it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.browser import SIZES, VIEWS, Browser, many, recorded, write_page
from tests.support.page_sessions import HOSTILE
from tests.support.shown_page import ROW, WORDS, addresses, go

pytestmark = pytest.mark.slow

USABLE_MS = {200: 300, 10_000: 1000}
"""What the main thread may work until a page with so many statements can be used."""


async def test_each_statement_is_shown_with_its_facts(tab: Browser, tmp_path: Path) -> None:
    for name in ("small", "branched"):
        document = recorded(name)
        await tab.open(write_page(tmp_path / f"{name}.html", document))
        await tab.wait(ROW)
        executions = {entry["key"]: entry for entry in document["executions"]}
        changes = {change["key"]: file["name"] for file in document["files"] for change in file["changes"]}
        for statement in document["statements"]:
            await go(tab, f"#/{document['session']['session_id']}/statement/{statement['key']}")
            await tab.wait(f"h2:has-text('Statement {statement['index']}')")
            shown = await tab.text("#detail")
            assert statement["source"]["text"].strip() in shown
            for execution in map(executions.__getitem__, statement["executions"]):
                for stream in ("stdout", "stderr"):
                    assert execution.get(stream, {"text": {"text": ""}})["text"]["text"].strip() in shown
                assert execution.get("value", {"text": ""})["text"] in shown
                assert execution.get("error", {"type": ""})["type"] in shown
                for divergence in execution.get("divergences", ()):
                    assert divergence["after"] in shown
                for change in execution.get("files", ()):
                    assert changes[change] in shown
                if execution.get("counts"):
                    assert all(entry["name"] in shown for entry in execution.get("names", ()))
        assert await tab.problems() == []


async def test_file_has_no_controls_that_act_and_loads_nothing(tab: Browser, tmp_path: Path) -> None:
    document = recorded("small")
    url = write_page(tmp_path / "page.html", document)
    await tab.open(url)
    await tab.wait(ROW)
    for address in addresses(document):
        await go(tab, address)
        buttons = " ".join(await tab.texts("button:visible"))
        assert not {"Rewind", "Replay", "Edit", "Send", "Switch"} & set(buttons.split())
        assert await tab.count("textarea, #question, .dock") == 0
    assert set(await tab.do("requests")) == {url}
    assert await tab.problems() == []


async def test_hostile_texts_are_only_text(tab: Browser, tmp_path: Path) -> None:
    document = recorded("hostile")
    await tab.open(write_page(tmp_path / "page.html", document))
    await tab.wait(ROW)
    texts = ""
    for address in addresses(document):
        await go(tab, address)
        await tab.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        # Nothing of the session became an element, an address outside of the page, or a handler.
        assert await tab.count("script") == 2
        assert await tab.count("img, iframe, object, embed, base, form, link, meta[http-equiv=refresh]") == 0
        assert await tab.evaluate("[...document.links].every((each) => each.getAttribute('href').startsWith('#'))")
        assert await tab.evaluate(
            "[...document.querySelectorAll('*')].every((each) => each.getAttributeNames()"
            ".every((name) => !name.startsWith('on')))"
        )
        texts += await tab.evaluate("document.body.innerText")
        moving = "[\\u0000-\\u0008\\u000b-\\u001f\\u202a-\\u202e\\u2066-\\u2069]"
        assert not await tab.evaluate(f"/{moving}/.test(document.body.innerText + document.title)")
    assert await tab.problems() == []
    for hostile in HOSTILE:
        if hostile.isprintable():
            assert hostile in texts
    assert "\\x1b]0;title\\x07\\x1b[2J\\u202eevil\\u2066" in texts


async def test_long_lines_are_cut(tab: Browser, tmp_path: Path) -> None:
    document = recorded("small")
    document["contents"]["long"] = {"text": "x" * 10_000_000}
    execution = document["executions"][0]
    execution["stdout"] = {"text": {"text": "x" * 1000, "digest": "long", "size": 10_000_000}, "bytes": 10_000_000}
    key = document["statements"][0]["key"]
    await tab.open(f"{write_page(tmp_path / 'page.html', document)}#/x/statement/{key}")
    await tab.wait("pre[aria-label=Output]")
    assert len(await tab.text("pre[aria-label=Output]")) < 5000
    assert "more characters" in await tab.text("pre[aria-label=Output]")


async def test_keys_reach_everything(tab: Browser, tmp_path: Path) -> None:
    document = recorded("branched")
    url = write_page(tmp_path / "page.html", document)
    session = document["session"]["session_id"]
    await tab.open(url)
    await tab.wait(ROW)

    async def focused() -> str:
        return await tab.evaluate("document.activeElement.id")

    await tab.press("j")
    assert await focused() == "timeline-list"
    assert await tab.text(f"{ROW}.chosen .index") == "1"
    await tab.press("j", "j", "k")
    assert await tab.text(f"{ROW}.chosen .index") == "2"
    await tab.press("G")
    assert "undefined" in await tab.text(f"{ROW}.chosen")
    await tab.press("Enter")
    await tab.wait("#detail:focus")
    await tab.press("Escape")
    await tab.wait(f"{ROW}.chosen", "detached")
    assert await focused() == "timeline-list"
    for number, view in enumerate(VIEWS, 1):
        await tab.press(str(number))
        await tab.wait(f".tabs a[aria-current]:has-text('{view}')")
    await tab.press("/")
    assert await focused() == "search"
    await tab.fill("#search", "luck")
    await tab.wait("#search-list .row")
    await tab.press("Enter", "j", "Enter")
    await tab.wait("#detail h2")
    assert (await tab.do("url")).startswith(f"{url}#/{session}/statement/")
    await tab.press("?")
    await tab.wait("dialog")
    await tab.press("Escape")
    await tab.wait("dialog", "detached")
    await tab.press("t")
    assert await tab.evaluate("document.documentElement.dataset.theme") == "dark"


async def test_branch_limits_the_views(tab: Browser, tmp_path: Path) -> None:
    document = recorded("branched")
    await tab.open(write_page(tmp_path / "page.html", document))
    await tab.wait(ROW)
    await tab.do("choose", target="#branch", value="b1")
    await tab.wait(f"{ROW}:has-text('undefined')", "detached")
    assert [each.strip() for each in await tab.texts(f"{ROW}.row-statement .index")] == ["1", "2", "3", "4"]
    await tab.press("2")
    await tab.wait("#files-list .row")
    assert "2 changes" in await tab.text("#files-list .row:has-text('data.txt')")


@pytest.mark.parametrize(("size", "dark"), list(itertools.product(SIZES, (False, True))))
async def test_views_can_be_read_by_everybody(tab: Browser, tmp_path: Path, size: tuple[int, int], dark: bool) -> None:
    width, height = size
    found: dict[str, list[str]] = {}
    for name in ("small", "branched"):
        document = recorded(name)
        session = document["session"]["session_id"]
        comparison = {
            "left": "main", "right": "b2", "shared": 1, "left_statements": [9, 21], "right_statements": [77, 88],
            "names": [{"name": "luck", "left": "0.6", "right": "0.9"}],
            "files": [{"path": "/home/me/project/data.txt", "name": "data.txt", "left": "07c4", "right": None}],
        }  # fmt: skip
        url = write_page(tmp_path / f"{name}.html", document, [comparison])
        await tab.open(url, width=width, height=height, dark=dark)
        await tab.wait(".tabs")
        places = {"overview": "", "search": "/search/data", "compare": "/compare/" + quote(json.dumps(["main", "b2"]))}
        for word, table in WORDS.values():
            places[f"{word}s"] = f"/{word}"
            if document[table]:
                places[word] = f"/{word}/{quote(str(document[table][-1]['key']), safe='')}"
        for place, address in places.items():
            await go(tab, f"#/{session}{address}")
            await tab.evaluate("new Promise((drawn) => setTimeout(drawn, 200))")
            await tab.shot(f"{name}-{place}-{width}-{'dark' if dark else 'light'}")
            found[f"{name} {place}"] = await tab.do("axe")
            assert not await tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        await tab.press("?")
        await tab.wait("dialog")
        found[f"{name} keys"] = await tab.do("axe")
    assert {place: violations for place, violations in found.items() if violations} == {}


async def test_damaged_file_says_so(tab: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    url = write_page(path, recorded("small"))
    page = path.read_text()
    at = page.index('id="session-data">') + 5000
    path.write_text(page[:at] + "AAAA" + page[at + 4 :])
    await tab.open(url)
    await tab.wait("text=This session cannot be shown")


@pytest.mark.parametrize("count", USABLE_MS)
async def test_page_is_usable_at_once(tab: Browser, tmp_path: Path, count: int) -> None:
    url = write_page(tmp_path / "page.html", many(count))
    measured = [await tab.do("measure", url=url, target=ROW) for _ in range(3)]
    assert min(each["busy"] for each in measured) < USABLE_MS[count]
    # Of ten thousand rows, those in sight are there.
    assert await tab.count(ROW) < 60
    await tab.press("G")
    await tab.wait(f"{ROW}.chosen")
    assert str(count) in await tab.text(f"{ROW}.chosen .index")
