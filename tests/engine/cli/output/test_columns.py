"""Aligned columns: widths in cells of a terminal, and what gives way where there is no room."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from engine.cli import output
from engine.cli.output import aligned

ROWS = [("id", "place", "title"), ("a", "/home/me/project", "a long title of a session"), ("bcd", "/漢字", "é")]


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_with_their_text() -> None:
    lines = aligned(ROWS, None, ())
    assert lines == [
        "id   place             title",
        "a    /home/me/project  a long title of a session",
        "bcd  /漢字             é",
    ]


def test_columns_give_way_in_their_order_where_there_is_no_room() -> None:
    for width in (45, 30, 20):
        assert max(map(cell_len, aligned(ROWS, width, (2, 1)))) == width
    assert aligned(ROWS, 45, (2, 1))[1] == "a    /home/me/project  a long title of a ses…"
    assert aligned(ROWS, 20, (2, 1))[1:] == ["a    /home/m…  a lo…", "bcd  /漢字     é"]


def test_a_line_is_longer_where_nothing_more_can_give_way() -> None:
    assert aligned(ROWS, 5, (2, 1))[1] == "a    /hom…  a lo…"


def test_a_wide_character_that_does_not_fit_is_left_out_whole() -> None:
    assert aligned([("漢字漢字",)], 6, (0,)) == ["漢字 …"]


def test_each_cell_is_measured_once_and_ascii_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(output, "cell_len", lambda text: measured.append(text) or cell_len(text))
    aligned(ROWS, 20, (2, 1))
    assert sorted(measured) == ["/漢字", "é"]
