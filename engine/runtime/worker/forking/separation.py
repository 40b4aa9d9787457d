"""What a forked copy of a worker shares with it by descriptor, and how the copy is given its own.

A fork copies memory, not what is behind descriptors. Left as it is, the copy would read on where the worker has read,
keep locks and ports of files and sockets that the worker has closed, and keep whoever waits for the end of a pipe
waiting. So in the copy each descriptor becomes what it can be there:

- a regular file is opened anew, at the place where it was;
- a file in memory, which nobody could open again, is copied;
- a pipe or a socket is one whose other end is closed: what it led to belongs to the worker, and ends with it;
- the pipes of stdout and stderr lead nowhere, and are known again when the copy gets pipes of its own.

Everything else (devices, directories) is shared, as is what cannot be had anew. Must not know why there is a copy. Used
by `checkpoint`.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from contextlib import suppress
from typing import Final

from msgspec import Struct

from ..keeping.descriptors import is_high

_ACCESS: Final = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_SYNC | getattr(os, "O_DIRECT", 0)
"""Of a descriptor's flags: those that a second open of its file is to have."""
_COPIED: Final = 64 << 20
"""Bytes of a file in memory that are copied at most; of a larger one the copy is empty."""
_PIECE: Final = 1 << 20
_MEMORY_FILE: Final = "/memfd:"
_Copies = dict[tuple[int, int], int]
"""By the identity of a file in memory, the descriptor that leads to the copy of it."""


class Shared(Struct):
    """What descriptors of a worker lead to that a copy must not share, each by number.

    `outputs`: those that lead to stdout and to stderr; `files`: to regular files; `ends`: to pipes and sockets, of
    which `lost` are a statement's. `null` and `dead` are open for the copy: what outputs and ends become.
    """

    outputs: tuple[list[int], list[int]]
    files: list[int]
    ends: list[int]
    lost: int
    null: int
    dead: int

    @property
    def has_statements(self) -> bool:
        """Whether any is a statement's: its reading would move the copy's place, the copy would hold its port."""
        return bool(self.files or self.lost)

    def close(self) -> None:
        """For whoever is not the copy."""
        os.close(self.null)
        os.close(self.dead)


def shared(spares: tuple[int, int], kept: frozenset[int]) -> Shared:
    """What a copy of this process would share by descriptor. All that can be is done here and not in the copy.

    Args:
        spares: two that lead to stdout and stderr.
        kept: those that are meant for the copy.
    """
    places = [_identity(os.fstat(spare)) for spare in spares]
    found = Shared(outputs=([], []), files=[], ends=[], lost=0, null=-1, dead=-1)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor in kept:
            continue
        with suppress(OSError):
            file = os.fstat(descriptor)
            if _identity(file) in places:
                found.outputs[places.index(_identity(file))].append(descriptor)
            elif stat.S_ISREG(file.st_mode):
                found.files.append(descriptor)
            elif stat.S_ISFIFO(file.st_mode) or stat.S_ISSOCK(file.st_mode):
                found.ends.append(descriptor)
                found.lost += not is_high(descriptor)
    found.null, found.dead = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), _dead_end()
    return found


def separate(shared: Shared) -> None:
    """Gives this process, a forked copy, descriptors of its own."""
    for source, targets in ((shared.null, shared.outputs[0] + shared.outputs[1]), (shared.dead, shared.ends)):
        for target in targets:
            # The channel has closed itself, as in all that is forked.
            with suppress(OSError):
                _replace(source, target)
    shared.close()
    open_files_anew(shared)


def open_files_anew(shared: Shared) -> None:
    """Gives a copy, also of a copy, its own places in files, and its own files in memory."""
    copies: _Copies = {}
    for descriptor in shared.files:
        with suppress(OSError):
            _open_anew(descriptor, copies)


def give_outputs(shared: Shared, pipes: tuple[int, int]) -> None:
    """Has what led to stdout and stderr lead to these."""
    for pipe, descriptors in zip(pipes, shared.outputs, strict=True):
        for descriptor in descriptors:
            _replace(pipe, descriptor)


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino


def _dead_end() -> int:
    """A socket whose other end is closed: reading finds the end, writing raises BrokenPipeError."""
    ours, theirs = socket.socketpair()
    theirs.close()
    return ours.detach()


def _replace(source: int, target: int) -> None:
    os.dup2(source, target, inheritable=os.get_inheritable(target))


def _open_anew(descriptor: int, copies: _Copies) -> None:
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    path = f"/proc/self/fd/{descriptor}"
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & _ACCESS | os.O_CLOEXEC
    is_memory = os.readlink(path).startswith(_MEMORY_FILE)
    fresh = _opened_copy(descriptor, flags, copies) if is_memory else os.open(path, flags)
    try:
        os.lseek(fresh, place, os.SEEK_SET)
        _replace(fresh, descriptor)
    finally:
        os.close(fresh)


def _opened_copy(descriptor: int, flags: int, copies: _Copies) -> int:
    """A file in memory that holds the same, and stands for what each descriptor of that file leads to."""
    source = _identity(os.fstat(descriptor))
    known = copies.get(source)
    copy = _copied(descriptor) if known is None else known
    try:
        fresh = os.open(f"/proc/self/fd/{copy}", flags)
    finally:
        if known is None:
            os.close(copy)
    copies[source] = descriptor
    return fresh


def _copied(descriptor: int) -> int:
    path = f"/proc/self/fd/{descriptor}"
    fresh = os.memfd_create(os.readlink(path)[len(_MEMORY_FILE) :].removesuffix(" (deleted)"), os.MFD_CLOEXEC)
    # Anew, because this one may be open for writing alone.
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size, at = os.fstat(source).st_size, 0
        while at < size <= _COPIED and (data := os.pread(source, _PIECE, at)):
            at += os.pwrite(fresh, data, at)
    finally:
        os.close(source)
    return fresh
