"""Source is parsed, or it is not Python; threads that parse at the same moment do not matter."""

from __future__ import annotations

import ast

import pytest

from engine.core import python_source
from engine.core.python_source import parsed


@pytest.mark.parametrize("source", ["(", "\0", "(" * 1_000 + ")" * 1_000, "-" * 100_000 + "1"])
def test_source_that_cannot_be_parsed_has_no_tree(source: str) -> None:
    assert parsed(source) is None


def test_error_of_concurrent_parsers_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def parse(source: str) -> ast.Module:
        tries.append(source)
        if len(tries) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=189, after=62)")
        return ast.Module([], [])

    monkeypatch.setattr(python_source.ast, "parse", parse)
    assert parsed("x") is not None
    assert tries == ["x", "x"]
