"""Names of the functions that pickles of kept values call.

They are only names: the loader implements each of them for the namespace that it loads into. Pickles on disk contain
these names, so none may change, even if this module moves (`former_names`). Used by `pickler` and `keeper`.
"""

from __future__ import annotations

from typing import NoReturn


def injected(name: str) -> NoReturn:
    """The injected object of that name."""
    raise NotImplementedError(name)


def named(*path: str) -> NoReturn:
    """The function or class at a dotted path: a name of the namespace, then attributes."""
    raise NotImplementedError(path)


def handle(obj_id: str, state: object) -> NoReturn:
    """The node with that id, in that state."""
    raise NotImplementedError(obj_id, state)


def function(code: object, name: str, closure: object) -> NoReturn:
    """A function whose globals are the namespace."""
    raise NotImplementedError(code, name, closure)


def bound_function(path: object, code: object, name: str) -> NoReturn:
    """A function without a closure, bound at `path`: the living one if it has the same code, else a new one."""
    raise NotImplementedError(path, code, name)


def fill_function(made: object, state: object) -> NoReturn:
    """Set the defaults, attributes and other state of a new function."""
    raise NotImplementedError(made, state)


def fill_cell(cell: object, content: object) -> NoReturn:
    """Set a closure variable to the only element of `content`."""
    raise NotImplementedError(cell, content)


def cached(function: object, maxsize: object, typed: object) -> NoReturn:
    """The function behind an empty `functools.lru_cache`."""
    raise NotImplementedError(function, maxsize, typed)


def dynamic_class(path: object, fingerprint: str, make: object, arguments: object) -> NoReturn:
    """A class of a statement: the living one at `path` if it is the same, else one made by `make`."""
    raise NotImplementedError(path, fingerprint, make, arguments)


def array_view(kind: object, layout: object, writeable: bool) -> NoReturn:
    """A numpy array over another object's memory; `layout` has the arguments of its class."""
    raise NotImplementedError(kind, layout, writeable)
