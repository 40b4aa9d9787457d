"""The staging files of the statements: which there are, what has landed of them, and what is left to a statement's end.

Owns the question to the host and when it is asked: when a file is closed, at the latest when the statement ends in
which it was written: what one statement wrote, the next one finds on the disk. Must not know which files are staged
(`opening`), nor how a write is asked about or done. `executor` has `settle` called after each statement.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from threading import RLock
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from ....files.revision import digest_of
from ..protocol import RecalledFile
from .refusals import numbered
from .staging import Layer, Staging

_LARGER_IN_SCRATCH: Final = "make a larger one in a temporary directory, and have bash() move it"
_LARGER: Final = "io.open() writes larger ones, and nobody is shown them"


class Asking(Protocol):
    """What is used of `Effects`."""

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


class StagedFiles:
    """Those of one environment.

    Args:
        change: asks for a change with what views have shown of the file (`LastShown.ask_to_change`).
        routed: any code opens them, not only the `open` of statements.
    """

    def __init__(self, effects: Asking, change: Callable[..., object], *, routed: bool) -> None:
        self.routed = routed
        self.larger = _LARGER_IN_SCRATCH if routed else _LARGER
        self._effects = effects
        self._change = change
        self._opened = 0
        self._tops: WeakValueDictionary[int, Layer] = WeakValueDictionary()
        """The file objects, by the numbers that count them."""
        self._numbers: dict[int, Staging] = {}
        """Descriptors that were given to statements as such."""
        self._under_way: dict[str, Staging] = {}
        """The files that are open, by their real places: the latest of each."""
        self._lent: list[Staging] = []
        """Those that somebody may write when all file objects on them are closed."""
        self._late: list[tuple[Staging, bytes]] = []
        self._errors: list[BaseException] = []
        self.lock = RLock()

    # --- which there are ----------------------------------------------------------------------------------------------

    @property
    def any(self) -> bool:
        """Whether a file is under way."""
        return bool(self._under_way)

    def at(self, place: str) -> Staging | None:
        """The one under way for the file that is really there."""
        return self._under_way.get(place)

    def add(self, staging: Staging) -> None:
        """It is under way."""
        self._under_way[staging.place] = staging

    def forget(self, staging: Staging) -> None:
        """Its file has another name, or none."""
        if self._under_way.get(staging.place) is staging:
            del self._under_way[staging.place]

    def land_at(self, place: str) -> None:
        """Lands what is under way for the file that is really there, because somebody is about to look at that."""
        staging = self._under_way.get(place)
        if staging is not None:
            staging.land()

    def removed(self, staging: Staging) -> None:
        """Its file is gone, so that nothing of it is to land."""
        staging.is_gone = True
        self.forget(staging)
        self.released(staging)

    def removed_below(self, place: str) -> None:
        """The same for all in the directory that was really there."""
        for staging in [each for each in self._under_way.values() if each.place.startswith(f"{place}/")]:
            self.removed(staging)

    def renamed(self, source: str, target: str, shown: str) -> None:
        """The file has another name, in the place of another one. `shown` is the new one for the host."""
        replaced, staging = self._under_way.get(target), self._under_way.get(source)
        if replaced is not None:
            replaced.is_gone = True
            self.forget(replaced)
        if staging is not None:
            self.forget(staging)
            staging.place, staging.path = target, shown
            self.add(staging)

    def number(self) -> int:
        """The next of those that count files."""
        with self.lock:
            self._opened += 1
            return self._opened

    def follow(self, number: int, top: Layer) -> None:
        self._tops[number] = top

    def lend(self, staging: Staging, descriptor: int) -> None:
        """The descriptor is a statement's, to be closed by whatever means."""
        staging.is_lent = True
        self._numbers[descriptor] = staging
        if staging not in self._lent:
            self._lent.append(staging)

    def lent(self, descriptor: int) -> Staging | None:
        """What was lent under that number, if it is still that."""
        staging = self._numbers.get(descriptor)
        if staging is not None and not staging.has(descriptor):
            del self._numbers[descriptor]
            return None
        return staging

    def of(self, descriptor: int) -> Staging:
        """What has just been lent under that number."""
        return self._numbers[descriptor]

    def take_back(self, descriptor: int) -> None:
        """The number is somebody else's from now on."""
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
        """This process is a copy that has taken the worker's place, with staging files of its own."""
        for staging in {id(each): each for each in (*self._under_way.values(), *self._lent)}.values():
            staging.take_place()

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
            self._ask(staging, content)
        except RuntimeError:
            # Or the statement has ended while a thread of it waited for its turn to ask.
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
        """Keeps what a finalizer met for the end of the statement."""
        if self._effects.ours:
            error.add_note(f"raised when the file {os.fsdecode(staging.name)} was closed by its last reference")
            self._errors.append(error.with_traceback(None))

    def settle(self) -> list[BaseException]:
        """The statement has ended: lands what was written and not closed. Returns what went wrong, in order."""
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
        """Lands what was written by descriptors and mappings, as long as somebody has any."""
        for number in tuple(self._numbers):
            self.lent(number)
        lent, self._lent = self._lent, []
        for staging in lent:
            # Asked first, so that what is written before the last of them goes lands as well.
            goes_on = staging.goes_on()
            _try(staging.land, errors)
            if goes_on:
                self._lent.append(staging)
            else:
                self._end(staging)


def _land_open(top: Any) -> None:
    # Before the staging file is locked, because who closes has the lock of the buffer first. It may be closed by now.
    with suppress(ValueError):
        top.flush()
    if not top.closed:
        top.staging.land()


def _try(action: Callable[[], None], errors: list[BaseException]) -> None:
    try:
        action()
    except Exception as error:
        errors.append(error)
