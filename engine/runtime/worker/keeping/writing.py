"""Pickles the groups of one statement: small ones into memory, those of a process of its own into a file.

Owns what happens around code of the user's that pickling calls: it runs under the guard, an act that it was kept from
costs the group its copy, and so does a namespace that is another afterwards. Used by `keeper`, and in its children.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ..guarding.guard import OutsideGuard
from .copies import CODE_SECONDS, TOTAL_SECONDS
from .foreign import ForeignCode
from .form import SIZE, header
from .identity import BoundNames
from .pickler import GroupPickler, RunsCodeError, Sink, Surroundings
from .reasons import CHANGED, NotKeptError, kept_from, why_not_kept
from .sinks import Clock, FileSink, MemorySink

SMALL_BYTES: Final = 64 << 10
"""What a group may come to that is kept after every statement: bytes of its pickle."""
LARGE_BYTES: Final = 64 << 20
"""The same after a statement that has acted, or that does not run again."""
_LABEL: Final = "copying values"

Names = tuple[str, ...]
T = TypeVar("T")


def _refusal(phrase: str) -> Exception:
    return PermissionError(f"copying a value touches nothing outside; it {phrase}")


class GroupWriter:
    """Writes the groups of one namespace as it is now, all with the same clock where they go into memory."""

    def __init__(self, known: Surroundings, guard: OutsideGuard, limit: int, seconds: float) -> None:
        self._known = known
        self._guard = guard
        self._limit = limit
        self._clock = Clock(seconds)
        self._bound = BoundNames(known.namespace)
        self._foreign = ForeignCode()

    def in_memory(self, names: Names) -> bytes:
        """The group's data, if it is small and no code of the user's has to run.

        Raises:
            RunsCodeError: some would have to.
            TooLargeError: it is larger than SMALL_BYTES.
            Exception: it cannot be pickled; `why_not_kept` says why.
        """
        sink = MemorySink(SMALL_BYTES, self._clock)
        has_code = self._dump(sink, names, runs_code=False)
        return header(has_code=has_code) + sink.taken()

    def in_memory_guarded(self, names: Names) -> bytes:
        """The same where code of the user's has to run and there is no other process for it."""
        sink = MemorySink(self._limit, self._clock)
        has_code = self._guarded(lambda: self._dump(sink, names, runs_code=True))
        return header(has_code=has_code) + sink.taken()

    def in_file(self, descriptor: int, offset: int, names: Names, runs_code: bool) -> int | str | None:
        """Writes the group at the offset; what `copies.Write` says. `runs_code`: in a process that ends afterwards."""
        clock = Clock(CODE_SECONDS if runs_code else TOTAL_SECONDS)
        body = FileSink(descriptor, offset + SIZE, self._limit, clock)
        try:
            if runs_code:
                has_code = self._guarded(lambda: self._dump(body, names, runs_code=True))
            else:
                has_code = self._dump(body, names, runs_code=False)
            FileSink(descriptor, offset, SIZE, clock).write(header(has_code=has_code))
        except RunsCodeError:
            return None
        except BaseException as error:
            return why_not_kept(error)
        return SIZE + body.size

    def _dump(self, sink: Sink, names: Names, *, runs_code: bool) -> bool:
        """Whether there is code in it."""
        values = {name: self._known.namespace[name] for name in names}
        pickler = GroupPickler(sink, frozenset(names), self._known, self._bound, self._foreign, runs_code=runs_code)
        pickler.dump(values)
        return pickler.has_code

    def _guarded(self, work: Callable[[], T]) -> T:
        before = _bindings(self._known.namespace)
        self._guard.arm(_LABEL, _refusal, replay=False)
        try:
            return work()
        finally:
            phrases, _ = self._guard.ended()
            self._guard.disarm()
            # Ahead of what was raised, which may have come of it.
            if phrases:
                raise NotKeptError(kept_from("; ".join(phrases)))
            if before != _bindings(self._known.namespace):
                raise NotKeptError(CHANGED)


def _bindings(namespace: Mapping[str, object]) -> list[tuple[str, int]]:
    # A copy, because threads of the user's may bind names meanwhile.
    return [(name, id(value)) for name, value in dict(namespace).items()]
