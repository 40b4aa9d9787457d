"""Which directory a path is in. Pure string work on absolute paths; must not ask the file system."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from msgspec import Struct


def is_inside(path: str, directories: tuple[str, ...]) -> bool:
    """Whether `path` is one of the directories or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in directories)


# domain:
# What the statements of a worker, and the programs beside them, may change outside of it; the kernel holds them to
# it.
#
# Owns the words for a sandbox: its layers, and what is allowed within. A process enters a domain once, with all that
# it starts, and never leaves it: other rights take another process. Pure: `runtime.sandbox` has the kernel hold a
# domain, sessions decide which one holds.

Layer = Literal["landlock", "seccomp", "mounts", "devices", "processes", "sockets"]
"""A mechanism of the kernel: rights on paths and ports; a filter of system calls; a view of the file tree. The others
are `PARTS` of the first."""
LAYERS: Final[tuple[Layer, ...]] = ("landlock", "seccomp", "mounts")
PARTS: Final[Mapping[Layer, str]] = {
    "devices": "control devices that they may open, by ioctl",
    "processes": "send signals to your other processes, and connect to their abstract Unix sockets",
    "sockets": "connect to Unix sockets in the file tree, such as those of D-Bus, Docker or tmux",
}
"""What later versions of Landlock brought to it, by what statements can do where the kernel has an earlier one."""
_HOLDING: Final[frozenset[Layer]] = frozenset(("landlock", "seccomp"))
"""Without mounts metadata outside (modes, owners, times, attributes) can be changed, and what is hidden can be read."""


class Domain(Struct, frozen=True, kw_only=True):
    """What may be changed: files below these absolute paths, and nothing else. Reading is free.

    `scratch` is a directory of the session, for files that nobody misses; a statement that has it hold more than
    `scratch_bytes`, and more than before, is ended. `writable` are further directories and files;
    of what is in them `read_only` cannot be changed, and `hidden` directories are empty to statements, where mounts are
    permitted. `network` allows TCP. `without` are layers, and parts of them, that are not entered, as if the kernel
    lacked them.
    """

    scratch: str
    scratch_bytes: int = 1 << 30
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    network: bool = False
    without: tuple[Layer, ...] = ()


def lacking(layers: Collection[Layer], domain: Domain | None = None) -> tuple[Layer, ...]:
    """Those without which statements could change files outside, or use the network; of this domain, or of most.

    Where what is hidden is inside of what is writable, as a state directory in a home directory that is the workspace,
    only a file tree of one's own keeps it from being written.
    """
    is_exposed = domain is not None and any(is_inside(path, domain.writable) for path in domain.hidden)
    needed = _HOLDING | {"mounts"} if is_exposed else _HOLDING
    return tuple(layer for layer in LAYERS if layer in needed and layer not in layers)


def is_held(layers: Collection[Layer], domain: Domain | None = None) -> bool:
    """Whether none is `lacking` of these layers, which are in force."""
    return not lacking(layers, domain)
