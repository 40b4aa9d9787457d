"""A few faults of a provider and of MCP servers, with a fixed seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import peers, proxy
from tests.support.llm_server import Asked


def test_statement_is_only_for_a_call_of_its_turn() -> None:
    answer = peers.runs("turn 7", "mark()")
    summary = Asked("", {}, {"messages": [{"content": "turn 7"}]})
    late = Asked("", {}, {"messages": [{"content": "turn 6"}], "tools": ["python"]})
    turn = Asked("", {}, {"messages": [{"content": "turn 7"}], "tools": ["python"]})
    runs = [b"mark()" in b"".join(answer(each).pieces) for each in (summary, late, turn, turn)]
    assert runs == [False, False, True, False]


def test_proxy_breaks_the_message_of_that_number() -> None:
    printing = ("import sys; print('first'); print('second'); print('third')",)
    command = [sys.executable, "-S", proxy.__file__, "2"]
    found = {
        fault: subprocess.run(
            [*command, fault, sys.executable, "-S", "-c", *printing],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.split("\n")
        for fault in ("lost", "half", "twice")
    }
    assert found["lost"] == ["first", "third", ""]
    assert found["half"] == ["first", "secthird", ""]
    assert found["twice"] == ["first", "second", "second", "third", ""]
    assert proxy.broken(b"line\n", "flood").endswith(b"}\nline\n")


@pytest.mark.slow
def test_turns_work_after_peers_that_misbehave(tmp_path: Path) -> None:
    result = peers.run(tmp_path, 1, 60.0, most=6)
    assert result.wrong == []
    assert result.counts.wire == 6
    assert len(result.kinds) == 2
