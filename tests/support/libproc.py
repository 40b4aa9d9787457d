"""A stand-in for macOS's libproc on Linux, for the calls that the engine makes.

Where each field is in a structure is written here as bsd/sys/proc_info.h of macOS's kernel has it, apart from the
engine's own description; no test compares either with a kernel. Installed by `other_system`.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any, Final

NAME: Final = "/usr/lib/libproc.dylib"
_ALL_PIDS: Final = 1
_PROCESS, _TASK, _THREAD_IDS = 3, 4, 28
_PROCESS_BYTES, _TASK_BYTES = 136, 96
_STATES: Final = {b"R": 2, b"S": 3, b"D": 3, b"I": 3, b"T": 4, b"t": 4, b"Z": 5}
_TICKS: Final = 100
"""Ticks of /proc in a second."""


# Bound here, because the program redirects these functions in workers, and statements may replace them.
_open, _read, _close, _listdir = os.open, os.read, os.close, os.listdir


def _content(path: str) -> bytes:
    descriptor = _open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read(descriptor, 65536)
    finally:
        _close(descriptor)


class Libproc:
    """The library."""

    def proc_listpids(self, kind: int, _: int, room: Any, size: int) -> int:
        assert kind == _ALL_PIDS
        found = [int(name) for name in _listdir("/proc") if name.isdigit()]
        data = struct.pack(f"={len(found)}i", *found)
        return len(data) if room is None else self._give(data, room, size - size % 4)

    def proc_pidinfo(self, pid: int, kind: int, argument: Any, room: Any, size: int) -> int:
        try:
            fields = _content(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            threads = list(map(int, _listdir(f"/proc/{pid}/task")))
        except OSError:
            return 0
        is_zombie = fields[0] == b"Z"
        if kind == _PROCESS and (not is_zombie or argument.value == 1):
            return self._give(_process(pid, fields), room, size)
        if kind == _TASK and not is_zombie:
            data = bytearray(_TASK_BYTES)
            struct.pack_into("=i", data, 84, len(threads))  # pti_threadnum
            return self._give(bytes(data), room, size)
        if kind == _THREAD_IDS:
            return self._give(struct.pack(f"={len(threads)}Q", *threads), room, size - size % 8)
        return 0

    @staticmethod
    def _give(data: bytes, room: Any, size: int) -> int:
        given = data[:size]
        ctypes.memmove(room, given, len(given))
        return len(given)


def _process(pid: int, fields: list[bytes]) -> bytes:
    data = bytearray(_PROCESS_BYTES)
    struct.pack_into("=I", data, 4, _STATES[fields[0]])  # pbi_status
    struct.pack_into("=I", data, 12, pid)  # pbi_pid
    struct.pack_into("=I", data, 16, int(fields[1]))  # pbi_ppid
    struct.pack_into("=I", data, 100, int(fields[2]))  # pbi_pgid
    seconds, ticks = divmod(int(fields[19]), _TICKS)
    struct.pack_into("=QQ", data, 120, seconds, ticks * (10**6 // _TICKS))  # pbi_start_tvsec, pbi_start_tvusec
    return bytes(data)
