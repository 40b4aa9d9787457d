"""Names in the source of a statement."""

from __future__ import annotations

import ast

from engine.runtime.worker.names_used import names_in


def test_names_are_told_apart_by_what_is_done_with_them():
    names = names_in(ast.parse("made = read + 'quoted word'\nboth += 1\ndel gone\nheld.part = held[0]"))
    assert names.bound == {"made", "both", "gone"}
    assert names.loaded == {"read", "both", "held"}
    assert names.quoted == {"quoted", "word"}


def test_a_long_text_is_not_searched_for_names():
    assert names_in(ast.parse(f"x = {'long ' * 1000!r}")).quoted == frozenset()
