"""How a pickle names the functions and classes of statements, so that loading finds the living ones again.

What the namespace binds is kept by its name wherever another name's value holds it: an instance by its class, a table
of functions by theirs. So what is loaded has the class that the namespace has, and `isinstance` holds for old and new.
A class that is loaded by value takes the place of the living one under its name only where it is another: the same
definition, told by `fingerprint`, is filled in place, and old instances stay its instances.

Must not know pickles. Used by `pickler` and `loader`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any, Final, cast

import xxhash

_MISSING: Final = object()
Path = tuple[str, ...]


class BoundNames:
    """Under which names the namespace binds functions and classes, as it is during one go over it."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._found: dict[int, str] | None = None

    def path_of(self, value: Any) -> Path | None:
        """The names under which `value`, a function or a class, is found; its own name is preferred."""
        path = tuple(cast(str, value.__qualname__).split("."))
        if found_at(self._namespace, path) is value:
            return path
        if self._found is None:
            # A copy, because threads of the user's may bind names meanwhile; the first of several names counts.
            items = tuple(dict(self._namespace).items())
            self._found = {id(bound): name for name, bound in reversed(items) if is_named(bound)}
        name = self._found.get(id(value))
        return None if name is None else (name,)


def is_named(value: object) -> bool:
    """Whether it is a function or a class: what others hold by the name that it is bound to."""
    return type(value) is FunctionType or issubclass(type(value), type)


def found_at(namespace: Mapping[str, object], path: Path) -> object:
    """What is bound there: a name, then attributes of classes, looked up without calling anything. None if nothing."""
    found = namespace.get(path[0], _MISSING)
    for name in path[1:]:
        if not issubclass(type(found), type):
            return None
        found = type.__dict__["__dict__"].__get__(found).get(name, _MISSING)
    return None if found is _MISSING else found


def fingerprint(kind: type) -> str:
    """xxh3 hex over what a definition makes of a class: its name, the names of its bases, its functions' code."""
    state = xxhash.xxh3_64(repr((kind.__qualname__, [base.__qualname__ for base in kind.__bases__])).encode())
    for name, member in sorted(vars(kind).items()):
        if type(member) is FunctionType:
            state.update(name.encode("utf-8", "replace"))
            _add_code(state, member.__code__)
    return state.hexdigest()


def _add_code(state: Any, code: CodeType) -> None:
    state.update(code.co_code)
    state.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode("utf-8", "replace"))
    for constant in code.co_consts:
        if type(constant) is CodeType:
            _add_code(state, constant)
        elif not isinstance(constant, frozenset):
            # The order of a set is not that of the next process.
            state.update(repr(constant).encode("utf-8", "replace"))
