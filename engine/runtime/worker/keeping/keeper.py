"""Keeps the values of a namespace, and puts kept ones back: what the interpreter's Preserve, Collect and SetValues do.

After a statement the names that it changed are pickled by groups that share objects. What is small and calls no code of
the user's is pickled at once, unasked where that takes no time (`preserve_at_once`); the rest by a forked child
(`copies`), whose results are collected later, oldest first.
Where there is no forking, because the process is not the statements' own, what calls such code is pickled here, under
the guard and open to interrupts, and what is large is given up when its time is over. Must not know which values a
rebuild needs, nor the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from ....log.past import ValueGroup
from ..guarding.guard import OutsideGuard, replaying
from ..interrupts import Interrupts
from ..protocol import KEPT_BYTES, KEPT_GROUPS, Pickled
from .loader import Loader
from .naming import mark_again
from .pickler import Handles, RunsCodeError, Surroundings
from .reasons import INTERRUPTED, NO_PROCESS, TOO_MANY, OutOfTimeError, TooLargeError, why_not_kept
from .writing import LARGE_BYTES, SMALL_BYTES, Copies, GroupWriter, Names

INLINE_SECONDS: Final = 1.0
"""How long all that is pickled in the worker itself may take after one statement."""
AT_ONCE_SECONDS: Final = 0.05
"""The same for what is pickled unasked: the next statement may wait for it by then."""
_CHILDREN: Final = 4
"""As many statements' large values may be pickled at the same time."""

_BY_THEMSELVES: Final = 32
"""So many groups of one statement get a pickle each."""
_PACKED: Final = 100
"""Of more, so many are put into one; what cannot be pickled is found by halving."""


class Sharing(Protocol):
    """`NamespaceWatch`: which names have changed, and which share objects."""

    def changed(self) -> frozenset[str]: ...

    def groups(self, names: Iterable[str]) -> tuple[Names, ...]: ...


class Keeper:
    """Keeps one namespace.

    Args:
        injected: what is injected, by name.
        forks: whether the process is the statements' own, so that it may be forked.
    """

    def __init__(
        self,
        namespace: dict[str, object],
        watch: Sharing,
        handles: Handles,
        injected: Mapping[str, object],
        guard: OutsideGuard,
        interrupts: Interrupts,
        *,
        forks: bool,
    ) -> None:
        self._namespace = namespace
        self._watch = watch
        self._handles = handles
        self._injected = injected
        self._guard = guard
        self._interrupts = interrupts
        self._forks = forks
        self._children: deque[Copies] = deque()
        self._classes = WeakValueDictionary[str, Any]()
        self._left: set[str] = set()
        """Names that changed, and were left to `preserve`."""

    def preserve_at_once(self) -> tuple[tuple[ValueGroup, ...], dict[str, str], bool]:
        """Pickles of the names that changed what is small and calls no code of the user's; the rest is left.

        Returns the groups, the reasons of names that cannot be kept, and whether anything is left to `preserve`.
        """
        changed = self._watch.changed()
        if len(changed) > KEPT_GROUPS:
            self._left.update(changed)
            return (), {}, True
        kept, unkept, size = list[ValueGroup](), dict[str, str](), 0
        writer = self._writer(False, AT_ONCE_SECONDS)
        for names in self._watch.groups([name for name in changed if name in self._namespace]):
            try:
                with self._interrupts.armed():
                    data = writer.in_memory(names)
            except (RunsCodeError, TooLargeError, OutOfTimeError, KeyboardInterrupt):
                self._left.update(names)
            except BaseException as error:
                unkept.update(dict.fromkeys(names, why_not_kept(error)))
            else:
                size += len(data)
                if size > KEPT_BYTES:
                    self._left.update(names)
                else:
                    kept.append(ValueGroup(names, data))
        return tuple(kept), unkept, bool(self._left)

    def preserve(self, large: bool) -> Pickled:
        """Pickles the names that changed since the last time; what takes a child is pending."""
        changed = self._watch.changed() | self._left
        self._left.clear()
        present = [name for name in changed if name in self._namespace]
        try:
            return self._preserve(present, large)
        except BaseException as error:
            # A signal handler of the statements' may raise anywhere. Without a word these names would be told as lost
            # with a process that has ended.
            return Pickled(unkept=dict.fromkeys(present, why_not_kept(error)))

    def _preserve(self, present: Sequence[str], large: bool) -> Pickled:
        go = _Go(self._writer(large, INLINE_SECONDS), large, self._forks, self._interrupts)
        for pack in _packs(self._watch.groups(present)):
            go.take_all(pack)
        pending = bool(go.later) and self._fork(go)
        return Pickled(groups=tuple(go.groups), unkept=go.unkept, pending=pending)

    def collect(self) -> Pickled:
        """What the oldest child has pickled, if it has ended; `pending` while there is more of its statement."""
        if not self._children:
            return Pickled()
        oldest = self._children[0]
        if not oldest.ended:
            return Pickled(pending=True)
        groups: list[ValueGroup] = []
        unkept: dict[str, str] = {}
        size = 0
        while size < LARGE_BYTES // 4:
            finished = oldest.take()
            if finished is None:
                self._children.popleft()
                return Pickled(groups=tuple(groups), unkept=unkept)
            if finished.reason:
                unkept.update(dict.fromkeys(finished.names, finished.reason))
            else:
                groups.append(ValueGroup(finished.names, finished.data))
                size += len(finished.data)
        return Pickled(groups=tuple(groups), unkept=unkept, pending=True)

    def leave_children(self) -> None:
        """This process has taken the worker's place: what pickles is the child of another."""
        while self._children:
            self._children.popleft().leave()

    def put(self, groups: Sequence[ValueGroup], delete: Iterable[str]) -> dict[str, str]:
        """Binds names to what was kept of them and deletes others; returns those that failed, each with the reason.

        Loading calls code of the user's: it is guarded as the statements of a replay, and stays so until `Settle`.
        """
        loader = Loader(self._namespace, self._injected, self._handles, self._classes)
        self._guard.arm("loading of kept values", replaying, replay=True)
        with suppress(KeyboardInterrupt), self._interrupts.armed():
            for name in delete:
                self._namespace.pop(name, None)
            loader.load(groups)
        return loader.failures

    def made_again(self, values: Iterable[object]) -> None:
        """The history that has run again has made these classes."""
        for value in values:
            mark_again(value)

    def _writer(self, large: bool, seconds: float) -> GroupWriter:
        injected = {id(value): name for name, value in self._injected.items()}
        known = Surroundings(self._namespace, injected, self._handles)
        return GroupWriter(known, self._guard, LARGE_BYTES if large else SMALL_BYTES, seconds)

    def _fork(self, go: _Go) -> bool:
        """Whether a child is at work on what is left."""
        reason = TOO_MANY
        if len(self._children) < _CHILDREN:
            try:
                self._children.append(Copies(tuple(go.later), go.writer.in_file))
                return True
            except OSError:
                reason = NO_PROCESS
            except Exception as error:
                # A signal handler of the statements' may raise anywhere; it costs these names their copies, not all.
                reason = why_not_kept(error)
        for names in go.later:
            go.give_up(names, reason)
        return False


