"""The Landlock layer: files can be changed only below writable paths. Some acts without a path are restricted too.

A ruleset handles rights, and allows some of them below paths; handled rights are otherwise denied. Reading is not
handled, because rules only add: it is impossible to allow everything except one directory, and files that are created
or replaced later would be missing. `RIGHTS` and the tables below it have the rights by version of Landlock. Before
version 3 a file could be emptied, so this layer needs version 3.

Without a mount namespace, `/dev/shm` and `/dev/pts` are the user's, with the shared memory and terminals of other
programs. Called by `entering`, and by `system` for a domain that restricts almost nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from ...files.pins import PIN, path_of
from ..system import kernel

if TYPE_CHECKING:  # because this module is loaded at start-up, and domains are not
    from ...core.domain import Layer

_VERSION: Final = 1
"""Makes `landlock_create_ruleset` return the version."""
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
"""The handled rights on paths, by the version that introduced them."""
_NETWORK_VERSION: Final = 4
"""The seccomp filter refuses TCP too, so nothing is open without it."""
OLDEST: Final = 3
"""The first version that protects the contents of all files outside. Linux 6.2."""
SINCE: Final[Mapping[Layer, int]] = {"devices": 5, "processes": 6, "sockets": 9}
"""The versions that introduced the parts of this layer. Without a part, some kind of access stays open."""
_PART_RIGHTS: Final[Mapping[Layer, int]] = {"devices": IOCTL_DEV, "processes": 0, "sockets": RESOLVE_UNIX}
"""The rights on paths that each part handles."""

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
"""The handled rights that a rule on anything but a directory may have."""
_DEVICE: Final = WRITE_FILE | TRUNCATE | IOCTL_DEV
DEVICES: Final[Mapping[str, int]] = {
    **dict.fromkeys((f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "ptmx", "tty")), _DEVICE),
    "/dev/pts": _DEVICE,
    "/dev/shm": _WRITABLE,  # noqa: S108 -- which locks, pools and shared memory use
}
"""Devices that ordinary programs write to. `tty` is the caller's own terminal, if it has made one."""

_RULESET: Final = Struct("=QQQ")
"""The handled rights on paths and on ports, and the scopes. Older versions accept a prefix of it."""
_SIZES: Final = ((6, 24), (4, 16), (1, 8))
"""The length of the prefix, by version."""
_RULE: Final = Struct("=Qi")
"""The allowed rights, and a descriptor of the path to which, and below which, they apply."""


@cache
def version() -> int:
    """The kernel's version of Landlock; 0 if it has none, or it is turned off."""
    try:
        return kernel.system_call(kernel.LANDLOCK_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def missing() -> str:
    """Why this layer is unavailable, as a phrase; empty if it is available."""
    found = version()
    if found >= OLDEST:
        return ""
    what = f"Landlock version {found}, which does not prevent truncation of files" if found else "no Landlock"
    return f"this kernel has {what} (needs Linux 6.2 or later)"


def enter(writable: Iterable[str], *, network: bool, without: Collection[Layer] = ()) -> tuple[Layer, ...]:
    """Enter a domain in which files below these paths can be changed, and devices used; return its parts.

    Leaves out the parts `without`, and paths that do not exist or contain links, because a link may be newer than the
    decision. Raises OSError, also if the kernel's version is too old.
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
    """Enter a domain whose only effect is that other processes cannot be read or traced. Raises OSError.

    A ruleset must handle a right. Every ruleset over files denies moving files between directories unless it is
    allowed, so this right is handled, and allowed everywhere. All other access is not handled, and unchanged. The cost:
    a domain over files cannot mount, even in its own namespace.
    """
    restrict(REFER.to_bytes(8, "little"), [("/", REFER)])


def restrict(ruleset: bytes, rules: Iterable[tuple[str, int]]) -> None:
    """Enter a domain with that ruleset, and these rights below these paths. Raises OSError.

    The kernel requires `no_new_privs` or CAP_SYS_ADMIN, so that no caller can confine a program that gains rights.
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
        place = os.open(path, PIN | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if path_of(place) != path:
            return
        allowed = rights if stat.S_ISDIR(os.fstat(place).st_mode) else rights & _ON_FILES
        kernel.system_call(kernel.LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, _RULE.pack(allowed, place), 0)
    finally:
        os.close(place)


def _size(found: int) -> int:
    return next(size for since, size in _SIZES if since <= found)
