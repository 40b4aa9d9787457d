from __future__ import annotations

from functools import partial
from typing import Any

from engine.files.safe_open import place_to_write
from engine.runtime.worker.statements.output import MESSAGE_LIMIT, TRACEBACK_LIMIT, describe_failure


def raised(source: str) -> BaseException:
    try:
        exec(compile(source, "<statement 1>", "exec"), {"__name__": "__main__"})
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_long_messages_and_tracebacks_keep_both_ends() -> None:
    info = describe_failure(raised("raise ValueError('start' + 'x' * 100_000 + 'end')"))
    assert len(info.message) <= MESSAGE_LIMIT + 100
    assert info.message.startswith("start")
    assert info.message.endswith("end")
    assert len(info.traceback) <= TRACEBACK_LIMIT + 100


def test_a_long_mutual_recursion_is_bounded() -> None:
    source = "\n".join(f"def f{i}(n): return f{(i + 1) % 60}(n + 1)" for i in range(60)) + "\nf0(0)"
    info = describe_failure(raised(source))
    assert info.type == "RecursionError"
    assert len(info.traceback) <= TRACEBACK_LIMIT + 100


def test_groups_and_cyclic_contexts_are_described() -> None:
    info = describe_failure(raised("raise ExceptionGroup('g', [ValueError('a'), TypeError('b')])"))
    assert "ValueError: a" in info.traceback
    a, b = ValueError("a"), ValueError("b")
    a.__context__, b.__context__ = b, a
    assert describe_failure(a).message == "a"


def test_a_traceback_ends_where_the_statement_called_us_and_shows_what_we_called_back() -> None:
    ours: dict[str, Any] = {"outside": partial(place_to_write, "/else", ("/work",))}
    source = "def refuse():\n    with outside(): pass\ndef call(function): function()"
    exec(compile(source, describe_failure.__code__.co_filename, "exec"), ours)
    calls = {name: ours[name] for name in ("refuse", "call")}
    refused, failed = "refuse()", "def fails(): raise ValueError('here')\ncall(fails)"
    assert frames(refused, calls) == ["<module>"]
    assert frames(failed, calls) == ["<module>", "call", "fails"]


def frames(source: str, namespace: dict[str, Any]) -> list[str]:
    """The functions that a traceback of the statement names, from the statement on."""
    try:
        exec(compile(source, "<statement 1>", "exec"), namespace)
    except (PermissionError, ValueError) as error:
        lines = describe_failure(error).traceback.splitlines()
        return [line.rpartition(" in ")[2] for line in lines if line.startswith("  File")][1:]
    raise AssertionError("nothing was raised")
