"""Sockets that pass descriptors. A record is one byte, and the descriptors that were sent with it.

macOS has no records for Unix sockets (SOCK_SEQPACKET), so both systems use a stream. A single byte cannot be torn: it
arrives, or it does not, whichever end dies. Its descriptors stay with it, because a kernel never joins data that
descriptors came with, and `receive` takes one byte.

macOS may destroy a socket that is on its way if the sender has closed it, so that its receiver finds it closed
(libuv, Node and Python's multiprocessing keep theirs open too). There a pipe travels with the descriptors, and they
stay open here until the other side has closed it. That also happens if it ends without receiving them.

Must not know what the records mean. Used between host, zygote and workers.
"""

from __future__ import annotations

import os
import socket
import sys
from array import array
from collections.abc import Sequence
from typing import Final

_INT: Final = 4
"""Bytes of a descriptor."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets for records. Raises OSError."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def adopted(descriptor: int) -> socket.socket:
    """The socket of a descriptor that `receive` returned. Family and type are given, so that Python asks for none."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)


def _received(connection: socket.socket, most: int, flags: int) -> tuple[bytes, list[int]]:
    # Not `socket.recv_fds`, which ignores the flags.
    record, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_LEN(most * _INT), flags)
    descriptors = array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % _INT])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return record, list(descriptors)


if sys.platform == "linux":

    def send(connection: socket.socket, record: bytes, descriptors: Sequence[int]) -> None:
        """Send a record of one byte. The descriptors may be closed afterwards. Raises OSError."""
        socket.send_fds(connection, [record], descriptors)

    def receive(connection: socket.socket, most: int, flags: int = 0) -> tuple[bytes, list[int]]:
        """Receive a record with at most so many descriptors; empty at the end. Raises OSError.

        Descriptors beyond `most` are lost, so the caller compares their number with what it expects.
        """
        return _received(connection, most, flags)

else:
    import threading

    def send(connection: socket.socket, record: bytes, descriptors: Sequence[int]) -> None:
        reader, writer = os.pipe()
        kept = [reader]
        try:
            kept += map(os.dup, descriptors)
            socket.send_fds(connection, [record], [*descriptors, writer])
        except BaseException:
            _close(kept)
            raise
        finally:
            os.close(writer)
        threading.Thread(target=_keep, args=(reader, kept), daemon=True).start()

    def receive(connection: socket.socket, most: int, flags: int = 0) -> tuple[bytes, list[int]]:
        record, descriptors = _received(connection, most + 1, flags)
        if descriptors:
            os.close(descriptors.pop())
        return record, descriptors

    def _keep(reader: int, kept: Sequence[int]) -> None:
        """Wait for the end of the pipe: the other side has the descriptors, or has ended."""
        os.read(reader, 1)
        _close(kept)

    def _close(descriptors: Sequence[int]) -> None:
        for each in descriptors:
            os.close(each)
