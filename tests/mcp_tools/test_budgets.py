"""A reply is within `tokens` plus its first line, whatever files, output and budgets hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.tokens import count
from tests.support.mcp_clients import served, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TEXT = st.text(
    st.sampled_from("ab \n\t\0\x1b漢字🎉\u200b\u2028é\ud800()=:#'\"") | st.characters(exclude_categories=()),
    max_size=300,
)
BUDGETS = st.integers(1, 60) | st.integers(1, 20_000)


def content(text: str, times: int) -> bytes:
    return (text * times).encode("utf-8", "surrogatepass")[:1_000_000]


def body(reply: str) -> str:
    """What is under the first line."""
    return reply.partition("\n")[2]


async def check(root: Path, files: list[bytes], tokens: int) -> None:
    for number, data in enumerate(files):
        (root / f"f{number}.py").write_bytes(data)
    async with served(root, runs=True) as caller:

        async def reply(tool: str, **arguments: object) -> str:
            return text_of(await caller.result(tool, **arguments))

        for lod in range(4):
            shown = await reply("view", name="v", path="f0.py", tokens=tokens, lod=lod, follow=True)
            assert count(body(shown)) <= tokens, shown
        shown = await reply("group", name="g", add=["v", "*.py"], tokens=tokens)
        assert count(body(shown)) <= tokens, shown
        (root / "f0.py").write_bytes(files[-1] + b"\nchanged\n")
        told, _, _ = (await reply("tick", tokens=tokens)).rpartition("\ncursor ")
        assert told == "Nothing changed." or count(told) <= tokens, told
        ran = await reply("run", code="print(open('f0.py', errors='surrogateescape').read())", tokens=tokens)
        assert count(body(ran)) <= tokens, ran
        for arguments in ({}, {"statement": 1}, {"statement": 7}):
            assert count(body(await reply("timeline", tokens=tokens, **arguments))) <= tokens


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.builds(content, TEXT, st.sampled_from([1, 30, 10_000])), min_size=1, max_size=3), tokens=BUDGETS
)
async def test_whatever_files_hold(tmp_path_factory: pytest.TempPathFactory, files: list[bytes], tokens: int) -> None:
    await check(tmp_path_factory.mktemp("project"), files, tokens)


@pytest.mark.parametrize("line", ["x", "漢", "🎉", "\0"])
@pytest.mark.parametrize("tokens", [1, 20_000])
async def test_a_line_of_ten_megabytes(tmp_path: Path, line: str, tokens: int) -> None:
    data = line.encode() * (10_000_000 // len(line.encode()))
    await check(tmp_path, [data], tokens)
