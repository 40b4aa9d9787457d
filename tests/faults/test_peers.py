"""A few faults of a provider and of MCP servers, with a fixed seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import peers
from tests.support.llm_server import Asked


def test_statement_is_only_for_a_call_of_its_turn() -> None:
    answer = peers.runs("turn 7", "mark()")
    summary = Asked("", {}, {"messages": [{"content": "turn 7"}]})
    late = Asked("", {}, {"messages": [{"content": "turn 6"}], "tools": ["python"]})
    turn = Asked("", {}, {"messages": [{"content": "turn 7"}], "tools": ["python"]})
    runs = [b"mark()" in b"".join(answer(each).pieces) for each in (summary, late, turn, turn)]
    assert runs == [False, False, True, False]


@pytest.mark.slow
def test_turns_work_after_peers_that_misbehave(tmp_path: Path) -> None:
    result = peers.run(tmp_path, 1, 60.0, most=6)
    assert result.wrong == []
    assert result.counts.wire == 6
    assert len(result.kinds) == 2
