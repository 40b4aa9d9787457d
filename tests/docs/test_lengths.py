"""A module that is long says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("acp_adapter", "conformance", "engine", "mcp_tools")
MOST = 300
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
LONG = [path for path in MODULES if path.read_text(encoding="utf-8").count("\n") > MOST]
REASON = re.compile(
    r"(?:One file in spite of its length|over 300 lines|more than 300 lines|Long[^.]*), because", re.IGNORECASE
)


@pytest.mark.parametrize("path", LONG, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_of_more_than_300_lines_says_why(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert REASON.search(" ".join(text.partition("\nfrom __future__")[0].split()))
