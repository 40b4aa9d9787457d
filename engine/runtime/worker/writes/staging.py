"""Files that statements write, in memory until the host writes them; and the host's errors as Python's errors.

`Staging` is what the built-in `open` would return, over a memfd. Its content is passed on when the file is closed, by a
`with`, a call, the last reference, or the garbage collector. One staging file represents one file, however often it is
opened meanwhile: each opening returns an open file with its own position and flags, on the same content. The staging
file has a descriptor of its own, so closing the others loses nothing.

CPython drops an exception of closing a file that is not referenced any more. So the finalizer is ours and passes it to
`Landing`. Of the three layers of a text file (text, buffer, raw) the outermost one closes, and the others follow. In a
cycle the collector finalizes them in any order, and CPython loses what the outer ones have not flushed. So finalizers
of the inner layers do nothing, unless they were detached and are the outermost now. A program with a descriptor may
write on when the file is closed here, as a server does with its log, and so may a memory mapping. So if the descriptor
was requested, the staging file stays until no process has it.

`StagedFiles` decides when the host is asked: when a file is closed, and at the end of the statement that wrote it at
the latest, so the next statement finds the content on disk. Errors of the host get a number and a path, by which
libraries distinguish them. Must not know which files are staged (`opening`), nor how the host asks. Over 600 lines,
because the three layers of a file close each other.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from threading import RLock
from typing import Any, Final, Protocol, cast
from weakref import WeakValueDictionary

from ....files.pins import opened_again
from ....files.revision import digest_of
from ...system import own_process
from ...system.descriptors import close_memory_file, memory_file
from ...system.process_table import children_of, pids
from ..protocol import RecalledFile

_NAME: Final = "rewindow-open"
LARGEST: Final = 32 << 20
"""The largest staged file in bytes, because it travels to the host in one message."""
_FLOOR: Final = 256
"""Our descriptors start at this number, so statements get the usual low ones."""
_PASSED_ON: Final = os.O_ACCMODE | os.O_APPEND | os.O_TRUNC | os.O_NONBLOCK
_NUMBERS: Final[dict[type[OSError], int]] = {
    PermissionError: errno.EACCES,
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    InterruptedError: errno.EINTR,
}
_LARGER_IN_SCRATCH: Final = "write a larger file to a temporary directory, and move it with bash()"
_LARGER: Final = "io.open() writes larger files, without a diff"


class Landing(Protocol):
    """Receives contents. `larger` is a clause on how to write larger files."""

    larger: str

    def land(self, staging: Staging, content: bytes) -> None:
        """Write the file's content. Raises the failure."""
        ...

    def report(self, staging: Staging, error: BaseException) -> None:
        """Take an exception that could not be raised."""
        ...

    def follow(self, number: int, top: Layer) -> None:
        """Note that `top` is now the statement's file object for the opening with that number."""
        ...

    def released(self, staging: Staging) -> None:
        """Note that the last file object on it was closed."""
        ...


