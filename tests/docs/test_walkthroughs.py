"""The commands of the tutorial and of the how-to pages print what these show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stores import ROOT
from tests.support.walkthrough import blocks, comparable, outputs

DOCS = ROOT / "docs"
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_print_what_the_page_shows(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert blocks(page)
    for shown, now in zip(blocks(page), outputs(page), strict=True):
        expected, printed = comparable(shown), comparable(now)
        if sorted(printed.split()) == sorted(expected.split()):
            continue  # on a busy machine, lines on two streams may change places
        assert printed == expected, f"`python -m tests.support.walkthrough {path.relative_to(ROOT)}`"
