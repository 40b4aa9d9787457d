"""Pickles one group of names, which share objects.

`cloudpickle` does most of it. The differences: functions and classes that the namespace binds are pickled by name in
values of other names, and by value under their own. Functions have the living namespace as their globals, and those of
one closure keep sharing its variables. Modules, injected names and handles are pickled by name. Objects that
cloudpickle would convert (an open file to its text, a view of a dict or array to a copy) are pickled as they are or not
at all.

Everything that Python's pickler does not write alone passes `reducer_override`, which decides whether user code would
run. A plain value never gets there and costs no more than with Python's pickler. Must not know where the bytes go. Used
by `writing`.
"""

from __future__ import annotations

import io
import sys
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from gc import get_referents
from importlib import import_module
from sys import getrefcount
from types import CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, ClassVar, Final, NewType, Protocol, cast

from ....files.node import NodeBase
from . import constructors
from .naming import (
    BUILTIN_TYPES,
    REDUCERS,
    BoundNames,
    CloudPickler,
    ForeignCode,
    completed,
    fingerprint,
    function_state,
    is_imported,
    reduced,
)
from .reasons import NotKeptError

_PROTOCOL: Final = 5
_ONLY_ITS_OWN: Final = 2
"""The reference count of an array's base that no one else has: the array's reference, and that of the counting call."""
_NOT_COPIED: Final = {
    ("builtins", "memoryview"): "a memoryview",
    ("numpy", "memmap"): "a memory map of a file",
    ("numpy.core.memmap", "memmap"): "a memory map of a file",
    ("numpy._core.memmap", "memmap"): "a memory map of a file",
}
"""Types whose copies would lose their connection; by module and name, because few are imported."""


class Sink(Protocol):
    """Where the pickle is written."""

    def write(self, data: Any) -> int: ...


class RunsCodeError(Exception):
    """Raised if pickling would have to call user code, and may not."""


class Handles(Protocol):
    """`Board`: a node's state as plain data, and the node of an id in a state."""

    def state_of(self, node: Any) -> object: ...

    def node_from(self, obj_id: str, state: Any) -> object: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Objects that are pickled by name. `injected` has the names of injected objects, by identity."""

    namespace: Mapping[str, object]
    injected: Mapping[int, str]
    handles: Handles


def _cell(cell: CellType) -> Any:
    try:
        content = (cell.cell_contents,)
    except ValueError:
        return CellType, ()
    # Filled after the pickler knows it, because its content may be the function that it belongs to.
    return CellType, (), content, None, None, constructors.fill_cell


def _stream(stream: io.TextIOWrapper) -> Any:
    for name in ("stdout", "stderr"):
        if stream is getattr(sys, name):
            return getattr, (sys, name)
    raise NotKeptError("the value holds an open file, which cannot be copied")


def _of_dict(kind: Any, name: str) -> Callable[[Any], Any]:
    """A reducer for views of that kind of dict, so that a copy is a view of the copied dict."""
    make = getattr(kind, name)
    return lambda view: (make, tuple(get_referents(view)))


_VIEWS: Final[dict[type, Callable[[Any], Any]]] = {
    type(getattr(kind(), name)()): _of_dict(kind, name)
    for kind in (dict[str, str], OrderedDict[str, str])
    for name in ("keys", "values", "items")
}
_OWN_REDUCERS: Final[dict[type, Callable[[Any], Any]]] = {
    **_VIEWS,
    CellType: _cell,
    MappingProxyType: lambda proxy: (MappingProxyType, tuple(get_referents(proxy))),
    io.TextIOWrapper: _stream,
}


class GroupPickler(CloudPickler):
    """The pickler of one group.

    Args:
        sink: receives the pickle.
        names: the names of the group.
        known: shared by all groups that are pickled together, like `bound` and `foreign`.
        runs_code: whether user code may be called.
    """

    dispatch_table: ClassVar[Any] = ChainMap(_OWN_REDUCERS, *cast(Any, REDUCERS))

    def __init__(
        self,
        sink: Sink,
        names: frozenset[str],
        known: Surroundings,
        bound: BoundNames,
        foreign: ForeignCode,
        *,
        runs_code: bool,
    ) -> None:
        super().__init__(cast(Any, sink), _PROTOCOL)
        self._names = names
        self._known = known
        self._bound = bound
        self._foreign = foreign
        self._runs_code = runs_code
        self.has_code = False
        """Whether code objects were written, which only this version of Python can run."""

    def reducer_override(self, obj: Any) -> Any:
        """Called by Python's pickler for objects that are not of basic types."""
        kind = cast("type[object]", type(obj))
        if not self._runs_code and self._foreign.runs_for(kind):
            raise RunsCodeError
        name = self._known.injected.get(id(obj))
        if name is not None:
            return constructors.injected, (name,)
        if kind is FunctionType:
            return self._function(obj)
        if kind is ModuleType or issubclass(kind, ModuleType):
            return self._module(obj)
        if issubclass(kind, type):
            return self._class(obj)
        if kind is CodeType:
            self.has_code = True
        elif NodeBase in kind.__mro__:
            return constructors.handle, (obj.obj_id, self._known.handles.state_of(obj))
        elif (reduced_by := _BY_NAME.get((kind.__module__, kind.__name__))) is not None:
            return reduced_by(obj)
        elif (kind.__module__, kind.__name__) in _NOT_COPIED:
            raise NotKeptError(f"the value holds {_NOT_COPIED[kind.__module__, kind.__name__]}, which cannot be copied")
        return NotImplemented

    def _function(self, function: FunctionType) -> Any:
        if is_imported(function):
            return NotImplemented
        path = self._bound.path_of(function)
        if path is not None and path[0] not in self._names:
            return constructors.named, path
        if function.__globals__ is not self._known.namespace:
            return reduced(self, function)
        attributes, rest = function_state(function)
        # The namespace has the globals, and the function is made with its closure.
        del rest["__globals__"], rest["__closure__"]
        made = (function.__code__, function.__name__, function.__closure__)
        if path is None or function.__closure__ is not None:
            return constructors.function, made, (attributes, rest), None, None, constructors.fill_function
        return (
            constructors.bound_function,
            (path, *made[:2]),
            (attributes, rest),
            None,
            None,
            constructors.fill_function,
        )

    def _class(self, kind: type) -> Any:
        if any(kind is each for each in BUILTIN_TYPES) or is_imported(kind):
            return reduced(self, kind)
        path = self._bound.path_of(kind) or ()
        if path and path[0] not in self._names:
            return constructors.named, path
        make, arguments, state, *rest = reduced(self, kind)
        arguments, state = completed(kind, arguments, state)
        return (constructors.dynamic_class, (path, fingerprint(kind), make, arguments), state, *rest)

    def _module(self, module: Any) -> Any:
        if module is self._known.namespace.get("__builtins__"):
            # Python puts it into the globals of code; no value has it otherwise.
            raise NotKeptError("the value contains the namespace itself, which cannot be copied")
        name = module.__name__
        if sys.modules.get(name) is module:
            return import_module, (name,)
        return NotImplemented


