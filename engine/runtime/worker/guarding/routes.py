"""Python's own functions that change files, each behind a route that can be led elsewhere: to the host.

`install` puts routes in the place of the functions, in the zygote and ahead of all that might bind one of them, so that
`from os import open` in any module binds a route, too. A route calls the function as it is, from C, and adds no frame
to a traceback; `lead` has all routes of a process call something else, wherever they are bound. Only workers with a
domain do. The module `posix` keeps the functions: through it Python itself writes bytecode, about which nobody is
asked.

A route is a `staticmethod`, of which three properties are used: calling it calls what it holds, from C; it can be made
to hold something else; and as an attribute of a class it does not become a method, as the functions in C do not.

Must import nothing but what Python has loaded by itself. Used by `boot`, `routed`
and `unaudited`.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

Function = Callable[..., Any]

OPEN: Final = "open"
"""The name of the built-in among those of `os`, of which the one that opens descriptors is `os.open`."""
_OF_OS: Final = (
    "open", "close", "truncate", "mkdir", "rmdir", "remove", "unlink", "rename", "replace", "link", "symlink",
    "mkfifo", "chmod", "utime",
)  # fmt: skip
_SETS: Final = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
_KEPT: Final = ("__module__", "__name__", "__qualname__", "__doc__")
_LEFT: Final = "posix"


class Route(staticmethod):  # pyright: ignore[reportMissingTypeArgument] -- any function
    """Stands for a function. `original` is that function, `module` and `name` are where it is found.

    `plain` is what to call where nothing is to be led elsewhere: the function, or what somebody has put around it.
    """

    def __init__(self, original: Function, module: str, name: str) -> None:
        super().__init__(original)
        self.original = self.plain = original
        self._is_led = False
        self._module, self._name = module, name
        self._look_like_it()

    def lead(self, target: Function) -> None:
        """From now on, to call this is to call the target."""
        self._is_led = True
        super().__init__(target)
        self._look_like_it()

    def surround(self, around: Function) -> None:
        """From now on `around`, which calls the function, is what is called where nothing is led elsewhere."""
        self.plain = around
        if not self._is_led:
            super().__init__(around)
            self._look_like_it()

    def _look_like_it(self) -> None:
        for attribute in _KEPT:
            setattr(self, attribute, getattr(self.original, attribute))
        self.__module__ = self._module

    def __reduce__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return repr(self.original)


_ROUTES: Final[dict[str, Route]] = {}


def install() -> None:
    """Puts routes in the place of the functions, wherever a loaded module has bound them. Once in a process."""
    _ROUTES[OPEN] = Route(builtins.open, "io", "open")
    for name in _OF_OS:
        _ROUTES[f"os.{name}"] = Route(getattr(os, name), "os", name)
    replaced = {id(route.original): route for route in _ROUTES.values()}
    for found in list(sys.modules.values()):
        if getattr(found, "__name__", "") != _LEFT:
            replace_in(vars(found), replaced)
    for route in _ROUTES.values():
        for supporting in _SETS:
            # The standard library asks these sets what a function of `os` can do.
            if route.original in supporting:
                supporting.add(route)


def replace_in(names: dict[str, Any], replaced: Mapping[int, object]) -> None:
    """Binds the names to what replaces the objects with these identities."""
    for name, value in list(names.items()):
        found = replaced.get(id(value))
        if found is not None:
            names[name] = found


def lead(targets: Mapping[str, Function]) -> None:
    """Leads the routes with these names elsewhere: `open`, and `os.open` and the like."""
    for name, target in targets.items():
        _ROUTES[name].lead(target)


def route(name: str) -> Route:
    """The one of that name."""
    return _ROUTES[name]


def original(function: Function) -> Function:
    """What a route stands for; any other function as it is."""
    return function.original if isinstance(function, Route) else function
