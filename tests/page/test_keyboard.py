"""Everything that the mouse does, the keyboard does; and what is copied from the page leads back, or says all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import Browser
from tests.support.shown_page import ROW, addresses, answered, go, ran, shown_page

pytestmark = pytest.mark.slow

CONTROLS = "a[href], button:not(:disabled), input, select, textarea, summary, [tabindex='0']"
MOST = 150
STEPS = (
    ("I look first.", "notes = view('notes.txt')\nshow(notes)"),
    ("I change it.", "write('notes.txt', 'second\\n')\ngroup(['notes.txt'])"),
    ("Done.", ""),
)
LEFT = f"""
[...document.querySelectorAll("dialog[open]").values().next().value?.querySelectorAll({CONTROLS!r})
  ?? document.querySelectorAll({CONTROLS!r})]
  .filter((each) => each.checkVisibility() && !each.dataset.reached)
  .filter((each) => !(each.type === "radio" && document.querySelector(`[name="${{each.name}}"][data-reached]`)))
  .map((each) => each.outerHTML.slice(0, 120))
"""
REACH = """
(() => {
  const one = document.activeElement;
  const isNew = one !== document.body && !one.dataset.reached;
  one.dataset.reached = "1";
  return isNew;
})()
"""
# A row is chosen by the keys of its list, and the plot chooses a row.
UNREACHABLE = f"""
[...globalThis.clickable]
  .filter((each) => each instanceof Element && each.isConnected && each.checkVisibility())
  .filter((each) => !each.matches({CONTROLS!r} + ", :disabled, [role=listbox] [role=option], .plot svg"))
  .map((each) => each.outerHTML.slice(0, 120))
"""


async def _walk(tab: Browser) -> list[str]:
    """Press Tab until nothing new has the focus; return what can be clicked and was not reached."""
    await tab.evaluate("document.querySelectorAll('[data-reached]').forEach((each) => delete each.dataset.reached)")
    old = 0
    for _ in range(MOST):
        await tab.press("Tab")
        old = 0 if await tab.evaluate(REACH) else old + 1
        if old > 2 and not await tab.evaluate(f"{LEFT}.length"):
            break
    return [*await tab.evaluate(LEFT), *await tab.evaluate(UNREACHABLE)]


async def test_keyboard_reaches_whatever_the_mouse_can_click(tab: Browser, tmp_path: Path) -> None:
    sources = ("write('notes.txt', 'first\\n')", "number = 2", "number + 1")
    async with shown_page(tab, tmp_path, *sources, steps=STEPS) as (client, session):
        await tab.fill("#prompt", "Look at the notes, then change them.")
        await tab.press("Enter")
        await tab.wait("#question")
        assert await _walk(tab) == []
        await answered(tab)
        await ran(client, session, 5)
        await client.done(session, "edit", branch="main", statement=2, source="number = 5", mode="live")
        document = await client.document(session)
        seen: set[str] = set()
        for place in addresses(document):
            word = "/".join(place.split("/")[2:3]) + str(place.count("/"))
            if word not in seen:  # one of each kind
                seen.add(word)
                await go(tab, place)
                assert await _walk(tab) == [], place
        statement = next(each for each in document["statements"] if each["branch"] == "b1")
        await go(tab, f"#/{session}/statement/{statement['key']}")
        for key, title in (("r", "Rewind"), ("e", "Edit"), ("?", "Keys")):
            await tab.press("Escape", "j", key)
            await tab.wait(f"dialog h2:has-text('{title}')")
            assert await _walk(tab) == [], title
            await tab.press("Escape")
            await tab.wait("dialog", "detached")
        for button in ("Replay", "Switch to its branch"):
            statement = document["statements"][-1 if button == "Replay" else 1]
            await go(tab, f"#/{session}/statement/{statement['key']}")
            await tab.evaluate(
                f"[...document.querySelectorAll('button')].find((each) => each.innerText.includes({button!r})).focus()"
            )
            await tab.press("Enter")
            await tab.wait("dialog[open]")
            assert await _walk(tab) == [], button
            await tab.press("Escape")
            await tab.wait("dialog", "detached")
        await go(tab, f"#/{session}")
        await tab.click(".brand")
        await tab.wait("#sessions-list .row")
        assert await _walk(tab) == []
        await tab.press("/")
        await tab.press("Escape", "j", "Enter")
        await tab.wait(ROW)


async def _copied(tab: Browser, label: str) -> str:
    await tab.evaluate("globalThis.copied = ''")
    await tab.click(f"#detail button:has-text('{label}')")
    await tab.wait(".notices:has-text('Copied.')")
    return await tab.evaluate("globalThis.copied")


async def test_links_lead_to_the_statement_and_the_call(tab: Browser, tmp_path: Path) -> None:
    async with shown_page(tab, tmp_path, "first = 1", "second = 2", steps=(("I add.", "1 + 1"), ("Two.", ""))) as (
        client,
        session,
    ):
        await tab.fill("#prompt", "Add.")
        await tab.press("Enter")
        await ran(client, session, 3)
        for view, row, title in (
            ("", f"{ROW}:has-text('second = 2')", "Statement 2"),
            ("/call", "#calls-list .row >> nth=1", "Model call 2"),
        ):
            await go(tab, f"#/{session}{view}")
            await tab.click(row)
            await tab.wait(f"h2:has-text('{title}')")
            link = await _copied(tab, "Copy link")
            assert client.token not in link
            await go(tab, f"#/{session}/file")
            await tab.evaluate(f"location.href = {link!r}")
            await tab.wait(f"h2:has-text('{title}')")
            await tab.do("reload")
            await tab.wait(f"h2:has-text('{title}')")


async def test_branch_is_copied_as_markdown(tab: Browser, tmp_path: Path) -> None:
    sources = ("number = 2", "write('notes.txt', '```\\nfenced\\n')", "1 / 0", "print('x' * 3000)\nnumber + 1")
    async with shown_page(tab, tmp_path, *sources):
        text = await _copied(tab, "Copy branch as Markdown")
        places = [text.index(each) for each in ("number = 2", "write('notes.txt'", "1 / 0", "number + 1")]
        assert places == sorted(places)
        for fact in ("+fenced", "ZeroDivisionError", "x" * 3000, "\n3\n", "`notes.txt` (created)"):
            assert fact in text, fact
        assert "````" in text  # no line of a text ends its block
        await tab.click(f"{ROW}:has-text('1 / 0')")
        one = await _copied(tab, "Copy as Markdown")
        assert one in text
        assert "number" not in one
