"""A file that a statement writes, in memory until it lands: what the built-in `open` would return, over a memfd.

Owns that its content is handed on when it is closed, whoever closes it: a `with`, a call, the last reference, the
collector. Must not know where a content goes (`Landing`). Used by `opening`.

CPython drops what closing a file raises where nobody refers to the file any more, so the finalizer is ours: it tells
`Landing` instead. Of the three layers of a text file (text, buffer, raw) it is the outermost one that closes, and the
others follow. In a cycle the collector finalizes them in any order, and CPython loses there what the outer ones have
not passed on; so the finalizers of the inner ones do nothing, unless they were detached and are the outermost now.

A program that was given the descriptor may write on when the file is closed here, as a server does into its log. So
where somebody has asked for the descriptor, and another process has the file open still, `Landing` keeps one.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
from contextlib import suppress
from threading import RLock
from typing import Any, Final, Protocol, cast

from . import own_process
from .proc import pids

_NAME: Final = "rewindow-open"
LARGEST: Final = 32 << 20
"""Bytes of the largest file that is written in this way: it travels to the host in one message."""


class Landing(Protocol):
    """Where contents go."""

    def land(self, staging: Staging, content: bytes) -> None:
        """Takes what the file holds; raises what went wrong with that."""
        ...

    def report(self, staging: Staging, error: BaseException) -> None:
        """Takes what nobody could be raised."""
        ...

    def keep(self, staging: Staging, descriptor: int) -> None:
        """Takes a descriptor of a file that was closed and that another process has open (`is_open_elsewhere`)."""
        ...

    def follow(self, staging: Staging, top: Layer) -> None:
        """From now on `top` is what the statement has of the file."""
        ...


class Staging:
    """One file under way.

    Args:
        number: counts the files that were opened.
        path: for the host.
        name: as the statement spelled it.
        known: the digest of what the file holds as far as its writer knows; None where that did not look.
        landed: the digest of the content that need not land: what the file holds; None where any has to.
    """

    def __init__(
        self, landing: Landing, number: int, path: str, name: Any, known: str | None, landed: str | None
    ) -> None:
        self.landing = landing
        self.number = number
        self.path = path
        self.name = name
        self.known = known
        self.landed = landed
        self.is_broken = False
        self.descriptor = -1
        """Of the file while it is open, without anybody having asked for it; -1 afterwards."""
        self.lock = RLock()
        """Held where the descriptor is used or closed: its number may be another file's a moment later."""

    def land_if_open(self) -> None:
        """Hands on what was written so far. Not to be called with a lock of one of the layers."""
        with self.lock:
            if self.descriptor >= 0:
                self.land(self.descriptor)

    def land(self, descriptor: int) -> None:
        """Hands on what the staging file holds, without moving in it."""
        if not self.is_broken:
            size = os.fstat(descriptor).st_size
            self.check_size(size)
            self.landing.land(self, os.pread(descriptor, size, 0))

    def check_size(self, size: int) -> None:
        """Raises OSError (EFBIG) for a file that is too large. Nothing of it lands then."""
        if size > LARGEST:
            self.is_broken = True
            raise too_large(self.name)


def too_large(name: object) -> OSError:
    """The error for a file that `open` does not take."""
    sentence = (
        f"open() writes files of up to {LARGEST >> 20} MiB; io.open() writes larger ones, and nobody is shown them"
    )
    return OSError(errno.EFBIG, sentence, name)


class Layer:
    """What text, buffered and raw files have in common here."""

    staging: Staging | None = None
    is_outermost = False

    def __del__(self) -> None:
        if not self.is_outermost or self.staging is None:
            return
        try:
            cast("Any", self).close()
        except BaseException as error:
            self.staging.landing.report(self.staging, error)

    def detach(self) -> Any:
        """The layer below, which is the outermost now."""
        inner: Any = cast("Any", super()).detach()
        assert self.staging is not None
        self.is_outermost, inner.is_outermost = False, True
        self.staging.landing.follow(self.staging, inner)
        return inner


class _Raw(Layer, io.FileIO):
    is_lent = False

    def fileno(self) -> int:
        self.is_lent = True
        return super().fileno()

    def write(self, b: Any, /) -> int | None:
        staging, descriptor = self.staging, super().fileno()
        if staging is not None:
            start = os.fstat(descriptor).st_size if "a" in self.mode else os.lseek(descriptor, 0, os.SEEK_CUR)
            staging.check_size(start + memoryview(b).nbytes)
        return super().write(b)

    def truncate(self, size: int | None = None, /) -> int:
        if self.staging is not None and size is not None:
            self.staging.check_size(size)
        return super().truncate(size)

    def close(self) -> None:
        # In a process that a statement forked the lock may have been copied in its locked state.
        if self.staging is None or not own_process.is_own():
            super().close()
            return
        with self.staging.lock:
            if not self.closed:
                self._land_and_close(self.staging)

    def _land_and_close(self, staging: Staging) -> None:
        try:
            descriptor, staging.descriptor = staging.descriptor, -1
            if self.is_lent and is_open_elsewhere(descriptor):
                staging.landing.keep(staging, os.dup(descriptor))
            staging.land(descriptor)
        finally:
            super().close()


# By these names their objects are shown.
class BufferedWriter(Layer, io.BufferedWriter): ...


class BufferedRandom(Layer, io.BufferedRandom): ...


class TextIOWrapper(Layer, io.TextIOWrapper): ...


def is_open_elsewhere(descriptor: int) -> bool:
    """Whether another process has the file of this descriptor open, as far as this one may look."""
    wanted, own = os.fstat(descriptor), os.getpid()
    for pid in pids():
        with suppress(OSError):  # because it may have gone, or be somebody else's
            if pid != own and any(
                _leads_to(f"/proc/{pid}/fd/{name}", wanted) for name in os.listdir(f"/proc/{pid}/fd")
            ):
                return True
    return False


def _leads_to(link: str, wanted: os.stat_result) -> bool:
    # The link is read first, because to look at what is behind it may wait for a dead network file system.
    try:
        return os.readlink(link).startswith(f"/memfd:{_NAME}") and os.path.samestat(os.stat(link), wanted)
    except OSError:
        return False


def layers(
    staging: Staging,
    content: bytes,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> Layer:
    """The file object that the built-in `open` would make of these arguments, which it has found right.

    Args:
        content: what the file holds to begin with.
    """
    staging.descriptor = _memory(content, appending="a" in mode)
    raw: Any = _Raw(staging.descriptor, mode.replace("t", ""))
    raw.name = staging.name
    top: Any = raw
    if buffering != 0:
        size = io.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) else buffering
        top = BufferedRandom(raw, size) if "+" in mode else BufferedWriter(raw, size)
    if "b" not in mode:
        top.staging = staging
        top = TextIOWrapper(top, io.text_encoding(encoding, 3), errors, newline, line_buffering=buffering == 1)
        top.mode = mode
    raw.staging = top.staging = staging
    top.is_outermost = True
    return top


def _memory(content: bytes, *, appending: bool) -> int:
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        if appending:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
