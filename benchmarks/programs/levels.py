"""Levels of detail of the engine that this interpreter has: CPU seconds of renders, which wait for nothing."""

from __future__ import annotations

import random
from time import process_time

from serving import serve

from engine.core.tokens import count
from engine.files.detail import LEVELS
from engine.files.detail.scene import Scene
from engine.files.document import Place
from engine.files.revision import Revision, from_text

_BUDGET = 2_000


def _scene(revision: Revision, line: int = 0, budget: int = _BUDGET, before: Revision | None = None) -> Scene:
    return Scene(
        revision=revision,
        place=Place(line, 0),
        budget=budget,
        count=count,
        last_shown=before,
        shown_in=(before and 1) or 0,
    )


def _rendered(level: int, scene: Scene) -> float:
    started = process_time()
    LEVELS[level](scene)
    return process_time() - started


def edited(lines: int, edits: int) -> float:
    """A diff of so many different lines, so many of which were replaced."""
    texts = [f"line number {number} of a text" for number in range(lines)]
    changed = list(texts)
    for number in range(0, lines, lines // edits):
        changed[number] += " edited"
    return _rendered(3, _scene(from_text("\n".join(changed)), before=from_text("\n".join(texts))))


def adversarial(lines: int) -> float:
    """A diff in which no line is unique: difflib takes seconds for it."""
    dice = random.Random(11)
    one, other = (["\n".join(dice.choices(["{", "}", "return", ""], k=lines))] for _ in range(2))
    return _rendered(3, _scene(from_text(other[0]), before=from_text(one[0])))


class Windows:
    """One long file, warm, and as many cold ones as are asked for."""

    def __init__(self) -> None:
        self._warm: Revision | None = None

    def warm(self, lines: int, renders: int) -> float:
        """One render of a file with another budget than before."""
        if self._warm is None:
            self._warm = _long(lines)
            LEVELS[0](_scene(self._warm, lines // 2, 9 * _BUDGET))
        started = process_time()
        for number in range(renders):
            LEVELS[0](_scene(self._warm, lines // 2, _BUDGET + number))
        return (process_time() - started) / renders

    def cold(self, lines: int) -> float:
        """The first render of a file that is in memory."""
        return _rendered(0, _scene(_long(lines), lines // 3))


def _long(lines: int) -> Revision:
    return from_text("".join(f"    value_{number} = call({number}, {number * 7 % 1013})\n" for number in range(lines)))


def main() -> None:
    windows = Windows()
    serve({"edited": edited, "adversarial": adversarial, "warm": windows.warm, "cold": windows.cold})


if __name__ == "__main__":
    main()