def _packs(groups: Sequence[Names]) -> Sequence[Sequence[Names]]:
    """The groups as they are pickled: each by itself, but where a statement has changed so many that it would cost."""
    if len(groups) <= _BY_THEMSELVES:
        return [(names,) for names in groups]
    return [groups[start : start + _PACKED] for start in range(0, len(groups), _PACKED)]


class _Go:
    """What becomes of the groups of one statement. `later` are those for a child."""

    def __init__(self, writer: GroupWriter, large: bool, forks: bool, interrupts: Interrupts) -> None:
        self.writer = writer
        self._large = large
        self._forks = forks
        self._interrupts = interrupts
        self._is_over = False
        self.groups: list[ValueGroup] = []
        self.unkept: dict[str, str] = {}
        self.later: list[Names] = []

    def take_all(self, groups: Sequence[Names]) -> None:
        """Pickles groups as one, as far as that can be; they share nothing, so it is harmless to load them together."""
        if len(groups) == 1:
            self.take(groups[0])
        elif self._is_over or not self._is_packed(tuple(name for names in groups for name in names)):
            middle = len(groups) // 2
            self.take_all(groups[:middle])
            self.take_all(groups[middle:])

    def _is_packed(self, names: Names) -> bool:
        try:
            with self._interrupts.armed():
                self.groups.append(ValueGroup(names, self.writer.in_memory(names)))
        except BaseException as error:
            self._is_over = isinstance(error, KeyboardInterrupt)
            return False
        return True

    def take(self, names: Names) -> None:
        """Pickles a group, unless it has to wait for a child or cannot be."""
        if self._is_over:
            self.give_up(names, INTERRUPTED)
            return
        try:
            self._pickle(names, self.writer.in_memory)
        except RunsCodeError:
            self._leave(names)
        except TooLargeError as error:
            if self._large:
                self._leave(names)
            else:
                self.give_up(names, why_not_kept(error))

    def _leave(self, names: Names) -> None:
        if self._forks:
            self.later.append(names)
            return
        try:
            self._pickle(names, self.writer.in_memory_guarded)
        except TooLargeError as error:
            self.give_up(names, why_not_kept(error))

    def _pickle(self, names: Names, write: Callable[[Names], bytes]) -> None:
        try:
            with self._interrupts.armed():
                data = write(names)
        except (RunsCodeError, TooLargeError):
            raise
        except BaseException as error:
            self._is_over = isinstance(error, KeyboardInterrupt)
            self.give_up(names, why_not_kept(error))
        else:
            self.groups.append(ValueGroup(names, data))

    def give_up(self, names: Names, reason: str) -> None:
        self.unkept.update(dict.fromkeys(names, reason))
