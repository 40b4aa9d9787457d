"""The lines of a text that look most like one that is not in it: what a mistaken `edit` is answered with.

Pure, and bounded in time whatever the text is, because the answer is only a hint: what is compared line by line is
chosen by the rarest words, which the C code of `str.find` looks for.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Final

from ...core.text import cut_line

SHOWN: Final = 3
"""Lines that are named at most."""
_SHOWN_CHARS: Final = 160
_WORDS: Final = 12
_PLACES: Final = 200
"""Of each word that are looked at."""
_COMPARED: Final = 40
_COMPARED_CHARS: Final = 200
_BLOCK_LINES: Final = 50
_LONGEST_LINE: Final = 10_000
_LOOKS: Final = 200_000
"""Lines that are split into words at most."""
_WORD: Final = re.compile(r"\w{2,}")
_ALIKE: Final = 0.5
"""Lines that are less alike are no hint."""


def nearest(text: str, wanted: str) -> str:
    """What is there instead of `wanted`, as an end of a sentence; "" where nothing is like it. Lines end in LF."""
    if not wanted.strip():
        return ""
    lines = text.split("\n")
    block = wanted.strip("\n").split("\n")
    at = _but_for_space(lines, block)
    if at is not None:
        shown = [(number, lines[number]) for number in range(at, at + len(block))]
        return f"; but for white space it is{_listed(shown)}"
    key = max(block, key=lambda line: len(line.strip()))
    alike = _alike(text, lines, key)
    return f"; the nearest {'lines are' if len(alike) > 1 else 'line is'}{_listed(alike)}" if alike else ""


def _but_for_space(lines: Sequence[str], block: Sequence[str]) -> int | None:
    """The index of the first line of a block that differs in white space alone."""
    bare = [line.split() for line in block[:_BLOCK_LINES]]
    looks = 0
    for at in range(len(lines) - len(block) + 1):
        # `in` is a quarter of the price of `split`, and settles nearly every line.
        if bare[0] and bare[0][0] not in lines[at]:
            continue
        for offset, wanted in enumerate(bare):
            looks += 1
            other = lines[at + offset]
            if len(other) > _LONGEST_LINE or other.split() != wanted:
                break
        else:
            return at
        if looks > _LOOKS:
            return None
    return None


def _alike(text: str, lines: Sequence[str], key: str) -> list[tuple[int, str]]:
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(key.strip()[:_COMPARED_CHARS])
    rated: list[tuple[float, int]] = []
    for at in _candidates(text, lines, key):
        matcher.set_seq1(lines[at].strip()[:_COMPARED_CHARS])
        if matcher.quick_ratio() >= _ALIKE and (rate := matcher.ratio()) >= _ALIKE:
            rated.append((-rate, at))
    return [(at, lines[at]) for _, at in sorted(rated)[:SHOWN]]


def _candidates(text: str, lines: Sequence[str], key: str) -> Iterable[int]:
    """Indices of the lines that share the most with the key: words, counted by their length, or where there are none
    in common the first lines."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    weights: Counter[int] = Counter()
    for word in sorted(set(_WORD.findall(key)), key=len, reverse=True)[:_WORDS]:
        place = -1
        for _ in range(_PLACES):
            place = text.find(word, place + 1)
            if place < 0:
                break
            weights[bisect_right(starts, place) - 1] += len(word)
    if weights:
        return [at for at, _ in weights.most_common(_COMPARED)]
    return range(min(len(lines), _COMPARED))


def _listed(lines: Sequence[tuple[int, str]]) -> str:
    shown = [f"\n{at + 1:>6}  {cut_line(line, _SHOWN_CHARS)}" for at, line in lines[: 2 * SHOWN]]
    return "".join([":", *shown])