def _cached(function: Any) -> Any:
    """Reduce a `functools.lru_cache` to its function, because the cached results are not readable."""
    attributes = cast("dict[str, Any]", vars(function)).copy()
    wrapped, parameters = attributes.pop("__wrapped__", None), attributes.pop("cache_parameters", None)
    # Because a statement may have replaced both.
    is_known = type(wrapped) is FunctionType and getattr(parameters, "__module__", "") == "functools"
    if not is_known or _is_found(function):
        return NotImplemented
    return constructors.cached, (wrapped, *parameters().values()), attributes


def _new_type(new: Any) -> Any:
    return NotImplemented if _is_found(new) else (NewType, (new.__name__, new.__supertype__), vars(new))


def _is_found(value: Any) -> bool:
    """Whether the object's qualified name leads to it in an imported module.

    Python's pickler does not check that. It would also write a name of the namespace, which may mean another object
    when the pickle is loaded.
    """
    module = sys.modules.get(value.__module__)
    return value.__module__ != "__main__" and getattr(module, value.__qualname__, None) is value


def _array(array: Any) -> Any:
    """Reduce a numpy array over memory that other objects use too, so that the copies share memory as well."""
    # The memory of a loaded array is a `bytearray`, and so is that of all arrays that share it.
    if array.base is None or getrefcount(array.base) <= _ONLY_ITS_OWN or array.dtype.hasobject:
        return NotImplemented
    base = array.base
    kind = cast("type[Any]", type(array))
    if type(base) is kind:
        whole = base if base.flags.c_contiguous and not base.dtype.hasobject else None
    else:
        whole = kind(len(base), "u1", base) if type(base) in (bytes, bytearray) else None
    if whole is None:
        return NotImplemented
    offset = array.ctypes.data - whole.ctypes.data
    layout = (array.shape, array.dtype, base, offset, array.strides)
    return constructors.array_view, (kind, layout, bool(array.flags.writeable))


_BY_NAME: Final[dict[tuple[str, str], Callable[[Any], Any]]] = {
    ("numpy", "ndarray"): _array,
    ("functools", "_lru_cache_wrapper"): _cached,
    ("typing", "NewType"): _new_type,
}
"""By module and name, because not all types are imported. A reducer may leave an object to Python's pickler."""
