"""The suite on the MCP server runs, and says what it found."""

from __future__ import annotations

import pytest

from benchmarks import bench_mcp
from benchmarks.measuring import Setting


@pytest.mark.slow
def test_a_quick_look_has_every_row() -> None:
    rows = bench_mcp.run(Setting(quick=True))
    assert [row.name.partition(":")[0] for row in rows] == [
        "start -> initialize",
        "first view after it, back to back; the peer reads the file",
        *[
            f"{what} {where}"
            for where in ("on stdio", "over HTTP")
            for what in ("list of handles", "timeline", "resource", "recorded call")
        ],
        "memory after a view",
        "memory of each further session",
        *["tokens that are advertised"] * 3,
    ]
    assert all(row.ours and row.met is not None for row in rows)
    assert all(row.met for row in rows if "tokens" in row.name or "memory" in row.name)
