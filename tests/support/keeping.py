"""Namespaces whose names are pickled and loaded, without an interpreter around them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from engine.log.past import ValueGroup
from engine.runtime.worker.guarding.guard import OutsideGuard
from engine.runtime.worker.keeping.pickler import Surroundings
from engine.runtime.worker.keeping.value_keeper import Loader
from engine.runtime.worker.keeping.writing import SMALL_BYTES, GroupWriter

Namespace = dict[str, Any]


def namespace(source: str = "") -> Namespace:
    """A namespace in which the source has run."""
    names: Namespace = {"__name__": "__main__", "__builtins__": builtins}
    exec(compile(source, "<statement 1>", "exec", dont_inherit=True), names)
    return names


class NoHandles:
    """Where there are no nodes."""

    def state_of(self, node: object) -> object:
        return {}

    def node_from(self, obj_id: str, state: object) -> object:
        return obj_id


def writer(names: Namespace, injected: Mapping[str, object] | None = None, seconds: float = 10.0) -> GroupWriter:
    known = Surroundings(names, {id(value): name for name, value in (injected or {}).items()}, NoHandles())
    return GroupWriter(known, OutsideGuard(), SMALL_BYTES, seconds)


def keep(names: Namespace, *group: str, injected: Mapping[str, object] | None = None) -> ValueGroup:
    return ValueGroup(group, writer(names, injected).in_memory(group))


def load(
    names: Namespace,
    *groups: ValueGroup,
    injected: Mapping[str, object] | None = None,
    classes: WeakValueDictionary[str, Any] | None = None,
) -> dict[str, str]:
    """What failed, with the reasons. `classes` are those that were loaded before."""
    loader = Loader(names, injected or {}, NoHandles(), WeakValueDictionary() if classes is None else classes)
    loader.load(groups)
    return loader.failures


def moved(source: str, *groups: str) -> Namespace:
    """A namespace that has what the groups, names divided by blanks, were in one in which the source has run."""
    there, here = namespace(source), namespace()
    assert load(here, *(keep(there, *group.split()) for group in groups)) == {}
    return here
