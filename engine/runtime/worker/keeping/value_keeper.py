"""Kept values: pickles the names that a statement changed, and loads such pickles in a rebuild.

Names are pickled by groups that share objects. Small groups that call no user code are pickled at once, without a
request if that takes no time (`preserve_at_once`). A forked child pickles the others (`writing`); their results are
collected later, oldest first. Where forking is impossible, a group that calls user code is pickled here, under the
guard and open to interrupts, and dropped when its time is over.

`Loader` loads a group after the groups whose functions or classes it needs. If a group fails, only its own names are
missing; its changes to living classes stay. Pickles of code of another Python version are not loaded, because running
such code may end the process. Must not know the log, nor which values a rebuild needs. Used by the interpreter.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pickle import Unpickler
from types import CellType, FunctionType
from typing import Any, Final, Protocol, cast
from weakref import WeakValueDictionary

from ....core.text import valid_text
from ....log.past import ValueGroup
from ..former_names import present
from ..guarding.guard import OutsideGuard, replaying
from ..interrupts import Interrupts
from ..protocol import KEPT_BYTES, KEPT_GROUPS, Pickled
from . import constructors
from .naming import (
    FILLS_CLASS,
    BoundNames,
    Path,
    bases_of,
    fill_class,
    fingerprint,
    found_at,
    is_again,
    mark_again,
    mark_of,
    pickle_of,
    put_mark,
)
from .pickler import Handles, RunsCodeError, Surroundings
from .reasons import (
    INTERRUPTED,
    NO_PROCESS,
    TOO_MANY,
    NotThereError,
    OutOfTimeError,
    TooLargeError,
    why_not_kept,
    why_not_loaded,
)
from .writing import LARGE_BYTES, SMALL_BYTES, Copies, GroupWriter, Names

_OUR_ROOT: Final = __name__.partition(".")[0]
_LACKING: Final = "the copy does not contain the name"
_WRITTEN_AS: Final = "_rewindow"
"""The package's name in workers, and so in pickles, even if the reader has another name."""
INLINE_SECONDS: Final = 1.0
"""Limit for pickling in the worker itself after one statement."""
AT_ONCE_SECONDS: Final = 0.05
"""Limit for pickling without a request, because the next statement may wait for it."""
_CHILDREN: Final = 4
"""Statements whose large values are pickled at the same time."""
_BY_THEMSELVES: Final = 32
"""Up to this many groups of one statement get a pickle each."""
_PACKED: Final = 100
"""With more groups, this many share a pickle. If it fails, halving finds the group that cannot be pickled."""


class ValueKeeper:
    """Keeps one namespace.

    Args:
        injected: the injected objects by name.
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
        """Changed names that wait for `preserve`."""

    def preserve_at_once(self) -> tuple[tuple[ValueGroup, ...], dict[str, str], bool]:
        """Pickle the changed names whose values are small and call no user code.

        Returns the groups, the reasons for names that cannot be kept, and whether names are left for `preserve`.
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
        """Pickle the names that changed since the last call; those that need a child are pending."""
        changed = self._watch.changed() | self._left
        self._left.clear()
        present = [name for name in changed if name in self._namespace]
        try:
            return self._preserve(present, large)
        except BaseException as error:
            # A statement's signal handler may raise anywhere. Without a reason, a rebuild would report that the process
            # ended before these names were kept.
            return Pickled(unkept=dict.fromkeys(present, why_not_kept(error)))

    def _preserve(self, present: Sequence[str], large: bool) -> Pickled:
        go = _Go(self._writer(large, INLINE_SECONDS), large, self._forks, self._interrupts)
        for pack in _packs(self._watch.groups(present)):
            go.take_all(pack)
        pending = bool(go.later) and self._fork(go)
        return Pickled(groups=tuple(go.groups), unkept=go.unkept, pending=pending)

    def collect(self) -> Pickled:
        """Return the pickles of the oldest child, if it has ended; `pending` while it has more."""
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
        """Forget the children, which belong to the process that this one was copied from."""
        while self._children:
            self._children.popleft().leave()

    def put(self, groups: Sequence[ValueGroup], delete: Iterable[str]) -> dict[str, str]:
        """Set names to their kept values and delete others; return the failed names with their reasons.

        Loading calls user code, so it is guarded like a statement of a replay, until `Settle`.
        """
        loader = Loader(self._namespace, self._injected, self._handles, self._classes)
        self._guard.arm("loading of kept values", replaying, replay=True)
        with suppress(KeyboardInterrupt), self._interrupts.armed():
            for name in delete:
                self._namespace.pop(name, None)
            loader.load(groups)
        return loader.failures

    def made_again(self, values: Iterable[object]) -> None:
        """Mark classes that a rebuild made."""
        for value in values:
            mark_again(value)

    def _writer(self, large: bool, seconds: float) -> GroupWriter:
        injected = {id(value): name for name, value in self._injected.items()}
        known = Surroundings(self._namespace, injected, self._handles)
        return GroupWriter(known, self._guard, LARGE_BYTES if large else SMALL_BYTES, seconds)

    def _fork(self, go: _Go) -> bool:
        """Start a child for the remaining groups; whether that worked."""
        reason = TOO_MANY
        if len(self._children) < _CHILDREN:
            try:
                self._children.append(Copies(tuple(go.later), go.writer.in_file))
                return True
            except OSError:
                reason = NO_PROCESS
            except Exception as error:
                # A statement's signal handler may raise anywhere; only these names lose their copies.
                reason = why_not_kept(error)
        for names in go.later:
            go.give_up(names, reason)
        return False


