"""The statement of a call: only names and literals, whatever the arguments are."""

from __future__ import annotations

import ast
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.core.toolbox import original
from mcp_tools import statements
from tests.support.examples import examples

TEXTS = st.text(max_size=30) | st.sampled_from(
    ["')", "\\", "'''", "\n\r\0", "a'); import os; ('", "\udcff", "{x}", "%s"]
)
NUMBERS = st.integers(-(10**6), 10**6)


def tree(source: str) -> ast.stmt:
    (statement,) = ast.parse(source).body
    return statement


def literals(source: str) -> list[object]:
    return [node.value for node in ast.walk(tree(source)) if isinstance(node, ast.Constant)]


def shape(source: str) -> str:
    """The syntax tree without the values of its literals."""
    made = tree(source)
    for node in ast.walk(made):
        if isinstance(node, ast.Constant):
            node.value = type(node.value).__name__
        if isinstance(node, ast.UnaryOp):
            node.op = ast.USub()
    return ast.dump(made)


@examples(5)
@given(path=TEXTS, pos=st.none() | TEXTS, tokens=st.none() | st.integers(1, 10**6), follow=st.booleans())
def test_opening_writes_arguments_as_literals(path: str, pos: str | None, tokens: int | None, follow: bool) -> None:
    source = statements.opening("a", path, pos=pos, tokens=tokens, follow=follow)
    assert [each for each in literals(source) if each != "Sync"] == [
        each for each in (path, pos, tokens) if each is not None and each != "Sync"
    ]
    plain = statements.opening("a", "x", pos=pos and "x", tokens=tokens and 1, follow=follow)
    assert pos == "" or shape(source) == shape(plain)


def test_builtin_names_and_replaced_handles() -> None:
    assert statements.opening("a", "x", replaces=True) == "a = view('x', instead=a)"
    assert statements.opening("a", "x", builtin=original) == "a = __rewindow__.view('x')"
    assert statements.showing("a", builtin=original) == "__rewindow__.show(a)"
    assert statements.grouping("g", [("a", False)], builtin=original) == "g = __rewindow__.group(a)"
    assert statements.regrouping("g", add=[("a", True)], builtin=original) == "__rewindow__.show(g.Add('a'))"
    assert statements.closing("a", ["g", "h"]) == "g.Remove(a); h.Remove(a); del a"


@examples(5)
@given(
    chosen=st.fixed_dictionaries(
        {},
        optional={
            "pos": TEXTS,
            "scroll": NUMBERS,
            "tokens": NUMBERS.map(abs),
            "lod": st.integers(0, 3),
            "follow": st.booleans(),
            "refresh": st.booleans(),
        },
    )
)
def test_showing_calls_only_methods_with_literals(chosen: dict[str, Any]) -> None:
    made = tree(statements.showing("a", **chosen))
    for node in ast.walk(made):
        assert isinstance(
            node, ast.Expr | ast.Call | ast.Attribute | ast.Name | ast.Constant | ast.Load | ast.UnaryOp | ast.USub
        )
    assert {node.id for node in ast.walk(made) if isinstance(node, ast.Name)} == {"a", "show"}


@examples(5)
@given(texts=st.lists(TEXTS, max_size=4), tokens=st.none() | st.integers(1, 9))
def test_group_members_are_names_or_literals(texts: list[str], tokens: int | None) -> None:
    members = [*((text, True) for text in texts), ("a", False)]
    for source in (
        statements.grouping("g", members, tokens=tokens),
        statements.regrouping("g", add=members, remove=members),
    ):
        found = [each for each in literals(source) if isinstance(each, str)]
        assert found == texts * (1 if source.startswith("g =") else 2)


def test_statement_sources() -> None:
    assert (
        statements.opening("cfg", "a.toml", tokens=400, follow=True) == "cfg = view('a.toml', tokens=400, freq='Sync')"
    )
    assert statements.showing("cfg", pos="Foo.bar", scroll=-3, follow=False, refresh=True) == (
        "show(cfg.Refresh().SetPos('Foo.bar').Scroll(-3).Pause())"
    )
    assert statements.grouping("g", [("cfg", False), ("src/*.py", True)], lod=2) == "g = group(cfg, 'src/*.py', lod=2)"
    assert statements.regrouping("g") == "show(g)"
    assert statements.closing("g") == "del g"