class Staging:
    """One staged file.

    Args:
        path: its path for the host.
        place: its real path.
        name: its path as the statement spelled it.
        content: the first content.
        known: the digest of the content that its writer expects in the file; None if it did not look.
        landed: the digest of the file's present content, which need not be written; None if any content must be.
        mode: the requested permission bits; None for the usual ones.
    """

    def __init__(
        self,
        landing: Landing,
        *,
        path: str,
        place: str,
        name: Any,
        content: bytes,
        known: str | None,
        landed: str | None,
        mode: int | None = None,
    ) -> None:
        self.landing = landing
        self.path = path
        self.place = place
        self.name = name
        self.known = known
        self.landed = landed
        self.mode = mode
        self.is_broken = False
        self.is_lent = False
        """Whether the descriptor was requested, and may be used after the file objects are closed."""
        self.is_gone = False
        """Whether the file was removed since it was opened, so its content will not be written."""
        self.lock = RLock()
        """Held while the descriptor is used or closed, because its number may be reused at once."""
        self._files = 0
        self._descriptor = _memory(content)
        self._identity = (0, 0)
        self._settled = (0, 0)
        self.take_place()

    def take_place(self) -> None:
        """Note the identity of the staging file, which is new or was copied with its process."""
        if self._descriptor >= 0:
            state = os.fstat(self._descriptor)
            self._identity = state.st_dev, state.st_ino
            self._settled = _content_state(state)

    @property
    def is_open(self) -> bool:
        """Whether there are file objects on it."""
        return self._files > 0

    @property
    def has_content(self) -> bool:
        """Whether it may have content that was not written yet, judged without comparing."""
        if self.is_broken or not self.has(self._descriptor):
            return False
        return self.landed is None or _content_state(self._state()) != self._settled

    @property
    def is_lost(self) -> bool:
        """Whether the staging file is gone."""
        return not self.has(self._descriptor)

    def _state(self) -> os.stat_result:
        if self.is_lost:
            # A statement closed the descriptor, and its number may be another file's. This is reported once.
            self._descriptor = -1
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.name)
        return os.fstat(self._descriptor)

    def opened(self, flags: int) -> int:
        """A new descriptor with its own position and flags."""
        self._state()
        if flags & os.O_TRUNC:
            self.is_broken = False
        return opened_again(self._descriptor, flags & _PASSED_ON)

    def opened_to_read(self, _name: object, _flags: int) -> int:
        """An `opener` for `open`."""
        return self.opened(os.O_RDONLY)

    def has(self, descriptor: int) -> bool:
        """Whether the descriptor belongs to this file."""
        try:
            state = os.fstat(descriptor)
        except OSError:
            return False
        return (state.st_dev, state.st_ino) == self._identity

    def land(self) -> None:
        """Pass its content on, without changing a position. Not to be called with the lock of a layer."""
        with self.lock:
            if self.is_broken or self.is_gone or self._descriptor < 0:
                return
            state = self._state()
            self.check_size(state.st_size)
            content = os.pread(self._descriptor, state.st_size, 0)
            self._settled = _content_state(state)
            self.landing.land(self, content)

    def check_size(self, size: int) -> None:
        """Raise OSError (EFBIG) for a file that is too large; nothing of it is written then."""
        if size > LARGEST:
            self.is_broken = True
            raise too_large(self.name, self.landing.larger)

    def take(self) -> None:
        """Count a new file object on it."""
        with self.lock:
            self._files += 1

    def release(self) -> None:
        """Count a closed file object."""
        with self.lock:
            self._files -= 1
        if not self._files:
            self.landing.released(self)

    def goes_on(self) -> bool:
        """Whether a process still has a descriptor or a mapping of it, as far as this process may look."""
        with self.lock:
            return self._descriptor >= 0 and (self.is_open or self._is_open_elsewhere() or self._is_mapped())

    def close(self) -> None:
        """Drop the staging file."""
        with self.lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                close_memory_file(descriptor)

    def _is_open_elsewhere(self) -> bool:
        own = os.getpid()
        # A process that is not a descendant can only have been sent the descriptor, which is rare.
        for pid in [own, *(pids() if children_of("self") else ())]:
            with suppress(OSError):  # because the process may be gone, or belong to another user
                for name in os.listdir(f"/proc/{pid}/fd"):
                    if not (pid == own and int(name) == self._descriptor) and self._leads_here(
                        f"/proc/{pid}/fd/{name}"
                    ):
                        return True
        return False

    def _leads_here(self, link: str) -> bool:
        # The link is read first, because a stat of its target may block on a dead network file system.
        try:
            if not os.readlink(link).startswith(f"/memfd:{_NAME}"):
                return False
            state = os.stat(link)
        except OSError:
            return False
        return (state.st_dev, state.st_ino) == self._identity

    def _is_mapped(self) -> bool:
        # Device, inode and path: columns four to six of proc_pid_maps(5).
        with suppress(OSError), open("/proc/self/maps", "rb", 0) as maps:
            for line in maps.read().splitlines():
                if _NAME.encode() in line and int(line.split(None, 5)[4]) == self._identity[1]:
                    return True
        return False


