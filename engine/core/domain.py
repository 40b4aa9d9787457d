"""The words for a sandbox: its layers, what is allowed within, and when a kernel's layers are enough.

A process enters a domain once, with everything that it starts, and never leaves it; other rights need another process.
Pure: string work on absolute paths, without a look at the file system. `runtime.sandbox` makes the kernel enforce a
domain; sessions decide which one applies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

Layer = Literal["landlock", "seccomp", "mounts", "devices", "processes", "sockets", "seatbelt"]
"""A mechanism of the kernel. "landlock": rights on paths and ports; "seccomp": a filter of system calls; "mounts": a
private view of the file tree; "seatbelt": the one layer of macOS, rules for all of these. The others are `PARTS` of
Landlock, which Seatbelt includes."""
LAYERS: Final[tuple[Layer, ...]] = ("landlock", "seccomp", "mounts")
PARTS: Final[Mapping[Layer, str]] = {
    "devices": "send ioctl commands to devices that they may open",
    "processes": "send signals to your other processes, and connect to their abstract Unix sockets",
    "sockets": "connect to Unix sockets in the file tree, such as those of D-Bus, Docker or tmux",
}
"""The parts that later versions of Landlock added, with what statements can do on a kernel without them."""
LATE_SOCKETS: Final = "connect to Unix sockets that other programs make while a statement runs"
"""What remains of it without the part "sockets" if the layer of mounts covers the sockets that exist."""
_ESSENTIAL: Final[frozenset[Layer]] = frozenset(("landlock", "seccomp"))
"""Without mounts, statements can still change metadata outside (modes, owners, times) and read hidden directories."""
_PRIVATE: Final[frozenset[Layer]] = frozenset(("mounts", "seatbelt"))
"""One of these protects metadata outside, and hides directories."""


class Domain(Struct, frozen=True, kw_only=True):
    """The rights of sandboxed processes: they may change files below these absolute paths only, and read everything.

    `scratch` is the session's directory for temporary files. A statement that fills it beyond `scratch_bytes`, and
    beyond its earlier size, is ended. `writable` are further directories and files. Of these, `read_only` paths cannot
    be changed, and `hidden` directories look empty if mounts are permitted. `network` allows TCP and UDP. `without` are
    layers, and parts, that are not used, as if the kernel lacked them.
    """

    scratch: str
    scratch_bytes: int = 1 << 30
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    network: bool = False
    without: tuple[Layer, ...] = ()


def lacking(layers: Collection[Layer], domain: Domain | None = None) -> tuple[Layer, ...]:
    """Return the missing layers without which statements could change files outside or use the network.

    If a hidden directory is inside a writable one, such as a state directory in a home directory that is the workspace,
    only a private file tree protects it.
    """
    if "seatbelt" in layers:
        return ()
    is_exposed = domain is not None and any(is_inside(path, domain.writable) for path in domain.hidden)
    needed = _ESSENTIAL | {"mounts"} if is_exposed else _ESSENTIAL
    return tuple(layer for layer in LAYERS if layer in needed and layer not in layers)


def is_held(layers: Collection[Layer], domain: Domain | None = None) -> bool:
    """Return whether these active layers suffice for the domain."""
    return not lacking(layers, domain)


def is_bare(layers: Collection[Layer]) -> bool:
    """Return whether, with these layers, metadata outside can be changed, and hidden directories be read."""
    return not _PRIVATE & set(layers)


def abilities(lacks: Collection[Layer], *, bare: bool) -> Sequence[str]:
    """Return what statements can do without these parts, as phrases; `bare` as in `is_bare`."""
    return [LATE_SOCKETS if part == "sockets" and not bare else what for part, what in PARTS.items() if part in lacks]


def must_stand_still(layers: Collection[Layer], domain: Domain | None) -> bool:
    """Return whether sandboxed processes must be stopped while the host changes a protected file.

    A mount follows the change. The rules of Seatbelt are about paths, so they suffice unless processes could write the
    file before it has its path.
    """
    return "mounts" in layers or ("seatbelt" in layers and domain is not None and bool(domain.writable))


def is_inside(path: str, directories: tuple[str, ...]) -> bool:
    """Return whether `path` is one of the directories or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in directories)
