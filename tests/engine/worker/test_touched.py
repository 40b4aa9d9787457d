"""The way through a statement's syntax tree, beside the one that Python's library goes."""

import ast
import inspect
from pathlib import Path

import pytest

from engine.worker import namespace, reading
from engine.worker.touched import names_in, nodes_in

SOURCES = {
    "a module of ours": Path(inspect.getfile(namespace)).read_text(),
    "another": Path(inspect.getfile(reading)).read_text(),
    "lists with gaps": "d = {**a, 'k': v}\ndef f(*, x, y=1): global g\n",
    "a match": "match p:\n    case {'a': [q, *rest], **more}: pass\n    case C(1, k=-1) | None: pass\n",
    "nothing": "",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_node_is_met_once_and_contexts_of_names_are_not(source: str):
    tree = ast.parse(source)
    met = list(nodes_in(tree))
    expected = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    # Python shares one node for every operator of a kind, so these are met as often as they stand.
    assert sorted(map(id, met)) == sorted(map(id, expected))


def test_names_are_told_apart_by_what_is_done_with_them():
    names = names_in(ast.parse("made = read + 'quoted word'\nboth += 1\ndel gone\nheld.part = held[0]"))
    assert names.bound == {"made", "both", "gone"}
    assert names.loaded == {"read", "both", "held"}
    assert names.quoted == {"quoted", "word"}


def test_a_long_text_is_not_searched_for_names():
    assert names_in(ast.parse(f"x = {'long ' * 1000!r}")).quoted == frozenset()