def _content_state(state: os.stat_result) -> tuple[int, int]:
    return state.st_size, state.st_mtime_ns


def too_large(name: object, larger: str) -> OSError:
    """The error for a file that is too large for `open`."""
    return OSError(errno.EFBIG, f"open() writes files of up to {LARGEST >> 20} MiB; {larger}", name)


class Layer:
    """The base of text, buffered and raw files. `number` counts the files that were opened."""

    staging: Staging | None = None
    number = 0
    is_outermost = False

    def __del__(self) -> None:
        if not self.is_outermost or self.staging is None:
            return
        try:
            cast("Any", self).close()
        except BaseException as error:
            self.staging.landing.report(self.staging, error)

    def detach(self) -> Any:
        """Return the layer below, which is now the outermost."""
        inner: Any = cast("Any", super()).detach()
        assert self.staging is not None
        self.is_outermost, inner.is_outermost = False, True
        self.staging.landing.follow(self.number, inner)
        return inner


class _Raw(Layer, io.FileIO):
    def fileno(self) -> int:
        if self.staging is not None:
            self.staging.is_lent = True
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
        # Because a process forked by a statement may have a locked copy of the lock.
        if self.staging is None or not own_process.is_own():
            super().close()
            return
        with self.staging.lock:
            if not self.closed:
                self._land_and_close(self.staging)

    def _land_and_close(self, staging: Staging) -> None:
        try:
            staging.land()
        finally:
            super().close()
            staging.release()


# The names of the classes in reprs.
class BufferedWriter(Layer, io.BufferedWriter): ...


class BufferedRandom(Layer, io.BufferedRandom): ...


class TextIOWrapper(Layer, io.TextIOWrapper): ...


def layers(  # noqa: PLR0917 -- the last five are those of `open`
    staging: Staging,
    number: int,
    descriptor: int,
    name: Any,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> Layer:
    """The file object that the built-in `open` would make from these arguments, which it has already checked.

    Args:
        number: counts the files that were opened.
        descriptor: of the staging file; the file object closes it.
        name: the path as the statement spelled it.
    """
    raw: Any = _Raw(descriptor, mode.replace("t", ""))
    raw.name = name
    top: Any = raw
    if buffering != 0:
        size = io.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) else buffering
        top = BufferedRandom(raw, size) if "+" in mode else BufferedWriter(raw, size)
    if "b" not in mode:
        top.staging, top.number = staging, number
        top = TextIOWrapper(top, io.text_encoding(encoding, 3), errors, newline, line_buffering=buffering == 1)
        top.mode = mode
    raw.staging = top.staging = staging
    raw.number = top.number = number
    top.is_outermost = True
    staging.take()
    return top


def unnamed(flags: int) -> int:
    """A descriptor of a nameless file, which is never written to disk."""
    descriptor = _memory(b"")
    try:
        return opened_again(descriptor, flags & _PASSED_ON)
    finally:
        close_memory_file(descriptor)


def _memory(content: bytes) -> int:
    descriptor = memory_file(_NAME, again=True)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        with suppress(OSError):  # because there may be a limit below
            high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FLOOR)
            os.close(descriptor)
            return high
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


# --- errors of the host -----------------------------------------------------------------------------------------------


@contextmanager
def numbered(path: object) -> Generator[None]:
    """Give an OSError without a number the number of its class."""
    try:
        yield
    except OSError as error:
        number = _NUMBERS.get(type(error))
        if error.errno is not None or number is None:
            raise
        sentence = str(error).removesuffix(f": {os.fsdecode(path)}") if isinstance(path, str | bytes) else str(error)
        raise type(error)(number, sentence.removesuffix("."), path).with_traceback(
            error.__traceback__
        ) from error.__cause__


