"""What a session caches, and the names of its handles."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from engine import Looked
from mcp_tools.client_session import ClientSession
from tests.support.mcp_clients import served

pytestmark = pytest.mark.anyio


class RecordingSession:
    """An engine session that records calls; `meanwhile` runs during its next look."""

    def __init__(self) -> None:
        self.position = 0
        self.asked: list[object] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def look(self, names: Collection[str], tokens: int | None) -> Looked:
        self.asked.append((tuple(names), tokens))
        found = Looked(stale=(str(len(self.asked)),))
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found

    async def count(self, texts: Sequence[str]) -> list[int]:
        self.asked.append(tuple(texts))
        return [len(text) for text in texts]


async def test_looks_are_cached_until_the_next_event() -> None:
    engine_session = RecordingSession()
    session = ClientSession(cast("Any", engine_session))
    first = await session.look()
    assert await session.look() is first
    shown = await session.look(["a"], 5)
    assert await session.look(["a"], 5) is shown is not first
    assert engine_session.asked == [((), None), (("a",), 5)]
    engine_session.position += 1
    assert await session.look() is not first


async def test_outdated_look_is_not_cached() -> None:
    engine_session = RecordingSession()
    session = ClientSession(cast("Any", engine_session))

    async def meanwhile() -> None:
        engine_session.position += 1
        await session.look(["b"])

    engine_session.meanwhile = meanwhile
    overtaken = await session.look(["a"])
    assert await session.look(["a"]) is not overtaken


async def test_look_cache_is_bounded() -> None:
    engine_session = RecordingSession()
    session = ClientSession(cast("Any", engine_session))
    for _ in range(2):
        for number in range(100):
            await session.look([str(number)])
    assert 100 < len(engine_session.asked) < 200


async def test_token_counts_are_cached() -> None:
    engine_session = RecordingSession()
    session = ClientSession(cast("Any", engine_session))
    assert await session.cached_counts(["a", "bb", "a"]) == [1, 2, 1]
    assert await session.cached_counts(["bb", "ccc"]) == [2, 3]
    assert await session.cached_counts([]) == []
    assert engine_session.asked == [("a", "bb"), ("ccc",)]
    for number in range(3_000):
        assert await session.cached_counts([str(number)]) == [len(str(number))]
    assert await session.cached_counts(["a"]) == [1]
    assert engine_session.asked[-1] == ("a",)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    (root / "src" / "one.py").write_text('"""One."""\n\n\nclass One:\n    def first(self) -> int:\n        return 1\n')
    (root / "src" / "two.py").write_text('"""Two."""\n\n\ndef second() -> int:\n    return 2\n')
    return root


async def test_client_names_become_identifiers(project: Path) -> None:
    async with served(project) as caller:
        shown = await caller.text("group", name="all", add=["src/*.py"])
        assert shown.startswith("all_ (all)  ")
        assert "Error" not in shown
        assert (await caller.text("group", name="my-group", add=["a.txt"])).startswith("my_group (my-group)  ")
        assert (await caller.text("view", name="src/one.py", path="src/one.py")).startswith("src_one_py (src/one.py)  ")
        for name, identifier in (
            ("open", "open_"),
            ("class", "class_"),
            ("2nd", "n2nd"),
            ("_a b;c", "a_b_c"),
            ("\u00e4", "a"),
        ):
            assert (await caller.text("view", name=name, path="a.txt")).startswith(f"{identifier} ({name})  ")
        assert (await caller.text("view", name="src/one.py", pos=1)).startswith("src_one_py (src/one.py)  ")
        await caller.text("group", name="outer", add=["my-group", "open", "src/one.py"])
        assert (await caller.text("group", name="my-group", close=True)).startswith("my_group is ")


@pytest.mark.parametrize(
    ("first", "second", "handle"), [("a-b", "a.b", "a_b"), ("c_d", "c d", "c_d"), ("open", "open-", "open_")]
)
async def test_second_name_for_one_identifier_is_refused(project: Path, first: str, second: str, handle: str) -> None:
    async with served(project) as caller:
        await caller.text("view", name=first, path="a.txt")
        assert f"call it {handle}, or choose another name." in await caller.error(
            "view", name=second, path="src/one.py"
        )
        assert "  a.txt  " in await caller.text("view", name=first)
        assert (await caller.text("view", name=second)).startswith(f"{handle} ({second})  a.txt  ")
        for name in (handle, first):
            assert (await caller.text("view", name=name, path="src/one.py")).startswith(handle)
        await caller.text("view", name=first, close=True)
        await caller.text("group", name=first, add=["a.txt"])
        for change in ({"add": ["src"]}, {"remove": ["a.txt"]}, {"tokens": 500}):
            assert f"call it {handle}" in await caller.error("group", name=second, **change)
        assert (await caller.text("group", name=second)).startswith(f"{handle} ({second})  a.txt  ")
        assert "  a.txt, src  " in await caller.text("group", name=handle, add=["src"])


async def test_long_names_stay_distinct(project: Path) -> None:
    long = "a/" * 150
    async with served(project) as caller:
        for name, path in ((f"{long}one", "a.txt"), (f"{long}two", "src/one.py"), (f"{'1' * 300}", "src/two.py")):
            await caller.text("view", name=name, path=path)
            shown = await caller.text("view", name=name)
            handle = shown.partition(" ")[0]
            assert len(handle) == 64
            assert f"  {path}  " in shown
            assert (await caller.text("view", name=handle)).startswith(f"{handle}  {path}  ")
        assert (await caller.text("view")).startswith("3 handles")


@pytest.mark.parametrize("name", ["", "---", "\u65e5\u672c"])
async def test_invalid_names_fail_schema_and_call(project: Path, name: str) -> None:
    async with served(project) as caller:
        tools = {tool.name: tool for tool in (await caller.client.list_tools()).tools}
        for tool in ("view", "group"):
            assert not re.search(tools[tool].input_schema["properties"]["name"]["pattern"], name)
            assert "name" in await caller.error(tool, name=name, **({"path": "a.txt"} if tool == "view" else {}))
