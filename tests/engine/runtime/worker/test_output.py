"""Streams, values, exceptions and sources of a statement."""

from __future__ import annotations

import gc
import inspect
import linecache
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

from engine.files.safe_open import place_to_write
from engine.runtime.worker.statements.output import (
    MESSAGE_LIMIT,
    MOST_ITEMS,
    NEWEST,
    TRACEBACK_LIMIT,
    SourceLines,
    describe_failure,
    value_text,
)

LONG = list(range(3 * MOST_ITEMS))


@pytest.mark.parametrize(
    "value", [[], (1,), {1, 2}, frozenset({1}), {"a": [1, (2,)]}, "x" * 5_000, list(range(MOST_ITEMS)), Counter("aab")]
)
def test_a_short_value_is_its_repr(value: object) -> None:
    assert value_text(value) == repr(value)


def test_a_long_list_ends_in_an_ellipsis() -> None:
    assert value_text(LONG) == repr(LONG[:MOST_ITEMS])[:-1] + ", ...]"
    assert value_text(tuple(LONG)).endswith(", 999, ...)")
    assert value_text(dict.fromkeys(LONG)).endswith(", 999: None, ...}")
    assert value_text(frozenset(LONG)).endswith(", ...})")


def test_a_long_list_inside_of_another_value_is_elided() -> None:
    assert value_text({"rows": LONG, "n": (1,)}).endswith(", 999, ...], 'n': (1,)}")
    assert value_text([[LONG]]).endswith("999, ...]]]")


def test_a_class_of_its_own_decides_by_its_repr() -> None:
    class Rows(list[int]):
        def __repr__(self) -> str:
            return "rows"

    assert value_text(Rows(LONG)) == "rows"
    assert value_text([Rows(LONG)]) == "[rows]"


def test_a_value_that_holds_itself_has_a_text() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    assert value_text(loop) == "[1, [...]]"
    loop += LONG
    assert value_text(loop).startswith("[1, ")


def raised(source: str) -> BaseException:
    try:
        exec(compile(source, "<statement 1>", "exec"), {"__name__": "__main__"})
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_long_messages_and_tracebacks_keep_both_ends() -> None:
    info = describe_failure(raised("raise ValueError('start ' + 'x ' * 100_000 + 'end')"))
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


def test_traceback_ends_at_our_call_and_shows_callbacks() -> None:
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


@pytest.fixture(autouse=True)
def own_cache() -> Iterator[None]:
    """Without the statements that other tests have run in this process."""
    before = dict(linecache.cache)
    linecache.cache.clear()
    yield
    linecache.cache.clear()
    linecache.cache.update(before)


class Statements:
    """Statements that run one after the other, as the executor has them run."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines = SourceLines()
        self._count = 0

    def run(self, source: str, label: str | None = None) -> str:
        """Runs it, and returns its label."""
        self._count += 1
        label = label or f"<statement {self._count}>"
        self._lines.show(source, label)
        code = compile(source, label, "exec")
        self._lines.compiled(code)
        exec(code, self.names)
        return label

    def run_others(self, count: int) -> None:
        for number in range(count):
            self.run(f"other = {number}")


def shown() -> set[str]:
    return {label for label in linecache.cache if label.startswith("<statement ")}


DEFINING = {
    "function": "def f(): 1 / 0",
    "method": "class C:\n    def m(self): 1 / 0\nf = lambda: C().m()",
    "inner": "def outer():\n    def inner(): 1 / 0\n    return inner\nf = outer()\ndel outer",
    "lambda": "f = lambda: 1 / 0",
    "generator": "def steps():\n    yield\n    1 / 0\ng = steps()\ndel steps\nnext(g)\nf = lambda: next(g)",
}


@pytest.mark.parametrize("source", DEFINING.values(), ids=DEFINING.keys())
def test_old_definitions_have_lines_in_tracebacks(source: str) -> None:
    statements = Statements()
    statements.run(source)
    statements.run_others(5 * NEWEST)
    with pytest.raises(ZeroDivisionError) as raised:
        cast("Callable[[], object]", statements.names["f"])()
    assert "1 / 0" in traceback.format_exception(raised.value)[-2]


def test_kept_exception_has_its_line() -> None:
    statements = Statements()
    statements.run("try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    kept = error")
    statements.run_others(5 * NEWEST)
    assert "    1 / 0\n" in "".join(traceback.format_exception(statements.names["kept"]))


def test_sources_that_nothing_needs_go_when_others_are_newer() -> None:
    statements = Statements()
    first = statements.run("a = [each for each in range(3)]")
    statements.run_others(NEWEST - 1)
    assert first in shown()
    statements.run_others(1)
    assert first not in shown()
    statements.run_others(3 * NEWEST)
    assert len(shown()) == NEWEST


def test_deleted_function_takes_its_source_along() -> None:
    statements = Statements()
    for number in range(500):
        statements.run(f"def f{number}(): pass")
    statements.run_others(3_000)
    assert len(shown()) <= 2 * 500 + NEWEST
    assert inspect.getsource(statements.names["f7"]) == "def f7(): pass"
    for number in range(500):
        del statements.names[f"f{number}"]
    gc.collect()
    statements.run_others(2_000)
    assert len(shown()) == NEWEST


def test_reused_label_shows_the_later_source() -> None:
    statements = Statements()
    statements.run("def f(): return 'first'", "<statement again>")
    statements.run_others(NEWEST // 2)
    statements.run("def f(): return 'second'", "<statement again>")
    statements.run_others(5 * NEWEST)
    assert "second" in inspect.getsource(statements.names["f"])


def test_lines_of_files_and_of_other_namespaces_stay() -> None:
    statements, others = Statements(), Statements()
    of_a_file = linecache.getline(__file__, 1)
    others.run("def f(): return 'theirs'", "<statement 1>")
    statements.run("mine = 1", "<statement 1>")
    statements.run_others(5 * NEWEST)
    assert linecache.getline(__file__, 1) == of_a_file
    assert __file__ in linecache.cache
    others.run("def f(): return 'theirs'", "<statement x>")
    assert inspect.getsource(others.names["f"]) == "def f(): return 'theirs'"


def test_a_statement_that_clears_the_cache_harms_nobody() -> None:
    statements = Statements()
    statements.run("import linecache; linecache.clearcache()")
    statements.run_others(2 * NEWEST)
    statements.run("linecache.clearcache()")
    statements.run_others(5 * NEWEST)
