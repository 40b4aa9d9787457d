"""The generated pages match the code, and everything on them has a docstring."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.suites.registry import SUITES
from docs.generator.__main__ import DOCS, PAGES
from docs.generator.public_kit import KIT
from docs.generator.source import UNDOCUMENTED

EACH_PAGE = pytest.mark.parametrize(("name", "page"), PAGES, ids=lambda value: value if isinstance(value, str) else "")
KIT_REQUIREMENTS = 56
"""Requirements of the public compatibility kit for version 1."""


@EACH_PAGE
def test_page_is_up_to_date(name: str, page: Callable[[], str]) -> None:
    is_current = (DOCS / name).read_text(encoding="utf-8") == page()
    assert is_current, f"docs/{name} is out of date; run `make docs` and commit it"


@EACH_PAGE
def test_everything_on_a_page_has_a_docstring(name: str, page: Callable[[], str]) -> None:
    lines = page().splitlines()
    found = [lines[max(number - 6, 0) : number + 1] for number, line in enumerate(lines) if UNDOCUMENTED in line]
    assert not found, f"docs/{name}: give these a docstring: {found}"


def test_every_kit_requirement_has_one_of_ours() -> None:
    ours = {row.id for row in SUITES["acp"]().requirements}
    assert len(KIT) == KIT_REQUIREMENTS
    assert {kit_id for kit_id, found in KIT.items() if not found} == set()
    assert {f"ACP1-A-{one}" for found in KIT.values() for one in found} - ours == set()
