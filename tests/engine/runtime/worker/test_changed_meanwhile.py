"""Loaded modules and a namespace that change while they are searched, as by a thread or a finalizer."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from engine.files.tails import News
from engine.runtime.worker.guarding import routes
from engine.runtime.worker.writes import opening
from engine.runtime.worker.writes.touching import WriteNotices
from tests.support.boards import Desk
from tests.support.in_process import ThreadInterrupts


@contextmanager
def growing(names: dict[str, Any], value: object) -> Iterator[None]:
    """Each collection adds a name. With this threshold they come while names and values are paired."""
    added: list[str] = []

    def add(phase: str, _: dict[str, int]) -> None:
        added.append(f"_added_{len(added)}_{phase}")
        names[added[-1]] = value

    threshold = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(1)
    try:
        yield
        assert added
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(add)
        for name in added:
            names.pop(name, None)


class _Nobody:
    def send(self, message: object) -> None:
        raise AssertionError(message)


def test_libraries_are_found_while_modules_are_loaded() -> None:
    with growing(sys.modules, ModuleType("added")):
        WriteNotices(_Nobody(), ThreadInterrupts(), own_process=False)


def test_modules_are_searched_while_they_are_loaded_and_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    changing = ModuleType("changing")
    monkeypatch.setitem(sys.modules, "changing", changing)
    with growing(vars(changing), None):
        opening.prepare()
    monkeypatch.setitem(sys.modules, "another", ModuleType("another"))
    with growing(sys.modules, changing):
        opening.prepare()


def test_functions_are_replaced_while_a_module_changes() -> None:
    names = {f"name {number}": print for number in range(100)}
    with growing(names, None):
        routes.replace_in(names, {id(print): len})
    assert set(names.values()) == {len}


def test_names_of_views_are_found_while_the_namespace_changes(desk: Desk) -> None:
    desk.run("a = view(text='a')")
    with growing(desk.namespace, None):
        (row,) = desk.board.tail(desk.namespace, 1000, News())[1]
    assert row.name == "a"
