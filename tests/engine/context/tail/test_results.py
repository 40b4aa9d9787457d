"""A value's share of the context window, as documented."""

from __future__ import annotations

from pathlib import Path

from engine.context.tail.results import VALUE_LEAST, VALUE_SHARE, value_chars
from engine.runtime.worker.statements.output import MOST_ITEMS

TOOLS_PAGE = Path(__file__).parents[4] / "docs" / "tools.md"


def test_the_share_grows_with_the_window_from_a_minimum() -> None:
    assert value_chars(128_000) == 6_400
    assert value_chars(1_000) == VALUE_LEAST


def test_the_documentation_names_the_limits() -> None:
    text = TOOLS_PAGE.read_text(encoding="utf-8")
    assert f"the first {MOST_ITEMS:,} items" in text
    assert f"1/{VALUE_SHARE} of `context_budget`" in text
    assert f"at least {VALUE_LEAST:,} characters" in text
