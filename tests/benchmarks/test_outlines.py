"""The suite on outlines runs, and says what it found."""

from __future__ import annotations

import pytest

from benchmarks import bench_outlines
from benchmarks.measuring import Setting


@pytest.mark.slow
def test_a_quick_look_has_every_row() -> None:
    rows = bench_outlines.run(Setting(quick=True))
    assert len(rows) == 7
    assert all(row.ours and row.met is None for row in rows)
