"""Symbols are found by what a person or model writes."""

from __future__ import annotations

import pytest

from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.model import find_symbol

SOURCE = b"""\
class Store:
    def open(self):
        return 1

    def close(self):
        return 2

class Cache:
    class Entry:
        def open(self):
            return 3

def open(path):
    return 4

def Cached():
    return 5
"""


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ("class Store", 1),
        ("Store", 1),
        ("Store.open", 2),
        ("Store::close", 5),
        ("Store#close", 5),
        ("def Store.close(self):", 5),
        ("close()", 5),
        ("Entry.open", 10),
        ("Cache.Entry.open", 10),
        ("open", 13),
        ("async def open(path) -> None:", 13),
        ("cached", 16),
        ("class store", 1),
    ],
)
def test_a_symbol_is_found_by_what_is_written_for_it(wanted: str, line: int) -> None:
    found = find_symbol(outline_by_indentation(SOURCE), wanted).symbol

    assert found is not None
    assert found.first_line == line


def test_where_none_fits_the_nearest_names_are_told() -> None:
    outline = outline_by_indentation(SOURCE)

    assert find_symbol(outline, "Store.opn").symbol is None
    assert "open" in {name.rpartition(".")[2] for name in find_symbol(outline, "Store.opn").nearest}
    assert find_symbol(outline, "Entr").nearest[0] == "Cache.Entry"
    assert find_symbol(outline, "zzzzzz") == (None, ())
    assert find_symbol(outline, " ") == (None, ())


def test_a_kind_chooses_between_symbols_of_one_name() -> None:
    outline = outline_by_indentation(b"def run():\n    pass\n\nclass run:\n    pass\n")

    assert find_symbol(outline, "class run").symbol == outline.symbols[1]
    assert find_symbol(outline, "def run").symbol == outline.symbols[0]
    assert find_symbol(outline, "struct run").symbol == outline.symbols[1]
