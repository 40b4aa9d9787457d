"""Reads groups of kept names back into a namespace, and says of each name that could not be why.

A group may need a function or class that another one holds, so that one is loaded first. One that fails takes its own
names with it and nothing else; what it has put into living classes by then stays. Code of another version of Python is
not loaded, because running it may end the process. Must not know where the bytes come from. Used by `keeper`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from pickle import Unpickler
from types import CellType, FunctionType
from typing import Any, Final, Protocol, cast

from ....core.text import valid_text
from ..former_names import present
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
    mark_of,
    pickle_of,
    put_mark,
)
from .pickler import Handles
from .reasons import NotThereError, why_not_loaded

_OUR_ROOT: Final = __name__.partition(".")[0]
_LACKING: Final = "its copy does not hold it"
_WRITTEN_AS: Final = "_rewindow"
"""What this package is called in a worker, whose pickles another environment may read."""


class Kept(Protocol):
    """One group: its names, and the bytes that `pickler` wrote."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def data(self) -> bytes: ...


class Loader:
    """Loads groups that belong together.

    Args:
        namespace: what they are loaded into.
        injected: by their names.
        handles: has the nodes.
        classes: that were loaded into this namespace before, by their marks.
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
        self._waiting: dict[str, Kept] = {}
        self._bound = BoundNames(namespace)
        self.failures: dict[str, str] = {}
        """By name: why it was not loaded."""
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

    def load(self, groups: Sequence[Kept]) -> None:
        """Puts the values of all groups into the namespace. An interrupt ends it, and what is left has failed."""
        self._waiting = {name: group for group in groups for name in group.names}
        while self._waiting:
            self._load(next(iter(self._waiting.values())))

    def _load(self, group: Kept) -> None:
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
            # A name that is no Unicode travels as another text; in the pickle it is what it was.
            found = {valid_text(name): (name, value) for name, value in values.items()}
            self._namespace.update(found[name] for name in group.names if name in found)
            self.failures.update({name: _LACKING for name in group.names if name not in found})

    def _give_up(self, names: Sequence[str], error: BaseException) -> None:
        self.failures.update(dict.fromkeys(names, why_not_loaded(error)))

    def _values(self, group: Kept) -> dict[str, object]:
        return cast("dict[str, object]", _GroupUnpickler(io.BytesIO(pickle_of(group.data)), self).load())

    # --- what `constructors` names -----------------------------------------------------------------------------------

    def _injected_as(self, name: str) -> object:
        if name not in self._injected:
            raise NotThereError(f"it needs {name}(), which this version of Rewindow does not have")
        return self._injected[name]

    def _named(self, *path: str) -> object:
        group = self._waiting.get(path[0])
        if group is not None:
            self._load(group)
        found = found_at(self._namespace, path)
        if type(found) is not FunctionType and not issubclass(type(found), type):
            raise NotThereError(f"it needs {'.'.join(path)}, which is not there")
        return found

    def _handle(self, obj_id: str, state: object) -> object:
        return self._handles.node_from(obj_id, state)

    def _function(self, code: Any, name: str, closure: Any) -> FunctionType:
        return FunctionType(code, self._namespace, name, None, closure)

    def _bound_function(self, path: Path, code: Any, name: str) -> FunctionType:
        """Others may hold the living one, of which the log says nothing, because it has not changed for them."""
        living = found_at(self._namespace, path)
        if type(living) is not FunctionType or living.__closure__ is not None or living.__code__ != code:
            return self._function(code, name, None)
        # One that is bound twice may be the copy of two.
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
            # One that was loaded under another mark is another class, even where it was defined in the same words. But
            # what a rebuild has made may be what had another mark before it.
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
    """The class with these bases: those that it has may be copied, because nothing is bound to them any more."""
    if any(base is not there for base, there in zip(bases, living.__bases__, strict=True)):
        living.__bases__ = bases
    return living


def _fill_function(function: FunctionType, state: tuple[dict[str, object], dict[str, object]]) -> None:
    attributes, rest = state
    function.__dict__.update(attributes)
    # Loading them was all that they are there for.
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
            raise NotThereError(f"it needs {global_name} of the module {module_name}, which is not there") from None
