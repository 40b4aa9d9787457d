"""`open` of a statement: what it writes into files of the workspace lands as a `write` of the host's, with its diff.

A file that is opened for writing is a staging file in memory, an ordinary one to whoever has its descriptor, also to a
program that is started. Its content lands when it is closed, by whatever means, and when the statement ends in which
it was written: what one statement wrote, the next one finds on the disk. Everything else (reading, devices and pipes,
descriptors, an `opener`) is the built-in's. Must not know how a write is asked about or done. Made by `interpreter`;
`executor` calls `settle` after each statement.
"""

from __future__ import annotations

import builtins
import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, cast
from weakref import WeakValueDictionary

from ..confinement import Place, place_to_write
from ..nodes.revision import digest_of
from .outside import STAGED
from .staging import LARGEST, Layer, Staging, is_open_elsewhere, layers, too_large

_WRITING: Final = frozenset("wax+")


class Asking(Protocol):
    """What is used of `Effects`."""

    @property
    def ours(self) -> bool: ...

    @property
    def replaying(self) -> bool: ...

    @property
    def planning(self) -> bool: ...

    @property
    def running(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    def ask(self, operation: str, arguments: dict[str, object], basis: str | None = None) -> object: ...


class Opening:
    """The files that statements have open for writing.

    Args:
        change: asks for a change with what views have shown of the file (`LastShown.ask_to_change`).
        roots: absolute directories in which files may be written; the first is what paths are shown relative to.
    """

    def __init__(self, effects: Asking, change: Callable[..., object], roots: tuple[str, ...]) -> None:
        self._effects = effects
        self._change = change
        self._roots = roots
        self._opened = 0
        self._files: WeakValueDictionary[int, Layer] = WeakValueDictionary()
        self._late: list[tuple[Staging, bytes]] = []
        self._kept: list[tuple[Staging, int]] = []
        self._errors: list[BaseException] = []

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
    ) -> Any:
        """The built-in `open`, but `~` is expanded, and what is written into the project lands when the file is closed.

        It lands as one write, with its diff, at the latest when the statement ends.
        """
        arguments = (buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int):
            file = cast("str | bytes", os.path.expanduser(file))
        if isinstance(file, int) or not self._is_staged(file, mode) or opener is not None or not closefd:
            return builtins.open(file, mode, *arguments)
        # So that wrong arguments are refused as ever, before anything else is looked at.
        builtins.open(os.devnull, mode.replace("x", "w"), *arguments).close()
        content, staging = self._begun(file, mode)
        top = layers(staging, content, mode, buffering, encoding, errors, newline)
        self._files[staging.number] = top
        return top

    def _is_staged(self, file: str | bytes, mode: object) -> bool:
        """Whether it is a regular or a new file to be written; what is no mode or no path, the built-in refuses."""
        if not isinstance(mode, str) or not _WRITING & set(mode):
            return False
        # A process that a statement forked cannot ask, and neither can a thread that it left behind.
        if not self._effects.ours or not self._effects.running:
            return False
        try:
            return stat.S_ISREG(os.stat(file).st_mode)
        except OSError:
            return True
        except ValueError:
            return False

    def _begun(self, file: str | bytes, mode: str) -> tuple[bytes, Staging]:
        """What the staging file begins with, and what is to become of it."""
        place = os.path.join(os.getcwd(), os.fsdecode(file))
        try:
            place.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"open(): {place!r} is no text in UTF-8; io.open() opens it, and nobody is shown"
            ) from None
        try:
            held = self._held(place, file, mode)
        except OSError:
            # What is on the disk now is not what the statement found when it ran; nothing lands in a replay.
            if self._looks:
                raise
            held = b""
        is_new = "w" in mode or "x" in mode
        self._opened += 1
        known = None if is_new or held is None else digest_of(held)
        return b"" if is_new else held or b"", Staging(self, self._opened, self._shown(place), file, known, known)

    @property
    def _looks(self) -> bool:
        """Whether what is outside counts: a replay goes by its record, which in plan mode is that it was refused."""
        return self._effects.planning or not self._effects.replaying

    def _held(self, place: str, file: str | bytes, mode: str) -> bytes | None:
        """What the file holds where that matters; None where there is none. Raises where it cannot be written."""
        if self._looks:
            sys.audit(STAGED, os.fsdecode(file), mode, 0)  # which plan mode refuses
        if "x" in mode and os.path.lexists(place) and self._looks:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        with place_to_write(place, self._roots) as found:
            if not found.missing:
                found.check_writable()
                held = _content(found, file, only_size="w" in mode)
                if held is not None or "r" not in mode:
                    return held
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)

    def _shown(self, place: str) -> str:
        """The path for the host: short where that is the same."""
        short = place.removeprefix(self._roots[0].rstrip("/") + "/")
        return place if short.startswith(("~", "/")) else short

    # --- landing ------------------------------------------------------------------------------------------------------

    def land(self, staging: Staging, content: bytes) -> None:
        """Has the host write what is not there yet. Raises what the host refuses; the same is not tried again."""
        if not self._effects.ours:
            return
        digest = digest_of(content)
        if digest == staging.landed:
            return
        staging.landed = digest
        # The collector may finalize a file while this very thread is asking something, and no question has room for
        # another one. And a thread may close a file when the statement that opened it has ended.
        if self._effects.busy or not self._effects.running:
            self._late.append((staging, content))
            return
        try:
            self._ask(staging, {"path": staging.path, "text": content})
        except RuntimeError:
            # Or the statement has ended while a thread of it waited for its turn to ask.
            if self._effects.running:
                raise
            self._late.append((staging, content))
        else:
            staging.known = digest

    def _ask(self, staging: Staging, arguments: dict[str, object]) -> None:
        if staging.known is None:
            self._change("write", arguments)
        else:
            self._effects.ask("write", arguments, staging.known)

    def report(self, staging: Staging, error: BaseException) -> None:
        """Keeps what a finalizer met for the end of the statement."""
        if self._effects.ours:
            error.add_note(f"raised when the file {os.fsdecode(staging.name)} was closed by its last reference")
            self._errors.append(error.with_traceback(None))

    def follow(self, staging: Staging, top: Layer) -> None:
        self._files[staging.number] = top

    def keep(self, staging: Staging, descriptor: int) -> None:
        self._kept.append((staging, descriptor))

    def settle(self) -> list[BaseException]:
        """The statement has ended: lands what was written and not closed. Returns what went wrong, in order."""
        errors, self._errors = self._errors, []
        late, self._late = self._late, []
        for staging, content in late:
            staging.landed = None
            self._try(lambda staging=staging, content=content: self.land(staging, content), errors)
        # In the order in which they were opened, all taken at once, because threads go on opening files.
        for reference in self._files.valuerefs():
            if (top := reference()) is not None:
                self._try(lambda top=top: _land_open(top), errors)
        self._settle_kept(errors)
        return errors

    def _settle_kept(self, errors: list[BaseException]) -> None:
        """Lands what programs have written into files that were closed here, as long as they have them open."""
        kept, self._kept = self._kept, []
        for staging, descriptor in kept:
            # Asked first, so that what is written before the last of them goes lands as well.
            goes_on = is_open_elsewhere(descriptor)
            self._try(lambda staging=staging, descriptor=descriptor: staging.land(descriptor), errors)
            if goes_on:
                self._kept.append((staging, descriptor))
            else:
                os.close(descriptor)

    def _try(self, action: Callable[[], None], errors: list[BaseException]) -> None:
        try:
            action()
        except Exception as error:
            errors.append(error)


def _land_open(top: Any) -> None:
    # Before the staging file is locked, because who closes has the lock of the buffer first. It may be closed by now.
    with suppress(ValueError):
        top.flush()
    top.staging.land_if_open()


def _content(place: Place, name: object, *, only_size: bool) -> bytes | None:
    with place.opened() as file:
        if file is None:
            return None
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise too_large(name)
        return b"" if only_size else file.read(LARGEST)
