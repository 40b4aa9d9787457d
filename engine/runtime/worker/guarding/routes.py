"""Routes: replacements of Python's file-changing functions that can be redirected to the host.

`install` replaces the functions with routes. It runs in the zygote before any other module could bind them, so even
`from os import open` binds a route. A route calls the original from C, and adds no frame to tracebacks. `lead`
redirects all routes of a process, wherever they are bound; only sandboxed workers do that. The functions of `posix` are
routes, too. Python writes bytecode through them, and nobody is asked about that.

A route is a `staticmethod`, because of three properties: calling it calls its target from C; its target can be changed;
and as an attribute of a class it does not become a method, just like a function written in C.

Must import only modules that Python itself has loaded already. Used by `boot`, the interpreter, `outside` and `writes`.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

Function = Callable[..., Any]

OPEN: Final = "open"
"""The name of the built-in function; the one that opens descriptors is `os.open`."""
_OF_OS: Final = (
    "open", "close", "truncate", "mkdir", "rmdir", "remove", "unlink", "rename", "replace", "link", "symlink",
    "mkfifo", "chmod", "utime",
)  # fmt: skip
_SETS: Final = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
_KEPT: Final = ("__module__", "__name__", "__qualname__", "__doc__")


class Route(staticmethod):  # pyright: ignore[reportMissingTypeArgument] -- any function
    """A replacement of the function `original`, which is `name` in `module`.

    `plain` is the function to call without a redirect: the original, or a wrapper that `surround` has set.
    """

    def __init__(self, original: Function, module: str, name: str) -> None:
        super().__init__(original)
        self.original = self.plain = original
        self._is_led = False
        self._module, self._name = module, name
        self._look_like_it()

    def lead(self, target: Function) -> None:
        """Redirect calls to the target from now on."""
        self._is_led = True
        super().__init__(target)
        self._look_like_it()

    def surround(self, around: Function) -> None:
        """Call `around`, which calls the function, if there is no redirect."""
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
    """Replace the functions in every loaded module that has bound them. Once in a process."""
    _ROUTES[OPEN] = Route(builtins.open, "io", "open")
    for name in _OF_OS:
        _ROUTES[f"os.{name}"] = Route(getattr(os, name), "os", name)
    replaced = {id(route.original): route for route in _ROUTES.values()}
    for found in list(sys.modules.values()):
        replace_in(vars(found), replaced)
    for route in _ROUTES.values():
        for supporting in _SETS:
            # The standard library looks up features of `os` functions in these sets.
            if route.original in supporting:
                supporting.add(route)


def replace_in(names: dict[str, Any], replaced: Mapping[int, object]) -> None:
    """Rebind names to the replacements of their objects, which are given by identity."""
    for name, value in names.copy().items():
        found = replaced.get(id(value))
        if found is not None:
            names[name] = found


def lead(targets: Mapping[str, Function]) -> None:
    """Redirect the routes with these names, such as `open` and `os.open`."""
    for name, target in targets.items():
        _ROUTES[name].lead(target)


def route(name: str) -> Route:
    """The route of that name."""
    return _ROUTES[name]


def original(function: Function) -> Function:
    """The original function of a route; any other function is returned unchanged."""
    return function.original if isinstance(function, Route) else function
