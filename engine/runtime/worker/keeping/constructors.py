"""The functions that a pickle of a kept value names where Python's own will not do.

They are names alone: `loader` gives each its meaning in the namespace it loads into, because they need that namespace.
A name here is in the pickles of sessions on disk, so it stays, whatever becomes of this module's place. Used by
`pickler` and `loader`.
"""

from __future__ import annotations

from typing import NoReturn


def injected(name: str) -> NoReturn:
    """What is injected under that name."""
    raise NotImplementedError(name)


def named(*path: str) -> NoReturn:
    """The function or class that the namespace has under the first name, or what that has under the further ones."""
    raise NotImplementedError(path)


def handle(obj_id: str, state: object) -> NoReturn:
    """The node with that id, in that state."""
    raise NotImplementedError(obj_id, state)


def function(code: object, name: str, closure: object) -> NoReturn:
    """A function whose globals are the namespace."""
    raise NotImplementedError(code, name, closure)


def bound_function(path: object, code: object, name: str) -> NoReturn:
    """One without a closure that was bound under `path`: the one that lives there, where that has the same code."""
    raise NotImplementedError(path, code, name)


def fill_function(made: object, state: object) -> NoReturn:
    """Gives it its defaults, attributes and what else is set after it was made."""
    raise NotImplementedError(made, state)


def fill_cell(cell: object, content: object) -> NoReturn:
    """Gives a closure's variable its value, which is the one element of `content`."""
    raise NotImplementedError(cell, content)


def cached(function: object, maxsize: object, typed: object) -> NoReturn:
    """The function behind an empty `functools.lru_cache`."""
    raise NotImplementedError(function, maxsize, typed)


def dynamic_class(path: object, fingerprint: str, make: object, arguments: object) -> NoReturn:
    """A class of a statement: the one that lives under `path`, where that is the same; otherwise `make` makes it."""
    raise NotImplementedError(path, fingerprint, make, arguments)


def array_view(kind: object, layout: object, writeable: bool) -> NoReturn:
    """An array of numpy's that lies in another object; `layout` are the arguments of its class."""
    raise NotImplementedError(kind, layout, writeable)
