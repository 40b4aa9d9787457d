"""The rows on turns through a model server: what is counted as read, and that a peer that is not there is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import bench_turns
from benchmarks.measuring import Setting
from benchmarks.prompts import shared_tokens, text_of, tools_of
from engine.core.tokens import count


def test_tokens_shared_with_the_previous_prompt_are_counted() -> None:
    first, second = "tools; hello there", "tools; hello you, there"
    assert shared_tokens([first, second, second]) == count("tools; hello ") + count(second)
    assert shared_tokens([first]) == shared_tokens(["x", "y"]) == 0


def test_prompt_is_its_tools_and_then_its_messages() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    body = {"messages": [{"role": "user", "content": "hi"}, called], "tools": [{"name": "python"}]}
    assert tools_of(body) == '[{"name": "python"}]'
    assert text_of(body) == 'user: hi""\nassistant: [{"id": "c"}]\n'
    assert tools_of({"messages": []}) == ""


@pytest.mark.slow
def test_uninstallable_peer_is_named_and_sets_no_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_turns, "peer_package", lambda *_: None)
    (tmp_path / "project").mkdir()
    rows = bench_turns.rows(Setting(quick=True), tmp_path)
    assert len(rows) == 5
    assert all(row.ours and row.met is None and row.peer == bench_turns.MISSING for row in rows)
