"""Which parts of this program's own installation lie in a session's directories, where statements could write them.

The host and the parent of workers start the interpreter and import modules during a session, outside the sandbox. So
statements must not change what they load: the environment, the interpreter with its standard library, and packages
that are elsewhere (an editable installation). They could if a session's directory contains one of these: a project
whose `.venv` has this program, or a home directory.

A part that lies in a session's directory is protected. A part that is such a directory, or contains one, cannot be; nor
can a link directly in such a directory that leads to one. These are `open`: the host asks before it changes one, and
statements write none of the session's directories themselves. Must not know how parts are protected. Used by
`session.tools.workspace`, by the search for ripgrep, and by `doctor`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from ..core.domain import is_inside
from .safe_open import links_to

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OF_INSTALLERS: Final = ("site-packages", "dist-packages")
"""Names of directories into which installers put packages."""
_VERSION: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
_STANDARD: Final = os.path.dirname(os.path.abspath(os.__file__))


class Installation(NamedTuple):
    """The parts in a session's directories, as existing real paths. The sandbox can protect `parts`, but not `open`."""

    parts: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def own_installation(roots: tuple[str, ...]) -> Installation:
    """Return the parts in these directories, which are absolute, with links resolved. Takes some 0.2 ms."""
    prefixes, pieces = _prefixes(), (*_pieces(), *map(_traced, _elsewhere(roots)))
    parts = [each.real for each in (*prefixes, *pieces) if _is_below(each.real, roots)]
    exposed = [piece.real for piece in pieces if any(is_inside(root, (piece.real,)) for root in roots)]
    for link in (link for each in (*prefixes, *pieces) for link in each.links if is_inside(link, roots)):
        folder = os.path.dirname(link)  # because nothing can be mounted over the link
        if is_inside(link, tuple(parts)):
            continue
        if _is_below(folder, roots):
            parts.append(folder)
        else:
            exposed.append(link)
    return Installation(tuple(_outermost(filter(os.path.exists, parts))), tuple(_outermost(exposed)))


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    return is_inside(path, roots) and path not in roots


class _Traced(NamedTuple):
    """Where a path ends, and the links on its way."""

    real: str
    links: tuple[str, ...]


def _traced(path: str) -> _Traced:
    return _Traced(os.path.realpath(path), tuple(links_to(path)))


@cache
def _prefixes() -> tuple[_Traced, ...]:
    """The directories of the environment and of its interpreter. A project may be in one without being part of it."""
    return tuple(map(_traced, {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}))


@cache
def _pieces() -> tuple[_Traced, ...]:
    """The parts of the prefixes that are loaded, and the places outside them that packages are loaded from."""
    bases = [sys.prefix, sys.base_prefix]
    programs = (sys.executable, *(os.path.join(each, "bin", f"python{_VERSION}") for each in bases))
    libraries = (os.path.join(each, "lib", f"libpython{_VERSION}.so.1.0") for each in bases)
    environment = os.path.join(sys.prefix, "pyvenv.cfg")
    packages = (each for each in sys.path if os.path.basename(each) in _OF_INSTALLERS or each.endswith(".zip"))
    # What PYTHONPATH or a `.pth` file adds, and the start has left because packages that this program needs are there.
    known = tuple(os.path.join(os.path.realpath(each), "") for each in bases)
    added = (each for each in sys.path if os.path.isdir(each) and each != os.path.dirname(_PACKAGE))
    others = (each for each in added if not os.path.realpath(each).startswith(known))
    bytecode = os.environ.get("PYTHONPYCACHEPREFIX", "")  # the next start loads what is imported first from there
    found = (
        _PACKAGE,
        _STANDARD,
        os.path.join(sys.prefix, "bin"),
        environment,
        *programs,
        *libraries,
        *packages,
        *others,
        bytecode,
    )
    return tuple(_traced(each) for each in dict.fromkeys(found) if os.path.exists(each))


def _elsewhere(roots: tuple[str, ...]) -> Iterator[str]:
    """Yield modules and packages loaded from these directories that are not among the others, such as editable ones."""
    inside = tuple(os.path.join(each, "") for each in roots)
    known = tuple(os.path.join(each.real, "") for each in (*_prefixes(), *_pieces()))
    for name, module in sys.modules.copy().items():  # because other threads import
        if "." in name:
            continue
        place: object = getattr(module, "__file__", None)
        if not isinstance(place, str) or not place.startswith(inside) or place.startswith(known):
            continue
        if not os.path.realpath(place).startswith(known):
            yield os.path.dirname(place) if hasattr(module, "__path__") else place


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    found: list[str] = []
    for path in sorted(set(paths)):
        if not is_inside(path, tuple(found)):
            found.append(path)
            yield path
