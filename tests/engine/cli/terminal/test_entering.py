"""When Enter sends what is typed, and when it goes on."""

from __future__ import annotations

import pytest

from engine.cli.terminal.line_editor import after_enter

SENT = None


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("1 + 1", SENT),
        ("x = (1,", "x = (1,\n"),
        ("f(", "f(\n"),
        ("def f():", "def f():\n    "),
        ("def f():\n    if x:  # why:", "def f():\n    if x:  # why:\n        "),
        ("def f():\n    return 1", "def f():\n    return 1\n    "),
        ("def f():\n    return 1\n    ", SENT),
        ("for i in range(3): print(i)", SENT),
        ("@cache", "@cache\n"),
        ("'''a", "'''a\n"),
        ("x = 1 + \\", "x = 1 + \\\n"),
        ("if x:\n    pass\nprint(1)", SENT),
        ("hello, what is this?", SENT),
        ("/help", SENT),
        ("x = '\x00'", SENT),
        ("(" * 500, SENT),
        ("", SENT),
    ],
)
def test_what_runs_as_it_is_ends_as_in_a_python_shell(text: str, then: str | None) -> None:
    assert after_enter(text, is_python=True) == then


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("def f():", SENT),
        ("fix (this", SENT),
        ("first\\", "first\n"),
        ("a path: C:\\\\", SENT),
    ],
)
def test_what_a_model_reads_ends_with_enter_unless_a_backslash_says_otherwise(text: str, then: str | None) -> None:
    assert after_enter(text, is_python=False) == then
