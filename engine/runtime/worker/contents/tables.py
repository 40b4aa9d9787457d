"""What arrays and tables consist of: numpy's by their bytes, pandas' by the values of each column.

Neither library is imported here: only a type of theirs that a statement made leads to them. How pandas lays out columns
in memory, and what it caches, is no content. Called by `forms`.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from .found import TOO_LARGE
from .walk import BUFFER, Form, Walk


def table_form(kind: type) -> Form | None:
    """The form for a type of numpy's or pandas', or one derived from it."""
    for base in kind.__mro__:
        form = _FORMS.get((base.__module__.partition(".")[0], base.__name__))
        if form is not None:
            return form
    return None


def _array(walk: Walk, value: Any) -> None:
    walk.number(value)
    owner = value
    while getattr(owner, "base", None) is not None and hasattr(owner, "__array_interface__"):
        owner = owner.base
    # What is written through one view of the memory is read through all others.
    if owner is not value:
        walk.shares(owner)
    walk.emit("A", type(value).__name__, value.shape, str(value.dtype))
    if not type(value).__module__.startswith("numpy"):
        walk.push(getattr(value, "__dict__", None))
    if hasattr(value, "mask") and hasattr(value, "filled"):
        mask = value.mask
        walk.keep_as_made([mask])
        walk.push(mask)
    _elements(walk, value)


def _elements(walk: Walk, value: Any) -> None:
    ndarray = sys.modules["numpy"].ndarray
    plain = ndarray.view(value, ndarray)
    if plain.dtype.hasobject:
        listed = plain.ravel().tolist()
        walk.keep(listed)
        walk.items("l", listed)
    elif plain.flags.c_contiguous:
        walk.emit_buffer(value, plain.reshape(-1).view("uint8").data if plain.size else memoryview(b""))
    elif plain.nbytes > BUFFER:
        walk.leave_gap(value, TOO_LARGE)
    else:
        walk.emit_buffer(value, memoryview(plain.tobytes()))


def _scalar(walk: Walk, value: Any) -> None:
    walk.emit("u", str(value.dtype), value.tobytes())


def _dtype(walk: Walk, value: Any) -> None:
    walk.emit("y", str(value))


def _frame(walk: Walk, value: Any) -> None:
    walk.number(value)
    walk.emit("F", type(value).__name__, value.shape)
    columns = [series.array for _, series in value.items()]
    walk.keep_as_made(columns)
    walk.push(value.attrs, value.columns, value.index, *columns)


def _series(walk: Walk, value: Any) -> None:
    walk.number(value)
    walk.emit("E", type(value).__name__)
    array = value.array
    walk.keep_as_made([array])
    walk.push(value.name, value.attrs, value.index, array)


def _index(walk: Walk, value: Any) -> None:
    walk.emit("I", type(value).__name__, str(value.dtype), len(value))
    names = list(value.names)
    if hasattr(value, "levels"):
        arrays = [*value.levels, *value.codes]
    else:
        arrays = [value.array] if type(value).__name__ != "RangeIndex" else [value.start, value.stop, value.step]
    walk.keep_as_made([names, *arrays])
    walk.push(names, *arrays)


def _extension(walk: Walk, value: Any) -> None:
    """An array of pandas': by its own values where they are plain, else by the objects it stands for."""
    walk.emit("X", str(value.dtype), len(value))
    if len(value) * 8 > BUFFER:
        walk.leave_gap(value, TOO_LARGE)
        return
    dtype = value.dtype
    if hasattr(value, "codes"):
        parts = [value.categories, bool(value.ordered), value.codes]
    elif hasattr(value, "asi8"):
        parts = [value.asi8]
    elif hasattr(value, "left") and hasattr(value, "closed"):
        parts = [value.left, value.right, value.closed]
    elif hasattr(dtype, "numpy_dtype") and type(value).__name__ != "NumpyExtensionArray":
        parts = [value.isna(), value.to_numpy(dtype.numpy_dtype, na_value=0)]
    else:
        parts = [value.to_numpy()]
    walk.keep_as_made(parts)
    walk.push(*parts)


def _timestamp(walk: Walk, value: Any) -> None:
    walk.emit("T", type(value).__name__, repr(value))


_FORMS: Final[dict[tuple[str, str], Form]] = {
    ("numpy", "ndarray"): _array,
    ("numpy", "generic"): _scalar,
    ("numpy", "dtype"): _dtype,
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pandas", "Index"): _index,
    ("pandas", "ExtensionArray"): _extension,
    ("pandas", "Timestamp"): _timestamp,
    ("pandas", "Timedelta"): _timestamp,
    ("pandas", "Period"): _timestamp,
    ("pandas", "Interval"): _timestamp,
    ("pandas", "NaTType"): _timestamp,
    ("pandas", "NAType"): _timestamp,
}
