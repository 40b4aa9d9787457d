"""A session's page in a browser, served by this process, with a scripted model and workers of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from engine import Store
from engine.context.model import ModelSignal, Prompt, StatementAsked, TextDelta
from engine.core.ids import SessionId
from tests.support.browser import SIZES, Browser
from tests.support.models import AnsweringModel
from tests.support.page_server import Client, served

ROW: Final = "#timeline-list .row"
WORDS: Final = {
    "Timeline": ("statement", "statements"),
    "Files": ("file", "files"),
    "Context": ("call", "calls"),
    "Views": ("view", "handles"),
    "Requests": ("request", "requests"),
}
"""The word of a view in addresses, and the table with its entries."""


def scripted(*steps: tuple[str, str]) -> AnsweringModel:
    left = list(steps)

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        words, source = left.pop(0) if left else ("Done.", "")
        return [TextDelta(words), StatementAsked(source)] if source else [TextDelta(words)]

    return AnsweringModel(answer)


@asynccontextmanager
async def shown_page(
    tab: Browser, place: Path, *sources: str, steps: Sequence[tuple[str, str]] = (), store: Store | None = None
) -> AsyncIterator[tuple[Client, SessionId]]:
    """A browser that shows a session which ran `sources`, in processes of its own. It asks about each file change."""
    project = place / "project"
    project.mkdir()
    model = scripted(*steps) if steps else None
    async with served(place / "state", store, model=model, environments=None) as (client, host):
        session = await host.sessions.create(str(project))
        session.set_option("ask_about", "acts")
        for source in sources:
            await session.cell(source)
        await host.sessions.close(session.session_id)
        await tab.open(client.server.access.address(token=client.token, session=session.session_id))
        await tab.wait(ROW if sources else ".empty")
        try:
            yield client, session.session_id
            assert await tab.problems() == []
        finally:
            await tab.do("leave")  # so that no connection outlives the server


async def ran(client: Client, session: SessionId, count: int) -> None:
    """Wait until that many statements have run."""
    async with client.live(session, 0, "test") as messages:
        ended: set[int] = set()
        async for message in messages:
            executions = message.get("changes", {}).get("executions", ())
            ended |= {each["key"] for each in executions if each["status"] != "running"}
            if len(ended) >= count:
                return


async def seen(tab: Browser, name: str) -> None:
    """Look at the page as it is: anybody can read it, at both sizes, in light and dark."""
    for width, height in reversed(SIZES):
        await tab.do("resize", width=width, height=height)
        assert not await tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        for dark in (True, False):
            await tab.do("theme", dark=dark)
            await tab.shot(f"{name}-{width}-{'dark' if dark else 'light'}")
            assert await tab.do("axe") == []


async def answered(tab: Browser, *, shot: str = "") -> str:
    """Allow what is asked, and return the question."""
    await tab.wait("#question")
    if shot:
        await seen(tab, shot)
    question = await tab.text("#question")
    marked = await tab.evaluate("document.querySelector('#question').dataset.seen = '1'")
    assert marked == "1"
    await tab.click("#question button.primary")
    await tab.wait("#question[data-seen]", "detached")
    return question


def addresses(document: dict[str, Any]) -> list[str]:
    """The addresses of all views and of all their entries."""
    session = document["session"]["session_id"]
    entries = [(word, str(entry["key"])) for word, table in WORDS.values() for entry in document[table]]
    entries += [("statement", str(item["key"])) for item in document["conversation"] if item["type"] == "user"]
    entries += [("statement", str(move["key"])) for move in document["moves"]]
    fixed = ["", *(f"/{word}" for word, _ in WORDS.values()), "/compare", "/search/alert", "/search/data"]
    return [f"#/{session}{each}" for each in fixed] + [
        f"#/{session}/{word}/{quote(key, safe='')}" for word, key in entries
    ]


async def go(tab: Browser, address: str) -> None:
    await tab.evaluate(f"location.hash = {json.dumps(address)}")
    await tab.wait("main .split, main .single")
    await tab.evaluate("new Promise((drawn) => setTimeout(drawn, 20))")
