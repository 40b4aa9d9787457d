"""The tools, called by a client: each does its work, and each mistake gets advice."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from engine import session_named
from engine.core.clock import SystemClock
from engine.core.tokens import count
from engine.log.events.execution import StatementRecorded
from engine.log.events.session import SessionOpened
from engine.log.store.memory import MemoryStore
from mcp_tools.access import Roots
from mcp_tools.replies import CURSOR, HANDLE
from mcp_tools.server import INSTRUCTIONS
from mcp_tools.tools.history import NO_STATEMENT, NOTHING_CHANGED
from mcp_tools.tools.views import NO_HANDLES
from tests.support.mcp_clients import ERAS, Era, served, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    (root / "src" / "one.py").write_text('"""One."""\n\n\nclass One:\n    def first(self) -> int:\n        return 1\n')
    (root / "src" / "two.py").write_text('"""Two."""\n\n\ndef second() -> int:\n    return 2\n')
    return root


@pytest.mark.parametrize("era", ERAS)
async def test_view_opens_moves_and_shows(project: Path, era: Era) -> None:
    async with served(project, era=era) as caller:
        assert await caller.text("view") == NO_HANDLES
        result = await caller.result("view", path="a.txt", tokens=60)
        first, *rest = text_of(result).split("\n")
        assert re.fullmatch(r"a  a\.txt  lines 1-\d+ of 100  \d\d/60 tokens  lod 0  statement 1", first)
        assert rest[0] == "1\tline 1"
        facts = (result.meta or {})[HANDLE]
        assert f"lines 1-{facts.pop('lastLine')} of 100  {facts.pop('tokens')}/60" in first
        assert facts | {"revision": ""} == {
            "name": "a",
            "id": "view-1.1",
            "title": "a.txt",
            "firstLine": 1,
            "lines": 100,
            "revision": "",
            "budget": 60,
            "lod": 0,
            "follows": False,
            "statement": 1,
        }
        assert result.structured_content is None
        moved = await caller.text("view", name="a", pos=50, tokens=40, follow=True)
        assert moved.startswith("a  a.txt:50  lines ")
        assert "  follows  statement 2\n" in moved
        assert "50\tline 50" in moved
        assert "60\tline 60" in await caller.text("view", name="a", scroll=10)
        named = await caller.text("view", name="first", path="src/one.py", pos="One.first", lod=1, tokens=300)
        assert named.startswith("first  src/one.py:5 (One.first)  6 lines  ")
        listed = (await caller.text("view")).split("\n")
        assert [line.split("  ")[:3] for line in listed] == [
            ["2 handles"],
            ["a", "view", "a.txt:60"],
            ["first", "view", "src/one.py:5 (One.first)"],
        ]
        assert listed[1].endswith("/40 tokens  lod 0  follows")
        (project / "a.txt").write_text("other\n")
        assert "line 60" in await caller.text("view", name="a")
        assert "other" in await caller.text("view", name="a", refresh=True)
        assert await caller.text("view", name="a", close=True) == "a is closed  statement 7"
        assert "There is no view a; open: first." in await caller.error("view", name="a")


async def test_path_without_name_has_one_view(project: Path) -> None:
    async with served(project) as caller:
        assert (await caller.text("view", path="src/one.py")).startswith("one  ")
        assert (await caller.text("view", path="src/one.py", tokens=40)).startswith("one  ")
        (project / "one.py").write_text("1\n")
        (project / "class.py").write_text("1\n")
        assert (await caller.text("view", path="one.py")).startswith("one_2  ")
        assert (await caller.text("view", path="class.py")).startswith("file_class  ")
        assert (await caller.text("view", path="src")).startswith("src  src  ")


async def test_missing_file_leaves_no_handle(project: Path) -> None:
    async with served(project) as caller:
        assert await caller.error("view", path="nothing.txt") == "no file nothing.txt."
        assert "is not a valid path" in await caller.error("view", path="a\0b")
        assert await caller.text("view") == NO_HANDLES


async def test_reopened_name_replaces_view_in_groups(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", name="a", path="a.txt", tokens=60, follow=True)
        await caller.text("group", name="g", add=["a", "src/one.py"])
        await caller.text("group", name="outer", add=["g"])
        assert await caller.error("view", name="a", path="nothing.txt") == "no file nothing.txt."
        assert "outside the workspace" in await caller.error("view", name="a", path="/etc/passwd")
        assert "has no symbol of that name" in await caller.error("view", name="a", path="src/two.py", pos="nobody")
        shown = await caller.text("view", name="a")
        assert shown.startswith("a  a.txt  ")
        assert "  follows  " in shown
        assert (await caller.text("view", name="a", path="src/two.py")).startswith("a  src/two.py  ")
        group = await caller.text("group", name="g")
        assert group.startswith("g  a, src/one.py  ")
        assert [line for line in group.split("\n") if line.startswith("# a: ")] == ["# a: src/two.py: 5 lines"]
        assert "line 1\n" not in group
        (project / "a.txt").write_text("nobody looks at this\n")
        assert "nobody" not in await caller.text("tick")
        assert [line.partition("  ")[0] for line in (await caller.text("view")).split("\n")[1:]] == ["g", "outer", "a"]


async def test_closed_handle_leaves_its_groups(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", name="a", path="a.txt", follow=True)
        await caller.text("group", name="g", add=["a", "src/one.py"])
        await caller.text("group", name="outer", add=["g", "a"])
        await caller.text("view", name="a", close=True)
        assert (await caller.text("group", name="g")).startswith("g  src/one.py  ")
        await caller.text("group", name="g", close=True)
        assert (await caller.text("group", name="outer")).startswith("outer  no members  ")
        assert "g.Remove(a); outer.Remove(a); del a" in await caller.text("timeline")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": "g", "path": "a.txt"}, "g is already a group"),
        ({"name": "n", "path": "a.txt"}, "n is a variable of this session; choose another name."),
        ({"name": "n"}, "n is a variable of this session, not a view."),
        ({"name": "g"}, "g is a group; use the tool `group` for it."),
        ({"name": "viev"}, "There is no view viev; open: view1. Did you mean view1?"),
        ({"tokens": 5}, "view needs `path` to open a view, or the `name` of an open one."),
        ({"name": "view1", "close": True, "pos": 5}, "`close` takes the `name` of a view, not pos."),
        ({"path": "a.txt", "scroll": 5}, "`scroll` moves an open view"),
        ({"name": "view1", "pos": "nobody"}, "has no symbol of that name"),
        ({"name": "view1", "pos": "1:2:3"}, 'give "line:col"'),
    ],
)
async def test_mistakes_get_advice(project: Path, arguments: dict[str, object], sentence: str) -> None:
    async with served(project, runs=True) as caller:
        await caller.text("view", path="src/one.py", name="view1")
        await caller.text("group", name="g")
        await caller.text("run", code="n = 5")
        assert sentence in await caller.error("view", **arguments)


async def test_group_is_made_changed_and_closed(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", tokens=60)
        made = await caller.text("group", name="g", add=["a", "src/*.py"], tokens=300)
        assert made.startswith("g  a, src/*.py  ")
        assert "# src/two.py" in made
        assert "line 1" in made
        without = await caller.text("group", name="g", remove=["a"], tokens=100)
        assert without.startswith("g  src/*.py  ")
        assert "/100 tokens  lod 1  follows  statement 3" in without
        assert "g is closed" in await caller.text("group", name="g", close=True)
        assert "There is no group g; open one with `group` and `add`." in await caller.error(
            "group", name="g", close=True
        )
        assert (await caller.text("view")).startswith("1 handle\na  view")


async def test_group_follows_only_if_members_follow(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt")
        made = await caller.result("group", name="g", add=["a"])
        assert "follows" not in text_of(made).partition("\n")[0]
        assert (made.meta or {})[HANDLE]["follows"] is False
        await caller.text("view", name="a", follow=True)
        assert "  follows" in (await caller.text("group", name="g")).partition("\n")[0]
        assert [("g" in line, "follows" in line) for line in (await caller.text("view")).splitlines()[1:]] == [
            (False, True),
            (True, True),
        ]
        await caller.text("view", name="a", follow=False)
        assert "follows" not in await caller.text("view")


@pytest.mark.parametrize("era", ERAS)
async def test_tick_reports_changes_by_cursor(project: Path, era: Era) -> None:
    async with served(project, era=era) as caller:
        await caller.text("view", path="a.txt", name="a", follow=True)
        await caller.text("view", path="src/one.py", name="one")
        assert (await caller.text("tick")).startswith(f"{NOTHING_CHANGED}\ncursor ")
        start = int((await caller.text("tick")).rsplit(" ", 1)[1])
        (project / "a.txt").write_text("changed\n" + (project / "a.txt").read_text())
        (project / "src" / "one.py").write_text("nobody follows this\n")
        result = await caller.result("tick")
        told = text_of(result)
        assert told.startswith("a: 1 line changed in a.txt")
        assert "+changed" in told
        assert (result.meta or {})[CURSOR] == int(told.rsplit(" ", 1)[1])
        assert (await caller.text("tick")).startswith(NOTHING_CHANGED)
        assert (await caller.text("tick", since=start)).startswith("a: 1 line changed")
        assert (await caller.text("tick", since=start)).startswith("a: 1 line changed")
        assert "There is no cursor 99999 yet; the newest is " in await caller.error("tick", since=99999)


async def test_waiting_tick_does_not_block_calls(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name="a", follow=True)
        assert (await caller.text("tick", wait=0.1)).startswith(NOTHING_CHANGED)
        told: list[str] = []
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                told.append(await caller.text("tick", wait=25))

            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            assert "statement 2" in await caller.text("view", path="src/two.py")
            assert told == []
            (project / "a.txt").write_text("changed\n")
        assert told[0].startswith("a: ")


async def test_tick_keeps_newest_changes_within_budget(project: Path) -> None:
    async with served(project) as caller:
        start = (await caller.text("tick")).rsplit(" ", 1)[1]
        await caller.text("view", path="a.txt", name="a", follow=True)
        for number in range(6):
            (project / "a.txt").write_text(f"change {number}\n")
            await caller.text("tick")
        told = await caller.text("tick", since=int(start), tokens=120)
        assert told.split("\n")[0].endswith(" earlier changes left out")
        assert "+change 5" in told
        assert "+change 1" not in told
        for tokens in (5, 15, 20, 60):
            told = (await caller.text("tick", since=int(start), tokens=tokens)).rpartition("\ncursor ")[0]
            assert told.startswith("5 earlier changes left out")
            assert count(told) <= tokens
        assert "+change 5" in told


async def test_timeline_lists_statements(project: Path) -> None:
    async with served(project) as caller:
        assert await caller.text("timeline") == NO_STATEMENT
        assert "no statement has run yet" in await caller.error("timeline", statement=1)
        await caller.text("view", path="a.txt", tokens=60)
        await caller.error("view", name="a", pos="nobody")
        await caller.text("view")
        lines = (await caller.text("timeline")).split("\n")
        assert [line.split("  ")[0] for line in lines] == ["1", "2"]
        assert lines[0].endswith("a = view('a.txt', tokens=60)")
        assert lines[1].split("  ")[1].startswith("error ")
        whole = await caller.text("timeline", statement=1)
        assert "a = view('a.txt', tokens=60)\n--\n[a.txt]\n1\tline 1\n" in whole
        assert len((await caller.text("timeline", statement=1, tokens=30)).split()) < 40
        assert "the statements are numbered from 1 to 2" in await caller.error("timeline", statement=3)
        for _ in range(30):
            await caller.text("view", name="a")
        assert (
            (await caller.text("timeline", tokens=60))
            .split("\n")[0]
            .endswith(" earlier; pass `statement` to show one of them")
        )


async def test_python_runs_only_if_allowed(project: Path) -> None:
    async with served(project) as caller:
        with pytest.raises(MCPError, match="Unknown tool: run; the tools are view, group, tick, timeline"):
            await caller.result("run", code="1")
        assert [tool.name for tool in (await caller.client.list_tools()).tools] == ["view", "group", "tick", "timeline"]
    async with served(project, runs=True) as caller:
        ran = await caller.text("run", code="print('out'); a = view('a.txt', tokens=40); 6 * 7")
        assert ran.startswith("statement 1  ok  ")
        assert "out\n[a.txt]\n1\tline 1" in ran
        assert ran.endswith("42")
        assert (await caller.text("view", name="a")).startswith("a  a.txt  ")
        failed = await caller.error("run", code="1 / 0")
        assert "ZeroDivisionError" in failed
        assert "  timeout  " in await caller.error("run", code="while True: pass", seconds=0.2)
        long = await caller.text("run", code="print('word ' * 5000)", tokens=50)
        assert "characters left out" in long
        assert long.count("word") <= 50


async def test_named_session_reopens_with_its_handles(project: Path) -> None:
    store = MemoryStore(SystemClock())
    async with served(project, store=store, session="work") as caller:
        await caller.text("view", path="a.txt", name="a", tokens=60)
    async with served(project, store=store, session="work", era="legacy") as caller:
        (project / "a.txt").write_text("other\n")
        assert "line 1" in await caller.text("view", name="a")
    events = store.load(session_named("work"))
    assert isinstance(events[0], SessionOpened)
    assert events[0].client == "mcp 0.1.0"
    assert [event.source for event in events if isinstance(event, StatementRecorded)] == [
        "a = view('a.txt', tokens=60)",
        "show(a)",
    ]
    async with served(project, store=store, session="work", limit=Roots((str(project / "src"),))) as caller:
        assert "Cannot open a session: session named_work showed files of" in await caller.error("view")


@pytest.mark.parametrize("era", ERAS)
async def test_rewind_restores_names_and_files(project: Path, era: Era) -> None:
    async with served(project, era=era, runs=True) as caller:
        await caller.text("run", code="a = view('a.txt', tokens=40); n = 1; w = write('new.txt', '1')")
        await caller.text("run", code="from pathlib import Path\nn = 2; w = Path('new.txt').write_text('2')")
        await caller.text("view", name="two", path="src/two.py")
        back = await caller.text("rewind", to=1)
        assert back.split("\n") == [
            "after statement 1  branch b1",
            "Restored 1 file to its contents after statement 1: new.txt.",
        ]
        assert (project / "new.txt").read_text() == "1"
        assert (await caller.text("run", code="n")).endswith("\n1")
        assert [line.split("  ")[0] for line in (await caller.text("view")).split("\n")] == ["1 handle", "a"]
        (project / "new.txt").write_text("by hand")
        assert (await caller.text("rewind", to=0)).split("\n")[1:] == [
            "new.txt was not restored: the file has changed since the session last wrote it."
        ]
        assert await caller.text("view") == NO_HANDLES
        assert await caller.text("rewind", to=0, files=False) == "after statement 0  branch b3"
        assert await caller.error("rewind", to=1) == NO_STATEMENT
    async with served(project, era=era) as caller:
        with pytest.raises(MCPError, match="Unknown tool: rewind"):
            await caller.result("rewind", to=0)


async def test_rewind_leaves_what_is_protected_since(project: Path) -> None:
    (project / "tools").mkdir()
    async with served(project, runs=True) as caller:
        for text in ("earlier", "later"):
            await caller.text("run", code=f"w = write('tools/pre-commit', '{text}')")
        await anyio.run_process(["git", "init", "-q", project])
        await anyio.run_process(["git", "-C", project, "config", "core.hooksPath", "tools"])
        said = await caller.text("rewind", to=1)
    assert (project / "tools/pre-commit").read_text() == "later"
    assert "tools/pre-commit was not restored: the file is protected, because" in said


@pytest.mark.parametrize("era", ERAS)
async def test_replay_reports_differences(project: Path, era: Era) -> None:
    async with served(project, era=era, runs=True) as caller:
        await caller.text("run", code="import os; n = 1")
        await caller.text("run", code="token = os.urandom(4).hex(); w = write('new.txt', token); token")
        again = (await caller.text("replay", **{"from": 1})).split("\n")
        assert again[0].startswith("2 statements ran again, with their recorded answers: 1 differs")
        assert again[1].startswith("- statement 2: `value: ")
        dry = await caller.text("replay", **{"from": 1, "mode": "dry"})
        assert "up to the first effect" in dry
        assert "There is no statement 9" in await caller.error("replay", **{"from": 9})
        edited = await caller.text("replay", **{"from": 1, "code": "import os; n = 2"})
        assert "- statement 1: `diff: n = 2 instead of n = 1`" in edited
        assert (await caller.text("run", code="n")).endswith("\n2")
        assert "not Python" in await caller.error("replay", **{"from": 1, "code": "import"})


async def test_read_only_tools_are_annotated(project: Path) -> None:
    async with served(project, runs=True) as caller:
        tools = (await caller.client.list_tools()).tools
    safe = {tool.name for tool in tools if tool.annotations is not None and tool.annotations.read_only_hint}
    assert safe == {"view", "group", "tick", "timeline"}


async def test_advertised_tools_cost_few_tokens(project: Path) -> None:
    async with served(project, runs=True) as caller:
        tools = (await caller.client.list_tools()).tools
        cost = [count(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools]
    assert sum(cost[:4]) <= 900
    assert sum(cost[:5]) <= 1100
    assert sum(cost) <= 1400
    assert count(INSTRUCTIONS) <= 200
