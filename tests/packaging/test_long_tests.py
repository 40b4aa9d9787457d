"""The list of the tests that `make test` leaves out."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.support.long_tests import ROOT, WHOLE, is_long, listed, longest

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_x" name="test_each[1[2]]" time="3"/>
<testcase classname="tests.a.test_x" name="test_each[2]" time="3"/>
<testcase classname="tests.a.test_x" name="test_one" time="5"/>
<testcase classname="tests.mcp_tools.test_http" name="test_token_is_required[a]" time="9"/>
<testcase classname="tests.b.test_y" name="test_two" time="1"/>
</testsuite></testsuites>"""


@cache
def functions(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
    }


def test_each_line_is_a_test() -> None:
    named = [(function, *function.split("::")) for function in sorted({*listed(), *WHOLE})]
    assert [whole for whole, path, name in named if name not in functions(ROOT / path)] == []
    assert not listed() & WHOLE


def test_all_cases_of_a_listed_function_are_long() -> None:
    function = min(listed())
    assert is_long(function)
    assert is_long(f"{function}[a::b[c]]")
    assert not is_long(f"{function}_also")


def test_those_that_take_longest_are_listed_but_no_whole_program(tmp_path: Path) -> None:
    report = tmp_path / "times.xml"
    report.write_text(REPORT)
    assert longest(report, 0.99) == ["tests/a/test_x.py::test_each"]
    assert longest(report, 0.5) == ["tests/a/test_x.py::test_each", "tests/a/test_x.py::test_one"]
    assert longest(report, 0.0) == [*longest(report, 0.5), "tests/b/test_y.py::test_two"]
