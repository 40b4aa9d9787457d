"""The layer of Landlock: files are changed below what is writable and nowhere else; and what goes by no path.

A ruleset handles rights, and allows some of them below paths; what is handled and not allowed is denied. Reading is not
handled: rules only add, so there is no way to allow all but one folder, and files that are created or replaced later
would be missing. What each version of Landlock brought is in `RIGHTS` and below it; without version 3 a file could be
emptied, so older ones are not taken for this layer.

Where a mount namespace could not be had, `/dev/shm` and `/dev/pts` are the user's, with the shared memory and the
terminals of other programs. Called by `entering`, and by `privileges` for a domain that restricts next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from . import kernel

if TYPE_CHECKING:  # whoever starts loads this module, and not what domains are made of
    from ...core.domain import Layer

_VERSION: Final = 1
"""Asks `landlock_create_ruleset` which version there is."""
_PATH_BENEATH: Final = 1

WRITE_FILE: Final = 1 << 1
REMOVE_DIR: Final = 1 << 4
REMOVE_FILE: Final = 1 << 5
MAKE_CHAR: Final = 1 << 6
MAKE_DIR: Final = 1 << 7
MAKE_REG: Final = 1 << 8
MAKE_SOCK: Final = 1 << 9
MAKE_FIFO: Final = 1 << 10
MAKE_BLOCK: Final = 1 << 11
MAKE_SYM: Final = 1 << 12
REFER: Final = 1 << 13
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15
RESOLVE_UNIX: Final = 1 << 16
BIND_TCP: Final = 1 << 0
CONNECT_TCP: Final = 1 << 1
ABSTRACT_SOCKETS: Final = 1 << 0
SIGNALS: Final = 1 << 1

RIGHTS: Final[tuple[tuple[int, int], ...]] = (
    (
        1,
        WRITE_FILE
        | REMOVE_DIR
        | REMOVE_FILE
        | MAKE_CHAR
        | MAKE_DIR
        | MAKE_REG
        | MAKE_SOCK
        | MAKE_FIFO
        | MAKE_BLOCK
        | MAKE_SYM,
    ),
    (2, REFER),
    (3, TRUNCATE),
    (5, IOCTL_DEV),
    (9, RESOLVE_UNIX),
)
"""The rights on paths that are handled, by the version that brought them."""
_NETWORK_VERSION: Final = 4
"""TCP is refused by the filter too, so its lack leaves nothing open."""
OLDEST: Final = 3
"""The first version with which nothing outside changes its content. Linux 6.2."""
SINCE: Final[Mapping[Layer, int]] = {"devices": 5, "processes": 6, "sockets": 9}
"""The versions that brought the parts without which something is open."""
_PART_RIGHTS: Final[Mapping[Layer, int]] = {"devices": IOCTL_DEV, "processes": 0, "sockets": RESOLVE_UNIX}
"""Those on paths that are of a part."""

_WRITABLE: Final = (
    WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE
    | RESOLVE_UNIX
)
_ON_FILES: Final = WRITE_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX
"""Those of the handled rights that a rule on something else than a directory may have."""
_DEVICE: Final = WRITE_FILE | TRUNCATE | IOCTL_DEV
DEVICES: Final[Mapping[str, int]] = {
    **dict.fromkeys((f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "ptmx", "tty")), _DEVICE),
    "/dev/pts": _DEVICE,
    "/dev/shm": _WRITABLE,  # noqa: S108 -- where every lock, pool and shared memory is
}
"""What ordinary programs write to beside files. `tty` is the caller's own terminal, where it has made itself one."""

_RULESET: Final = Struct("=QQQ")
"""The rights on paths and on ports that are handled, and what is scoped; older versions take the beginning."""
_SIZES: Final = ((6, 24), (4, 16), (1, 8))
"""How much of it, by the version that brought a part."""
_RULE: Final = Struct("=Qi")
"""The rights that are allowed, and the directory below which they are."""


@cache
def version() -> int:
    """The version of Landlock that the kernel has; 0 where it has none, or it is turned off."""
    try:
        return kernel.system_call(kernel.LANDLOCK_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def missing() -> str:
    """Why there is no such layer here, in a phrase; empty where there can be one."""
    found = version()
    if found >= OLDEST:
        return ""
    what = f"version {found} of Landlock, which cannot keep a file from being emptied" if found else "no Landlock"
    return f"this kernel has {what} (Linux 6.2 or later)"


def enter(writable: Iterable[str], *, network: bool, without: Collection[Layer] = ()) -> tuple[Layer, ...]:
    """Enters a domain in which what is below these paths can be changed, and the devices used; the parts that it has.

    Left out are paths that do not exist, or lead elsewhere by a link, which may have been put there since somebody
    decided; and the parts `without`. Raises OSError, also where the kernel's version is too old.
    """
    if lack := missing():
        raise OSError(lack)
    found = version()
    parts: tuple[Layer, ...] = tuple(each for each in SINCE if SINCE[each] <= found and each not in without)
    left_out = sum(rights for part, rights in _PART_RIGHTS.items() if part not in parts)
    rights = sum(right for since, right in RIGHTS if since <= found) & ~left_out
    ports = 0 if network or found < _NETWORK_VERSION else BIND_TCP | CONNECT_TCP
    scopes = ABSTRACT_SOCKETS | SIGNALS if "processes" in parts else 0
    rules = [*DEVICES.items(), *((path, _WRITABLE) for path in writable)]
    restrict(_RULESET.pack(rights, ports, scopes)[: _size(found)], [(path, right & rights) for path, right in rules])
    return parts


def enter_unrestricted() -> None:
    """Enters a domain that restricts nothing but the sight of other processes. Raises OSError.

    A ruleset has to handle something. Moving files between directories is what every ruleset over files denies, unless
    it is allowed; so that is handled, and allowed everywhere. All other access is not handled and stays as it was.
    What it costs: a domain over files may not mount, not even in a namespace of its own.
    """
    restrict(REFER.to_bytes(8, "little"), [("/", REFER)])


def restrict(ruleset: bytes, rules: Iterable[tuple[str, int]]) -> None:
    """Enters a domain of that ruleset, with these rights below these paths. Raises OSError.

    The kernel asks for no new privileges or CAP_SYS_ADMIN, so that no program that gains rights is confined by who
    starts it.
    """
    created = kernel.system_call(kernel.LANDLOCK_CREATE_RULESET, ruleset, len(ruleset), 0)
    try:
        for path, rights in rules:
            _allow(created, path, rights)
        kernel.system_call(kernel.LANDLOCK_RESTRICT_SELF, created, 0)
    finally:
        os.close(created)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if os.readlink(f"/proc/self/fd/{place}") != path:
            return
        allowed = rights if os.path.isdir(f"/proc/self/fd/{place}") else rights & _ON_FILES
        kernel.system_call(kernel.LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, _RULE.pack(allowed, place), 0)
    finally:
        os.close(place)


def _size(found: int) -> int:
    return next(size for since, size in _SIZES if since <= found)