# --- pickling ---------------------------------------------------------------------------------------------------------


def _packs(groups: Sequence[Names]) -> Sequence[Sequence[Names]]:
    """Combine the groups into pickles: one each, or several together if a statement changed very many."""
    if len(groups) <= _BY_THEMSELVES:
        return [(names,) for names in groups]
    return [groups[start : start + _PACKED] for start in range(0, len(groups), _PACKED)]


class _Go:
    """The results of pickling one statement's groups. `later` are the groups for a child."""

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
        """Pickle groups as one if possible. They share no objects, so loading them together is harmless."""
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
        """Pickle a group, or leave it for a child, or give it up."""
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


# --- loading ----------------------------------------------------------------------------------------------------------


class Loader:
    """Loads groups that belong together.

    Args:
        namespace: the target.
        injected: the injected objects by name.
        handles: finds views and groups by their ids.
        classes: classes that were loaded into this namespace before, by their marks.
    """

    def __init__(
        self,
        namespace: dict[str, object],
        injected: Mapping[str, object],
        handles: Handles,
        classes: MutableMapping[str, Any],
    ) -> None:
        self._namespace = namespace
        self._injected = injected
        self._classes = classes
        self._handles = handles
        self._waiting: dict[str, ValueGroup] = {}
        self._bound = BoundNames(namespace)
        self.failures: dict[str, str] = {}
        """Why each of these names was not loaded."""
        self.constructors: dict[str, Callable[..., object]] = {
            constructors.injected.__name__: self._injected_as,
            constructors.named.__name__: self._named,
            constructors.handle.__name__: self._handle,
            constructors.function.__name__: self._function,
            constructors.bound_function.__name__: self._bound_function,
            constructors.fill_function.__name__: _fill_function,
            constructors.fill_cell.__name__: _fill_cell,
            constructors.cached.__name__: _cached,
            constructors.dynamic_class.__name__: self._dynamic_class,
            constructors.array_view.__name__: _array_view,
        }

    def load(self, groups: Sequence[ValueGroup]) -> None:
        """Put the values of all groups into the namespace. An interrupt ends that; the remaining names have failed."""
        self._waiting = {name: group for group in groups for name in group.names}
        while self._waiting:
            self._load(next(iter(self._waiting.values())))

    def _load(self, group: ValueGroup) -> None:
        for name in group.names:
            self._waiting.pop(name, None)
        try:
            values = self._values(group)
        except KeyboardInterrupt as error:
            self._give_up((*group.names, *self._waiting), error)
            self._waiting.clear()
        except BaseException as error:
            self._give_up(group.names, error)
        else:
            # A name with lone surrogates is sent as another text, but the pickle has the original.
            found = {valid_text(name): (name, value) for name, value in values.items()}
            self._namespace.update(found[name] for name in group.names if name in found)
            self.failures.update({name: _LACKING for name in group.names if name not in found})

    def _give_up(self, names: Sequence[str], error: BaseException) -> None:
        self.failures.update(dict.fromkeys(names, why_not_loaded(error)))

    def _values(self, group: ValueGroup) -> dict[str, object]:
        return cast("dict[str, object]", _GroupUnpickler(io.BytesIO(pickle_of(group.data)), self).load())

    # --- the functions named in `constructors` ------------------------------------------------------------------------

    def _injected_as(self, name: str) -> object:
        if name not in self._injected:
            raise NotThereError(f"the copy needs {name}(), which this version of Rewindow does not have")
        return self._injected[name]

    def _named(self, *path: str) -> object:
        group = self._waiting.get(path[0])
        if group is not None:
            self._load(group)
        found = found_at(self._namespace, path)
        if type(found) is not FunctionType and not issubclass(type(found), type):
            raise NotThereError(f"the copy needs {'.'.join(path)}, which does not exist")
        return found

    def _handle(self, obj_id: str, state: object) -> object:
        return self._handles.node_from(obj_id, state)

    def _function(self, code: Any, name: str, closure: Any) -> FunctionType:
        return FunctionType(code, self._namespace, name, None, closure)

    def _bound_function(self, path: Path, code: Any, name: str) -> FunctionType:
        """Reuse the living function, which other objects may refer to; for them it has not changed."""
        living = found_at(self._namespace, path)
        if type(living) is not FunctionType or living.__closure__ is not None or living.__code__ != code:
            return self._function(code, name, None)
        # A function with two names may have been loaded for two.
        if living.__globals__ is not self._namespace or self._bound.path_of(living) != path:
            return self._function(code, name, None)
        living.__dict__.clear()
        return living

    def _dynamic_class(
        self, path: Path, definition: str, make: Callable[..., object], arguments: tuple[Any, ...]
    ) -> object:
        mark, unmarked = mark_of(arguments)
        known = self._classes.get(mark)
        if known is None:
            living = found_at(self._namespace, path) if path else None
            # A class with another mark is another class, even with the same definition. But a class that a rebuild
            # made may have had another mark before it.
            is_another = not is_again(mark) and any(living is loaded for loaded in self._classes.values())
            if not is_another and _is_same(living, definition):
                known = _based_on(living, bases_of(make, unmarked))
            else:
                known = make(*unmarked)
            self._classes[mark] = known
            put_mark(known, mark)
        return known


