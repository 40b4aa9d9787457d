"""The hint for a mistaken edit: what it finds, and that no text makes it long or slow."""

from __future__ import annotations

import time

import pytest

from engine.session.tools.edit import nearest

CODE = "class A:\n    def one(self):\n        return 1\n\n    def two(self, value):\n        return value\n"


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ("def two(self, value):\n    return value", [5, 6]),
        ("class  A:\n\tdef one(self):", [1, 2]),
        ("def two(self, values):", [5]),
        ("        return valu", [6, 3]),
        ("zebra", []),
        ("\n\n", []),
        ("   ", []),
    ],
)
def test_the_lines_that_are_meant_are_named(wanted: str, numbers: list[int]) -> None:
    hint = nearest(CODE, wanted)
    assert [int(line.split()[0]) for line in hint.split("\n")[1:]][: len(numbers)] == numbers
    assert bool(hint) == bool(numbers)


HOSTILE = {
    "one line": ("word " * 400_000, "word " * 1_000 + "x"),
    "the same line": ("    pass\n" * 100_000, "pass\n" * 2_000 + "x"),
    "the same word": ("word other\n" * 100_000, "word another thing"),
    "no word": ("+-*/ \n" * 100_000, "+-*/+-*/+-*/"),
    "blank lines": ("\n" * 400_000, "\n \nx"),
    "a long text": ("short\n", "long " * 200_000),
    "nothing": ("", "x"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_makes_the_hint_long_or_slow(name: str) -> None:
    text, wanted = HOSTILE[name]
    start = time.process_time()
    assert len(nearest(text, wanted)) < 1_500
    assert time.process_time() - start < 5  # some 0.1 s; an unbounded search takes minutes
