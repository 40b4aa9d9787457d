"""An overview of many files: those that matter most, and the names for which the others refer to them.

Ranked in the host (`ranking`), carried by an `index` payload, written out by `glob_member`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..core.cutting import DOTS, plural
from .rendered import RenderedView


class Ranked(msgspec.Struct, frozen=True, array_like=True):
    """A file, and what it declares: what others use most comes first."""

    path: str
    names: tuple[str, ...]


def packed(files: Sequence[Ranked], most: int) -> bytes:
    """The first of the files as plain data of at most so many bytes."""
    data = msgspec.json.encode(files)
    while len(data) > most:
        files = files[: len(files) * most // len(data)]
        data = msgspec.json.encode(files)
    return data


def unpacked(data: bytes) -> tuple[Ranked, ...]:
    """What `packed` made. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(data, type=tuple[Ranked, ...])
    except msgspec.DecodeError as error:
        raise ValueError(f"no overview: {error}") from None


def overview(files: Sequence[Ranked], number: int, budget: int, count: Callable[[str], int]) -> RenderedView:
    """As many of the files as fit, in the order of their paths, with a line that counts the others of `number`."""
    room = budget - count(_rest(number))
    kept: list[tuple[str, str]] = []
    for each in files:
        row = f"{each.path}: {' '.join(each.names)}\n" if each.names else f"{each.path}\n"
        room -= count(row)
        if room < 0:
            break
        kept.append((each.path, row))
    if not kept:
        return RenderedView(text="", tokens=0, whole=False)
    text = "".join(row for _, row in sorted(kept)) + _rest(number - len(kept))
    return RenderedView(text=text, tokens=count(text), whole=len(kept) == number)


def _rest(number: int) -> str:
    return f"{DOTS} {number:,} {plural(number, 'file')} that fewer refer to\n" if number > 0 else ""
