"""What a session keeps for rebuilds stays within `past_bytes`, and a rebuild names what it misses for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.past import Life, until_committed

pytestmark = pytest.mark.slow


def test_rebuild_names_dropped_old_values_and_restores_the_rest(tmp_path: Path) -> None:
    with Life(tmp_path, REWINDOW_PAST_BYTES="30000") as life:
        life.ok("import os")
        for name in "abcdef":
            life.ok(f"os.system('true'); {name} = os.urandom(8000)")
        until_committed(life.state, life.session, "values_dropped")
        said = life.events("values_dropped")
        assert said
        assert {event["limit"] for event in said} == {30_000}
        assert all(event["executions"] >= 1 and event["copies"] >= 1 and event["size"] >= 8000 for event in said)
        life.lose("load")
        assert life.value("len(e), len(f)") == "(8000, 8000)"
        report = life.reports()[-1]
        dropped = [line for line in report if "its copy was dropped to stay within past_bytes" in line]
        assert any("no copy of a (" in line for line in dropped), report
        assert not any(" of e (" in line or " of f (" in line for line in dropped), report
