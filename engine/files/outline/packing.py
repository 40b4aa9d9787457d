"""An outline as the data of a payload, within its bytes: what is outer and public first.

Pure. Packed in the host (`preparing.outline`), unpacked by ViewHandle.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from .model import TOP, Outline, Symbol


def packed(outline: Outline, most: int) -> bytes:
    """The outline in at most `most` bytes (1,000 or more); where symbols are left out, it is not `complete`."""
    data = msgspec.json.encode(outline)
    room = most
    while len(data) > most:
        symbols = _first(outline.symbols, room)
        kept = outline if symbols else replace(outline, imports=(), from_outside=(), doc="")
        data = msgspec.json.encode(replace(kept, symbols=symbols, references={}, complete=False))
        room = min(room * 9 // 10, room - (len(data) - most))
    return data


def unpacked(data: bytes) -> Outline:
    """What `packed` made. Raises ValueError for anything else."""
    try:
        outline = msgspec.json.decode(data, type=Outline)
    except msgspec.DecodeError as error:
        raise ValueError(f"no outline: {error}") from None
    if any(not TOP <= symbol.parent < index for index, symbol in enumerate(outline.symbols)):
        raise ValueError("no outline: a symbol is in one that comes after it")
    return outline


def _first(symbols: tuple[Symbol, ...], room: int) -> tuple[Symbol, ...]:
    """The outer symbols, public ones first, that take about `room` bytes, in their order."""
    order = sorted(range(len(symbols)), key=lambda index: (symbols[index].depth, not symbols[index].public, index))
    kept: list[int] = []
    for index in order:
        room -= len(msgspec.json.encode(symbols[index])) + 1
        if room < 0:
            break
        kept.append(index)
    # What is outer comes first in that order, so whatever is kept is in something that is kept, too.
    places = {TOP: TOP} | {index: place for place, index in enumerate(sorted(kept))}
    return tuple(replace(symbols[index], parent=places[symbols[index].parent]) for index in sorted(kept))
