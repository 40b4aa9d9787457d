"""Whatever arguments a client makes up, it is answered with a text, and the server goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_tools.tools import TOOLS
from tests.support.mcp_clients import served, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
NAMES = sorted({name for row in TOOLS for name in row.schema["properties"]} - {"wait"})
LIKELY = st.sampled_from(
    ["a", "g", "a.txt", "*", "class", "", "../x", "a.txt:1", "1:1", 0, 1, 2, 3, 20_000, -1, True, []]
)
VALUES = st.recursive(
    LIKELY | st.none() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
CALLS = st.tuples(
    st.sampled_from([row.name for row in TOOLS]),
    st.dictionaries(st.sampled_from([*NAMES, "nobody"]), VALUES, max_size=4),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(CALLS, max_size=40))
async def test_random_arguments(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, dict[str, object]]]
) -> None:
    root: Path = tmp_path_factory.mktemp("project")
    (root / "a.txt").write_text("one\n")
    async with served(root) as caller:
        for tool, arguments in calls:
            said = text_of(await caller.result(tool, **{"name": "a", **arguments} if tool == "group" else arguments))
            assert said
            assert "Traceback" not in said
        assert await caller.text("view", name="last", path="a.txt")
