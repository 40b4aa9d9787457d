"""The generated pages: they say what the code says, and every public name and kind of event says what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from docs.generator.__main__ import DOCS, PAGES
from docs.generator.source import UNDOCUMENTED


@pytest.mark.parametrize(("name", "page"), PAGES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_generated_page_is_up_to_date(name: str, page: Callable[[], str]) -> None:
    is_current = (DOCS / name).read_text(encoding="utf-8") == page()
    assert is_current, f"docs/{name} does not say what the code says any more; run `make docs` and commit it"


@pytest.mark.parametrize(("name", "page"), PAGES, ids=lambda value: value if isinstance(value, str) else "")
def test_everything_on_a_generated_page_has_a_docstring(name: str, page: Callable[[], str]) -> None:
    lines = page().splitlines()
    found = [lines[max(number - 6, 0) : number + 1] for number, line in enumerate(lines) if UNDOCUMENTED in line]
    assert not found, f"docs/{name}: give these a docstring: {found}"