class Asking(Protocol):
    """The part of `Effects` that is used here."""

    @property
    def ours(self) -> bool: ...

    @property
    def replaying(self) -> bool: ...

    @property
    def planning(self) -> bool: ...

    @property
    def goes_by_record(self) -> bool: ...

    def has_answer(self, operation: str, arguments: dict[str, object]) -> bool: ...

    def recalled_file(self, place: str, *, content: bool) -> RecalledFile | None: ...

    @property
    def running(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    def ask(self, operation: str, arguments: dict[str, object], basis: str | None = None) -> object: ...


# --- all staging files ------------------------------------------------------------------------------------------------


class StagedFiles:
    """The staged files of one environment.

    Args:
        change: requests a change, with the digest that views have shown (`LastShown.ask_to_change`).
        routed: any code opens them, not only the `open` of statements.
    """

    def __init__(self, effects: Asking, change: Callable[..., object], *, routed: bool) -> None:
        self.routed = routed
        self.larger = _LARGER_IN_SCRATCH if routed else _LARGER
        self._effects = effects
        self._change = change
        self._opened = 0
        self._tops: WeakValueDictionary[int, Layer] = WeakValueDictionary()
        """The file objects by their numbers."""
        self._numbers: dict[int, Staging] = {}
        """Descriptors that were given to statements (`os.open`)."""
        self._under_way: dict[str, Staging] = {}
        """The latest staging file of each open file, by real path."""
        self._lent: list[Staging] = []
        """Files that may be written after all their file objects are closed."""
        self._late: list[tuple[Staging, bytes]] = []
        self._errors: list[BaseException] = []
        self.lock = RLock()

    # --- the table ----------------------------------------------------------------------------------------------------

    @property
    def any(self) -> bool:
        """Whether a file is staged."""
        return bool(self._under_way)

    def at(self, place: str) -> Staging | None:
        """The staging file of a real path, or None."""
        return self._under_way.get(place)

    def add(self, staging: Staging) -> None:
        """Add a staging file."""
        self._under_way[staging.place] = staging

    def forget(self, staging: Staging) -> None:
        """Remove it, because its file was renamed or removed."""
        if self._under_way.get(staging.place) is staging:
            del self._under_way[staging.place]

    def land_at(self, place: str) -> None:
        """Write the staged content of a real path now, because the file is about to be read."""
        staging = self._under_way.get(place)
        if staging is not None:
            staging.land()

    def removed(self, staging: Staging) -> None:
        """Note that its file was removed, so its content is not written."""
        staging.is_gone = True
        self.forget(staging)
        self.released(staging)

    def removed_below(self, place: str) -> None:
        """The same for all files in a removed directory, by its real path."""
        for staging in [each for each in self._under_way.values() if each.place.startswith(f"{place}/")]:
            self.removed(staging)

    def renamed(self, source: str, target: str, shown: str) -> None:
        """Note that the file was renamed, perhaps over another one. `shown` is the new path for the host."""
        replaced, staging = self._under_way.get(target), self._under_way.get(source)
        if replaced is not None:
            replaced.is_gone = True
            self.forget(replaced)
        if staging is not None:
            self.forget(staging)
            staging.place, staging.path = target, shown
            self.add(staging)

    def number(self) -> int:
        """The number of the next opened file."""
        with self.lock:
            self._opened += 1
            return self._opened

    def follow(self, number: int, top: Layer) -> None:
        self._tops[number] = top

    def lend(self, staging: Staging, descriptor: int) -> None:
        """Give the descriptor to a statement, which may close it in any way."""
        staging.is_lent = True
        self._numbers[descriptor] = staging
        if staging not in self._lent:
            self._lent.append(staging)

    def lent(self, descriptor: int) -> Staging | None:
        """The staging file of a lent descriptor, if the number still means it."""
        staging = self._numbers.get(descriptor)
        if staging is not None and not staging.has(descriptor):
            del self._numbers[descriptor]
            return None
        return staging

    def of(self, descriptor: int) -> Staging:
        """The staging file of a descriptor that was just lent."""
        return self._numbers[descriptor]

    def take_back(self, descriptor: int) -> None:
        """Forget a lent descriptor, whose number is reused."""
        self._numbers.pop(descriptor, None)

    def released(self, staging: Staging) -> None:
        if not staging.is_lent or not staging.goes_on():
            self._end(staging)
        elif staging not in self._lent:
            self._lent.append(staging)

    def _end(self, staging: Staging) -> None:
        with self.lock:
            if staging.is_open:
                return
            staging.close()
            self.forget(staging)

    def take_place(self) -> None:
        """Continue in a copy that has taken the worker's place, which has its own staging files."""
        for staging in {id(each): each for each in (*self._under_way.values(), *self._lent)}.values():
            staging.take_place()

    # --- landing ------------------------------------------------------------------------------------------------------

    def land(self, staging: Staging, content: bytes) -> None:
        """Let the host write content that is not on disk. Raises its refusal, and does not retry the same content."""
        if not self._effects.ours:
            return
        digest = digest_of(content)
        if digest == staging.landed:
            return
        staging.landed = digest
        # The garbage collector may finalize a file while this very thread asks a question, and questions cannot be
        # nested. And a thread may close a file after its statement has ended.
        if self._effects.busy or not self._effects.running:
            self._late.append((staging, content))
            return
        try:
            self._ask(staging, content)
        except RuntimeError:
            # Or the statement ended while its thread waited to ask.
            if self._effects.running:
                raise
            self._late.append((staging, content))
        else:
            staging.known = digest

    def _ask(self, staging: Staging, content: bytes) -> None:
        arguments: dict[str, object] = {"path": staging.path, "text": content}
        if staging.mode is not None:
            arguments["mode"] = staging.mode
        with numbered(staging.name) if self.routed else nullcontext():
            if staging.known is None:
                self._change("write", arguments)
            else:
                self._effects.ask("write", arguments, staging.known)

    def report(self, staging: Staging, error: BaseException) -> None:
        """Keep a finalizer's exception for the end of the statement."""
        if self._effects.ours:
            error.add_note(f"raised when the last reference to the file {os.fsdecode(staging.name)} was removed")
            self._errors.append(error.with_traceback(None))

    def settle(self) -> list[BaseException]:
        """At the end of the statement, write the files that are still open. Returns the failures, in order."""
        errors, self._errors = self._errors, []
        late, self._late = self._late, []
        for staging, content in late:
            staging.landed = None
            _try(lambda staging=staging, content=content: self.land(staging, content), errors)
        # In the order in which they were opened, all taken at once, because threads go on opening files.
        for reference in self._tops.valuerefs():
            if (top := reference()) is not None:
                _try(lambda top=top: _land_open(top), errors)
        self._settle_lent(errors)
        return errors

    def _settle_lent(self, errors: list[BaseException]) -> None:
        """Write files that descriptors or mappings may have changed, as long as these exist."""
        for number in tuple(self._numbers):
            self.lent(number)
        lent, self._lent = self._lent, []
        for staging in lent:
            # Checked first, so that a write before the last of them closes is not lost.
            goes_on = staging.goes_on()
            _try(staging.land, errors)
            if goes_on:
                self._lent.append(staging)
            else:
                self._end(staging)


def _land_open(top: Any) -> None:
    # Before the staging file is locked, because a close takes the buffer's lock first. The file may be closed already.
    with suppress(ValueError):
        top.flush()
    if not top.closed:
        top.staging.land()


def _try(action: Callable[[], None], errors: list[BaseException]) -> None:
    try:
        action()
    except Exception as error:
        errors.append(error)
