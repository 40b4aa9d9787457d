"""What a person reads of a command that has ended."""

from __future__ import annotations

import pytest

from engine.runtime.results import SHOWN_CHARS, Completed, shown_value, value_of


def completed(**fields: object) -> Completed:
    plain: dict[str, object] = {
        "code": 0,
        "output": "",
        "truncated": False,
        "timed_out": False,
        "signal": None,
        "reason": "",
        "seconds": 1.5,
    }
    value = value_of("bash", plain | fields)
    assert isinstance(value, Completed)
    return value


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "(no output)"),
        ({"output": "one\ntwo\n"}, "one\ntwo"),
        ({"output": "no\n", "code": 3}, "no\n(exit code 3)"),
        ({"code": 1}, "exit code 1"),
        ({"output": "half", "code": None, "signal": "SIGSEGV"}, "half\n(killed by SIGSEGV)"),
        (
            {"output": "x\n", "code": None, "timed_out": True, "seconds": 120.51},
            "x\n(timed out: ended after 121 s with all that it had started)",
        ),
        ({"code": None, "reason": "the session was closed"}, "ended: the session was closed"),
    ],
)
def test_the_output_is_shown_and_a_last_line_says_what_went_wrong(fields: dict[str, object], shown: str) -> None:
    assert repr(completed(**fields)) == shown
    assert str(completed(**fields)) == shown


def test_of_a_long_output_the_middle_is_left_out_and_counted() -> None:
    value = completed(output="a" * 50_000 + "z" * 50_000, code=2)
    shown = repr(value)
    assert shown.startswith("aaa")
    assert "\n... 96000 characters left out ...\n" in shown
    assert shown.endswith("z\n(exit code 2)")
    assert len(shown) < SHOWN_CHARS + 100
    assert len(value.output) == 100_000


def test_the_host_shows_it_as_a_statement_does() -> None:
    plain = {
        "code": 0,
        "output": "text",
        "truncated": False,
        "timed_out": False,
        "signal": None,
        "reason": "",
        "seconds": 0.1,
    }
    assert shown_value("bash", plain) == "text"
