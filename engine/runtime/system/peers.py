"""Who is at the other end of a connection on loopback: another user, or a process that a statement started.

A server for a person must not serve the statements of that person's sessions, which may read what the person can read.
So it asks the kernel which process has the peer's socket. Processes of statements carry a brand (`brands`), with or
without a sandbox, however they were started. A process can hide its descriptors by making itself unreadable. So if no
process is found that has the socket, and one of a statement is unreadable, that one is suspected.

This is the second line of defence: the first is a secret that no statement can read. A statement with the user's own
permissions could ask a program that it did not start, such as a browser with remote control, to connect in its place.

Only Linux tells. Elsewhere, and without /proc, every peer is a `STRANGER`. Reads only. Used by `session_page`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from enum import Enum
from ipaddress import ip_address
from typing import Final

from .brands import brand_of
from .process_table import pids, stat_of

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9
"""Positions in a line of these tables."""
_ROOT: Final = 0

Endpoint = tuple[str, int]
"""An address, and a port."""


class Peer(Enum):
    """The owner of the other end of a connection."""

    STRANGER = "a process that no statement started, as far as the system tells"
    STATEMENT = "a process that a statement started"
    OTHER_USER = "a process of another user"


_IS_LINUX: bool = sys.platform == "linux"


def peer_of(server: Endpoint, client: Endpoint) -> Peer:
    """Return who has the other end of the connection from `client` to `server`, both on this machine.

    Takes some milliseconds, more with many processes.
    """
    found = _socket(client, server) if _IS_LINUX else None
    if found is None:
        return Peer.STRANGER
    user, inode = found
    if user not in (os.getuid(), _ROOT):
        return Peer.OTHER_USER
    return Peer.STATEMENT if _is_of_statement(inode) else Peer.STRANGER


def _socket(local: Endpoint, remote: Endpoint) -> tuple[int, int] | None:
    """Return user and inode of the socket with these ends; None if the kernel does not list it."""
    for table in _TABLES:
        with suppress(OSError), open(table, "rb") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > _INODE and _is_end(fields[_LOCAL], local) and _is_end(fields[_REMOTE], remote):
                    return int(fields[_USER]), int(fields[_INODE])
    return None


def _is_end(listed: bytes, end: Endpoint) -> bool:
    address, _, port = listed.partition(b":")
    if not port or int(port, 16) != end[1]:
        return False
    words = bytes.fromhex(address.decode())
    # The kernel prints each word of four bytes in the order of the machine.
    packed = b"".join(
        words[place : place + 4][:: -1 if sys.byteorder == "little" else 1] for place in range(0, len(words), 4)
    )
    listed_address = ip_address(packed)
    mapped = getattr(listed_address, "ipv4_mapped", None)
    return (mapped or listed_address) == ip_address(end[0])


def _is_of_statement(inode: int) -> bool:
    name = f"socket:[{inode}]"
    is_found = is_hidden = False
    for pid in pids():
        has = _has(pid, name)
        if has is False or (has is None and is_hidden):
            continue
        is_branded = brand_of(pid) is not None
        if has:
            if is_branded:
                return True
            is_found = True
        elif is_branded and not _is_zygote(pid):
            is_hidden = True
    return is_hidden and not is_found


def _has(pid: int, name: str) -> bool | None:
    """Whether the process has that open file; None if it cannot be read."""
    place = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(place)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    for descriptor in descriptors:
        with suppress(OSError):
            if os.readlink(f"{place}/{descriptor}") == name:
                return True
    return False


def _is_zygote(pid: int) -> bool:
    """Whether it is a zygote: the only branded process whose parent, the host, is not. It runs no statement."""
    found = stat_of(pid)
    return found is None or brand_of(found.parent) is None
