"""The forms of `pos`, and what each means in given lines."""

from __future__ import annotations

import pytest

from engine.files.document import Place, checked_pos, resolve

_LINES = ["abc", "", "de"]


@pytest.mark.parametrize(
    ("pos", "place"),
    [
        ("0:0", Place(0, 0)),
        ("1:0", Place(0, 0)),
        ("1:2", Place(0, 2)),
        ("3", Place(2, 0)),
        (" 3 ", Place(2, 0)),
        ("99:99", Place(2, 2)),
        (0, Place(0, 0)),
        (3, Place(0, 3)),
        (4, Place(1, 0)),
        (5, Place(2, 0)),
        (7, Place(2, 2)),
        (1000, Place(2, 2)),
    ],
)
def test_positions_mean_lines_and_columns(pos: str | int, place: Place) -> None:
    assert resolve(checked_pos(pos), _LINES) == place


@pytest.mark.parametrize("pos", ["0:0", "7:3", 12])
def test_a_position_in_nothing_is_the_start(pos: str | int) -> None:
    assert resolve(pos, []) == Place(0, 0)


@pytest.mark.parametrize("pos", ["", " ", "a\nb", "x" * 500, "-1", "1:2:3", "\u0661", -1, 1.5, None, True, "1" * 13])
def test_what_is_no_position_is_refused_with_the_forms_there_are(pos: object) -> None:
    with pytest.raises(ValueError, match='give "line:col", "line", a character offset, or a symbol'):
        checked_pos(pos)
