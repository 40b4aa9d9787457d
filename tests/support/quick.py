"""Parameters of which the quick suite takes some, and the slow one all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def first_is_quick(values: Iterable[Any]) -> list[Any]:
    """The values, or tuples of values; all but the first are slow."""
    first, *others = values
    return [first, *(pytest.param(*_row(each), marks=pytest.mark.slow) for each in others)]


def _row(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def diagonal_is_quick(rows: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """All pairs; slow are those beside a diagonal on which every row and every column stands."""
    diagonal = {(k % len(rows), k % len(columns)) for k in range(max(len(rows), len(columns)))}
    return [
        (row, column) if (k, n) in diagonal else pytest.param(row, column, marks=pytest.mark.slow)
        for k, row in enumerate(rows)
        for n, column in enumerate(columns)
    ]