def _is_same(living: Any, definition: str) -> bool:
    return issubclass(type(living), type) and fingerprint(living) == definition


def _based_on(living: Any, bases: tuple[type, ...]) -> type:
    """Give the class these bases. Its own may be copies that no name refers to any more."""
    if any(base is not there for base, there in zip(bases, living.__bases__, strict=True)):
        living.__bases__ = bases
    return living


def _fill_function(function: FunctionType, state: tuple[dict[str, object], dict[str, object]]) -> None:
    attributes, rest = state
    function.__dict__.update(attributes)
    # They were listed only so that unpickling imports them.
    rest.pop("_cloudpickle_submodules", None)
    for name, value in rest.items():
        setattr(function, name, value)


def _fill_cell(cell: CellType, content: tuple[object]) -> None:
    (cell.cell_contents,) = content


def _cached(function: FunctionType, maxsize: int | None, typed: bool) -> object:
    return lru_cache(maxsize, typed)(function)


def _array_view(kind: Callable[..., Any], layout: tuple[object, ...], writeable: bool) -> object:
    made = kind(*layout)
    made.flags.writeable = writeable
    return made


class _GroupUnpickler(Unpickler):
    def __init__(self, file: io.BytesIO, loader: Loader) -> None:
        super().__init__(file)
        self._constructors = loader.constructors

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if module_name.endswith(".keeping.constructors"):
            return self._constructors[global_name]
        if (module_name, global_name) == FILLS_CLASS:
            return fill_class
        root, _, rest = module_name.partition(".")
        if root == _WRITTEN_AS:
            module_name = f"{_OUR_ROOT}.{present(rest)}"
        try:
            return super().find_class(module_name, global_name)
        except AttributeError:
            raise NotThereError(
                f"the copy needs {global_name} of the module {module_name}, which does not exist"
            ) from None


class Sharing(Protocol):
    """`NamespaceWatch`: which names have changed, and which share objects."""

    def changed(self) -> frozenset[str]: ...

    def groups(self, names: Iterable[str]) -> tuple[Names, ...]: ...
