"""Unix sockets in the file tree that statements must not reach, for kernels whose Landlock does not refuse to connect.

A server on such a socket acts for whoever connects, outside the sandbox: a tmux server runs commands, an SSH agent
signs. To connect, a process needs the socket's path, so the mount layer covers each one. The kernel lists them with the
path that the server gave, so a relative path says nothing, nor does one below /proc. Sockets of another network
namespace are not in the list, such as a socket of Docker that was mounted into a container. So the usual ones are
looked up too. Must not know how a path is covered. Called by `entering`, and by `runtime.realm` for later sockets.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from typing import Final

from ...core.domain import Domain, is_inside
from ...files.pins import PIN, path_of

_TABLE: Final = "/proc/net/unix"
_ENTRY: Final = re.compile(rb" ([0-9]+ /.*)$", re.MULTILINE)
"""The number and the path of a socket, at the end of its line."""
_USUAL: Final = (
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/dbus/system_bus_socket",
    "/run/user/{user}/bus",
    "/run/user/{user}/docker.sock",
    "/run/user/{user}/podman/podman.sock",
)
_AGENT: Final = "SSH_AUTH_SOCK"
RESOLVERS: Final = frozenset(
    ("/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve", "/run/avahi-daemon/socket")
)
"""Servers that look up host names. They do nothing else for those who connect."""


def bound() -> frozenset[str]:
    """Return all sockets with an absolute path, each with its number before the path.

    A server that makes its socket again gets another number.
    """
    try:
        with open(_TABLE, "rb") as table:
            listed = _ENTRY.findall(table.read())
    except OSError:  # there is no /proc
        listed = []
    usual = [each.format(user=os.geteuid()) for each in _USUAL]
    return frozenset((*map(os.fsdecode, listed), *(f"0 {path}" for path in (*usual, os.environ.get(_AGENT, "")))))


def outside(sockets: Iterable[str], domain: Domain) -> Sequence[str]:
    """Return the paths of those `bound` sockets that the domain must not reach, links resolved.

    A socket in a writable directory may be a statement's own. Leaves out what cannot be found.
    """
    writable = (domain.scratch, *domain.writable)
    paths = set(map(_found, sockets))
    return [path for path in paths if path and not _is_allowed(path, writable, network=domain.network)]


def _found(socket: str) -> str:
    """The path of the socket without links; empty if there is none."""
    path = socket.partition(" ")[2]
    try:
        place = os.open(path, PIN | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return path_of(place) if stat.S_ISSOCK(os.fstat(place).st_mode) else ""
    finally:
        os.close(place)


def _is_allowed(path: str, writable: tuple[str, ...], *, network: bool) -> bool:
    return is_inside(path, writable) or (network and path in RESOLVERS)
