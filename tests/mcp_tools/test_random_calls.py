"""Random calls: every reply is a text within its budget, and statements contain only names and literals."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import session_named
from engine.core.clock import SystemClock
from engine.core.tokens import count
from engine.files.detail import LEVELS
from engine.log.events.execution import StatementRecorded
from engine.log.store.memory import MemoryStore
from mcp_tools.client_session import to_identifier
from mcp_tools.tools import TOOLS
from mcp_tools.tools.history import NOTHING_CHANGED
from tests.support.mcp_clients import Caller, served, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_ALLOWED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

NAMES = sorted({name for row in TOOLS for name in row.schema["properties"]} - {"wait"})

LIKELY = st.sampled_from(
    ["a", "g", "a.txt", "*", "class", "", "../x", "a.txt:1", "1:1", 0, 1, 2, 3, 20_000, -1, True, []]
)

HOSTILE = st.sampled_from(
    ["a'); import os; ('", "__import__('os')", "a.__class__", "\\", "'''", "{a}", "a\n1/0", "x;y"]
)

VALUES = st.recursive(
    LIKELY | HOSTILE | st.none() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)

MADE_UP = st.tuples(
    st.sampled_from([row.name for row in TOOLS]),
    st.dictionaries(st.sampled_from([*NAMES, "nobody"]), VALUES, max_size=4),
)

SOME_NAME = st.sampled_from(["a", "b", "g", "h"])

TAKEN = st.one_of(
    st.tuples(
        st.just("view"),
        st.fixed_dictionaries(
            {"name": SOME_NAME, "path": st.sampled_from(["a.txt", "b.py", ".", "a'b.txt"])},
            optional={"tokens": st.integers(1, 300), "lod": st.integers(0, 3), "follow": st.booleans()},
        ),
    ),
    st.tuples(
        st.just("view"),
        st.fixed_dictionaries(
            {"name": SOME_NAME},
            optional={"scroll": st.integers(-9, 9), "pos": st.integers(0, 30), "refresh": st.booleans()},
        ),
    ),
    st.tuples(
        st.just("group"),
        st.fixed_dictionaries(
            {"name": SOME_NAME},
            optional={
                "add": st.lists(SOME_NAME | HOSTILE | st.sampled_from(["*.py", "**/*"]), max_size=3),
                "remove": st.lists(SOME_NAME, max_size=2),
                "tokens": st.integers(1, 300),
            },
        ),
    ),
    st.tuples(st.just("tick"), st.just({})),
)
"""Calls that mostly succeed."""

NODES = (
    ast.Module,
    ast.Expr,
    ast.Assign,
    ast.Delete,
    ast.Call,
    ast.Attribute,
    ast.Name,
    ast.Constant,
    ast.keyword,
    ast.UnaryOp,
    ast.USub,
    ast.expr_context,
)
"""Syntax nodes of statements with only names and literals."""

METHODS = {"Refresh", "SetPos", "Scroll", "SetTokens", "SetLod", "Run", "Pause", "Add", "Remove"}


async def called(caller: Caller, tool: str, arguments: dict[str, object]) -> str:
    return text_of(await caller.result(tool, **arguments))


def check_sources(store: MemoryStore) -> None:
    """Check that statements contain only handle names and literals from the clients."""
    for event in store.load(session_named("work")):
        if isinstance(event, StatementRecorded):
            for node in ast.walk(ast.parse(event.source)):
                assert isinstance(node, NODES), event.source
                if isinstance(node, ast.Name):
                    assert node.id in {"view", "group", "show"} or to_identifier(node.id) == node.id, event.source
                if isinstance(node, ast.Attribute):
                    assert node.attr in METHODS, event.source


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(calls=st.lists(MADE_UP | TAKEN, max_size=40))
async def test_random_arguments(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, dict[str, object]]]
) -> None:
    root: Path = tmp_path_factory.mktemp("project")
    (root / "a.txt").write_text("one\n" * 30)
    (root / "b.py").write_text("class B:\n    def one(self) -> int:\n        return 1\n")
    (root / "a'b.txt").write_text("quoted\n")
    store = MemoryStore(SystemClock())
    async with served(root, store=store, session="work") as caller:
        for number, (tool, arguments) in enumerate(calls):
            said = await called(caller, tool, {"name": "a", **arguments} if tool == "group" else arguments)
            assert said
            assert "Traceback" not in said
            if number % 5 == 4:
                (root / "a.txt").write_text(f"{number}\n" * 30)
        assert await caller.text("view", name="last", path="a.txt")
    check_sources(store)


TEXT = st.text(
    st.sampled_from("ab \n\t\0\x1b漢字🎉\u200b\u2028é\ud800()=:#'\"") | st.characters(exclude_categories=()),
    max_size=300,
)

BUDGETS = st.integers(1, 60) | st.integers(1, 20_000)


def content(text: str, times: int) -> bytes:
    return (text * times).encode("utf-8", "surrogatepass")[:1_000_000]


def body(reply: str) -> str:
    """The reply without its first line."""
    return reply.partition("\n")[2]


async def check(root: Path, files: list[bytes], tokens: int) -> None:
    for number, data in enumerate(files):
        (root / f"f{number}.py").write_bytes(data)
    async with served(root, runs=True) as caller:

        async def reply(tool: str, **arguments: object) -> str:
            return text_of(await caller.result(tool, **arguments))

        for lod in LEVELS:
            shown = await reply("view", name="v", path="f0.py", tokens=tokens, lod=lod, follow=True)
            assert count(body(shown)) <= tokens, shown
        shown = await reply("group", name="g", add=["v", "*.py"], tokens=tokens)
        assert count(body(shown)) <= tokens, shown
        (root / "f0.py").write_bytes(files[-1] + b"\nchanged\n")
        told, _, _ = (await reply("tick", tokens=tokens)).rpartition("\ncursor ")
        assert told == NOTHING_CHANGED or count(told) <= tokens, told
        ran = await reply("run", code="print(open('f0.py', errors='surrogateescape').read())", tokens=tokens)
        assert count(body(ran)) <= tokens, ran
        for arguments in ({}, {"statement": 1}, {"statement": 7}):
            assert count(body(await reply("timeline", tokens=tokens, **arguments))) <= tokens


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    files=st.lists(st.builds(content, TEXT, st.sampled_from([1, 30, 10_000])), min_size=1, max_size=3), tokens=BUDGETS
)
async def test_replies_stay_within_budget(
    tmp_path_factory: pytest.TempPathFactory, files: list[bytes], tokens: int
) -> None:
    await check(tmp_path_factory.mktemp("project"), files, tokens)


@pytest.mark.parametrize("line", ["x", "漢", "🎉", "\0"])
@pytest.mark.parametrize("tokens", [1, 20_000])
async def test_huge_lines_stay_within_budget(tmp_path: Path, line: str, tokens: int) -> None:
    data = line.encode() * (10_000_000 // len(line.encode()))
    await check(tmp_path, [data], tokens)
