"""Two people work on a project, each with a client of their own: one session, one group, a cursor for each of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp_types import ResourceUpdatedNotification

from engine.core.tokens import count
from tests.support.mcp_clients import ERAS, Caller, Era, process
from tests.support.mcp_http import web_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
PROJECT = Path(__file__).parents[1] / "data" / "projects" / "cachetools"
RUNS = "--allow-run=unsandboxed"
GROUP = "group://cache"
BUDGET = 1500


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(PROJECT, tmp_path / "cachetools")
    return tmp_path / "cachetools"


class Heard:
    """Whether a client was notified that the group was updated."""

    def __init__(self) -> None:
        self.updated = anyio.Event()

    async def hear(self, message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification) and message.params.uri == GROUP:
            self.updated.set()


@asynccontextmanager
async def subscribed(caller: Caller, era: Era) -> AsyncIterator[None]:
    """The client has asked to be told when the group is updated."""
    if era == "legacy":
        await caller.client.subscribe_resource(GROUP)  # pyright: ignore[reportDeprecated]
        yield
    else:
        async with caller.client.listen(resource_subscriptions=[GROUP]):
            yield


def cursor_of(reply: str) -> int:
    found = re.search(r"\ncursor (\d+)$", reply)
    assert found, reply
    return int(found[1])


def within(reply: str, tokens: int) -> str:
    """What is under the first line, which has to be within the budget."""
    body = reply.partition("\n")[2]
    assert count(body) <= tokens, reply
    return body


async def opens(caller: Caller) -> int:
    """The group and a view are opened; returns the cursor after them."""
    shown = within(await caller.text("group", name="cache", add=["src/cachetools/*.py"], tokens=BUDGET), BUDGET)
    for name, declared in (("__init__", "class TTLCache"), ("func", "lru_cache"), ("keys", "hashkey")):
        assert f"# src/cachetools/{name}.py" in shown
        assert declared in shown
    lru = await caller.text(
        "view", path="src/cachetools/__init__.py", name="lru", pos="LRUCache", tokens=300, follow=True
    )
    assert "class LRUCache(Cache):" in within(lru, 300)
    await caller.text("group", name="cache", add=["lru"])
    return cursor_of(await caller.text("tick"))


def edit(project: Path) -> None:
    """Somebody edits a file, adds one, and deletes one."""
    module = project / "src" / "cachetools" / "__init__.py"
    before = module.read_text()
    after = before.replace('"""Least Recently Used (LRU) cache implementation."""', '"""The least recently used go."""')
    assert after != before
    module.write_text(after)
    (project / "src" / "cachetools" / "weak.py").write_text("class WeakCache:\n    pass\n")
    (project / "src" / "cachetools" / "_descriptor.py").unlink()


def told(reply: str) -> int:
    """A reply that tells of the edits, once each; returns its cursor."""
    assert reply.count('+    """The least recently used go."""') == 1, reply
    assert reply.count("1 new (src/cachetools/weak.py)") == 1, reply
    assert reply.count("1 gone (src/cachetools/_descriptor.py)") == 1, reply
    return cursor_of(reply)


async def up_to_date(caller: Caller) -> None:
    """The group shows what there is now, within its budget."""
    shown = within(await caller.text("group", name="cache"), BUDGET)
    assert "WeakCache" in shown
    assert "_descriptor" not in shown


async def runs(caller: Caller) -> None:
    """Python that the project's own code answers, and what it did to the handles of both."""
    code = "import sys\nsys.path.insert(0, 'src')\nimport cachetools\nc = cachetools.LRUCache(2)\n"
    code += "c.update(a=1, b=2, c=3)\nlist(c)"
    assert (await caller.text("run", code=code)).endswith("\n['b', 'c']")
    assert "NameError" in await caller.error("run", code="nobody")
    await caller.text("run", code="lru.SetTokens(150)")


async def nothing_is_lost(caller: Caller) -> None:
    """What both did is on one timeline, and what `run` did to a view holds."""
    listed = await caller.text("timeline", tokens=4000)
    for source in (
        "cache = group('src/cachetools/*.py'",
        "lru = view('src/cachetools/__init__.py'",
        "lru.SetTokens(150)",
    ):
        assert source in listed
    assert re.search(r"error \d+ ms  nobody", listed)
    assert re.match(
        r"lru  src/cachetools/__init__\.py:338 \(LRUCache\)  lines .*/150 tokens ",
        await caller.text("view", name="lru"),
    )


@pytest.mark.parametrize("era", ERAS)
async def test_two_at_once_over_http(project: Path, era: Era) -> None:
    heard = Heard()
    with web_process(project, "--root", ".", RUNS) as server:
        async with (
            server.client("team", era=era, message_handler=heard.hear) as one,
            server.client("team", era=era) as two,
        ):
            first = await opens(one)
            second = cursor_of(await two.text("tick"))
            async with subscribed(one, era):
                edit(project)
                await heard.updated.wait()
            first = told(await one.text("tick", since=first))
            # What one's tick adopted is told to the other too, and to each of them once.
            second = told(await two.text("tick", since=second))
            for caller, cursor in ((one, first), (two, second)):
                assert (await caller.text("tick", since=cursor)).startswith("Nothing changed.\n")
            await up_to_date(two)
            await runs(two)
            await nothing_is_lost(one)


@pytest.mark.parametrize("era", ERAS)
async def test_one_after_the_other_on_standard_input_and_output(project: Path, era: Era) -> None:
    heard = Heard()

    def client():
        return process(project, "--root", ".", "--session", "team", RUNS, era=era, message_handler=heard.hear)

    async with client() as one:
        first = await opens(one)
    async with client() as two:
        second = cursor_of(await two.text("tick"))
    async with client() as one:
        await one.text("view")
        async with subscribed(one, era):
            edit(project)
            await heard.updated.wait()
        first = told(await one.text("tick", since=first))
        assert (await one.text("tick", since=first)).startswith("Nothing changed.\n")
    async with client() as two:
        told(await two.text("tick", since=second))
        await up_to_date(two)
        await runs(two)
    async with client() as one:
        await nothing_is_lost(one)
