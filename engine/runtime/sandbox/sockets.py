"""Unix sockets in the file tree that statements must not reach, for kernels whose Landlock does not refuse to connect.

A server on such a socket acts for whoever connects, outside the sandbox: a tmux server runs commands, an SSH agent
signs. To connect, a process needs the socket's path, so the mount layer covers each one. The kernel lists them with the
path that the server gave, so a relative path says nothing, nor does one below /proc. A server may rename its socket or
link it to another name (OpenSSH does), which the list does not tell. So where a listed socket is gone or has several
names, all sockets of the directory count. Sockets of another network namespace are not in the list, such as a socket of
Docker that was mounted into a container. So the usual ones are looked up too. Must not know how a path is covered.
Called by `entering`, and by `runtime.realm` for later sockets.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
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
MOST_NAMES: Final = 20_000
"""How many names of a directory are looked through for sockets, which takes some 10 ms."""
RESOLVERS: Final = frozenset(
    ("/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve", "/run/avahi-daemon/socket")
)
"""Servers that look up host names. They do nothing else for those who connect."""


def bound(domain: Domain) -> frozenset[str]:
    """Return all sockets with an absolute path, each with a number before the path.

    A server that makes its socket again gets another number, and so does a socket that gets another name. Directories
    that the domain may write are not searched for such names, because a program could fill them.
    """
    try:
        with open(_TABLE, "rb") as table:
            listed = list(map(os.fsdecode, _ENTRY.findall(table.read())))
    except OSError:  # there is no /proc
        listed = []
    usual = [each.format(user=os.geteuid()) for each in _USUAL]
    moved = _moved({each.partition(" ")[2] for each in listed}, (domain.scratch, *domain.writable))
    return frozenset((*listed, *moved, *_present((*usual, os.environ.get(_AGENT, "")))))


def _present(paths: Iterable[str]) -> Iterator[str]:
    """Yield those of the paths where something is, numbered. What is made later, or again, gets another number."""
    for path in paths:
        with suppress(OSError, ValueError):
            found = os.stat(path)
            yield f"{found.st_ino}{found.st_ctime_ns} {path}"


def _moved(paths: Iterable[str], writable: tuple[str, ...]) -> Iterator[str]:
    """Yield what may be other names of the sockets that had these paths."""
    gone = [path for path in paths if not _is_in_place(path)]
    for path in gone:
        # OpenSSH adds a random suffix first. Looked up directly, because the directory may have too many names.
        with suppress(OSError):
            yield _numbered(path.rpartition(".")[0])
    for folder in {os.path.dirname(path) for path in gone}:
        if is_inside(os.path.realpath(folder), writable):
            continue
        with suppress(OSError), os.scandir(folder) as names:
            for name in islice(names, MOST_NAMES):
                if not (name.is_file(follow_symlinks=False) or name.is_dir(follow_symlinks=False)):
                    yield _numbered(name.path)


def _is_in_place(path: str) -> bool:
    """Whether a socket is there that has no other name."""
    with suppress(OSError):
        found = os.stat(path)
        return stat.S_ISSOCK(found.st_mode) and found.st_nlink == 1
    return False


def _numbered(path: str) -> str:
    """Put the time of its last change before the path, which another name changes, too. Raises OSError."""
    return f"{os.lstat(path).st_ctime_ns} {path}"


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
