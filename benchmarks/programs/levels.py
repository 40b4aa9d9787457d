"""Levels of detail of the engine that this interpreter has: seconds of renders, and shares of tokens.

CPU seconds, because all of it computes on one thread and waits for nothing. Outlines are made in this process, one
after the other; a worker has them made by processes of their own. Run as `python levels.py FOLDER`, the package whose
Python files are outlined.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time

from serving import serve

from engine.nodes.budget import UNBOUNDED
from engine.nodes.lod import LEVELS
from engine.nodes.lod.scene import Scene
from engine.nodes.outline.grammars import outline_by_grammar
from engine.nodes.outline.languages import language_of
from engine.nodes.position import Place
from engine.nodes.revision import Revision, decoded, from_text
from engine.tokens import count

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


class Package:
    """The Python files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._files = [(str(path), path.read_bytes()) for path in sorted(folder.rglob("*.py"))]
        self._tokens = [0, 0, 0]

    def outlined(self) -> float:
        """Outlines, and levels 1 and 2 of each file; the counts of the full texts are outside the clock."""
        self._tokens = [0, 0, 0]
        started = process_time()
        for path, data in self._files:
            language = language_of(path, data)
            assert language is not None
            outline = outline_by_grammar(data, language, path, lambda: False)
            revision = decoded(data)
            for level in (1, 2):
                scene = Scene(revision=revision, place=Place(0, 0), budget=UNBOUNDED, count=count, outline=outline)
                self._tokens[level] += LEVELS[level](scene).tokens
        return process_time() - started

    def share(self, level: int) -> float:
        """The tokens of that level in those of the full texts."""
        whole = sum(count(data.decode()) for _, data in self._files)
        return self._tokens[level] / whole

    def share_of_text(self, path: str) -> float:
        """The tokens of a file in those of the full texts."""
        whole = sum(count(data.decode()) for _, data in self._files)
        return count(Path(path).read_text(encoding="utf-8")) / whole


def main(arguments: Sequence[str]) -> None:
    windows = Windows()
    actions = {"edited": edited, "adversarial": adversarial, "warm": windows.warm, "cold": windows.cold}
    if arguments:
        package = Package(Path(arguments[0]))
        actions |= {"outlined": package.outlined, "share": package.share, "share_of_text": package.share_of_text}
    serve(actions)


if __name__ == "__main__":
    main(sys.argv[1:])
