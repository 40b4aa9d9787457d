"""What was read without its secrets is recognised before it is written back."""

from __future__ import annotations

import pytest

from engine.log.redaction import marked_line


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("KEY=abc\n", "A=1\nKEY=***\n", 2),
        ("", '{"token": "***"}', 1),
        ("", "Authorization: Bearer ***\r\n", 1),
        ("KEY=***\n", "KEY=***\nB=2\n", None),
        ("KEY=***\n", "KEY=***\nB=***\n", 1),
        ("", "***bold and leaning***", None),
        ("", "one\n\n***\n\ntwo\n", None),
        ("", "****", None),
        ("", "x**3", None),
        ("", "", None),
    ],
)
def test_a_mark_that_was_not_there_before_is_found(before: str, after: str, line: int | None) -> None:
    assert marked_line(before.encode(), after.encode()) == line
