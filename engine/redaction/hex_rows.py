"""Secrets in binary files as views show them: rows of hexadecimal digits beside characters.

A value stands there twice, and over several rows, so that it is no form of itself. The rows are read back into bytes,
a block of them at a time, and what of these is a value, or a piece of one where a block begins or ends, is taken out of
both columns. Pure; must not know how rows are made, only what they look like. Used by `redactor`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

Span = tuple[int, int]
_ROW: Final = re.compile(r"^([0-9a-f]{7}0)  ((?:[0-9a-f]{2} ){0,15}[0-9a-f]{2}) *  ([ -~]{1,16})$", re.MULTILINE)
_HINT: Final = "0  "
_HINT_IN_JSON: Final = re.compile(rb"[0-9a-f]{7}0  [0-9a-f]{2} ")
_BYTES: Final = 16


def may_hold_rows(data: bytes) -> bool:
    """Whether there may be such rows in the JSON in `data`; cheap."""
    return b"0  " in data and _HINT_IN_JSON.search(data) is not None


def spans_in_rows(text: str, values: Sequence[bytes], shortest: int) -> Iterator[Span]:
    """What of the text's rows shows one of the values, or `shortest` bytes of one at either end of a block of rows."""
    if _HINT not in text:
        return
    block: list[re.Match[str]] = []
    for row in _ROW.finditer(text):
        if block and int(row[1], 16) != int(block[-1][1], 16) + _BYTES:
            yield from _in_block(block, values, shortest)
            block = []
        block.append(row)
    if block:
        yield from _in_block(block, values, shortest)


def _in_block(rows: Sequence[re.Match[str]], values: Sequence[bytes], shortest: int) -> Iterator[Span]:
    data = b"".join(bytes.fromhex(row[2]) for row in rows)
    for value in values:
        start = data.find(value)
        while start >= 0:
            yield from _columns(rows, start, start + len(value))
            start = data.find(value, start + 1)
        for length in range(min(len(value), len(data)), shortest - 1, -1):
            if data[:length] in value:
                yield from _columns(rows, 0, length)
                break
        for length in range(min(len(value), len(data)), shortest - 1, -1):
            if data[-length:] in value:
                yield from _columns(rows, len(data) - length, len(data))
                break


def _columns(rows: Sequence[re.Match[str]], start: int, stop: int) -> Iterator[Span]:
    """Where the bytes from `start` to `stop` are shown: as digits and as characters, in each row."""
    for number in range(start // _BYTES, (stop - 1) // _BYTES + 1):
        row = rows[number]
        first, last = max(start - number * _BYTES, 0), min(stop - number * _BYTES, _BYTES)
        yield row.start(2) + 3 * first, row.start(2) + 3 * last - 1
        yield row.start(3) + first, row.start(3) + last
