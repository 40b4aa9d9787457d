"""Outlines and levels 1 and 2 of all Python files below a folder: `python outlines.py FOLDER`.

Each file is read ahead. An outline is asked for as the host does, of as many processes below a zygote as threads, each
of which takes the next file. Nothing is kept between rounds: neither outlines, nor processes, nor counts of tokens.
Rendering is as of one view for each file with no limit of its own, tokens counted; the count of the full texts is
outside of the clock.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, sleep

import anyio
from serving import serve

from engine.core.tokens import count
from engine.core.tokens.counter import Counter
from engine.core.tokens.ranks import encoding
from engine.files.detail import LEVELS
from engine.files.detail.scene import Scene
from engine.files.document import Place
from engine.files.outline.model import Outline
from engine.files.revision import decoded
from engine.runtime.system.process_table import children_of
from engine.runtime.worker.handles.outlines import Outlines
from engine.runtime.zygote import Zygote

ALL = 10**9
KIB = 1024


class Package:
    """The files, and what asks for their outlines."""

    def __init__(self, folder: Path) -> None:
        paths = sorted(folder.rglob("*.py"))
        self.texts = [(str(path.relative_to(folder.parent)), path.read_bytes()) for path in paths]
        self.zygote = Zygote.spawn()
        anyio.run(self.zygote.ready)
        self._round = itertools.count()
        self._encode = encoding().encode_ordinary

    def outlines(self, processes: int, *, references: bool = False) -> list[Outline]:
        askers = [Outlines(self.zygote.ask_outlines, kept=0) for _ in range(processes)]
        turn = next(self._round)
        waiting = iter(range(len(self.texts)))
        made: dict[int, Outline] = {}

        def ask(asker: Outlines) -> None:
            for index in waiting:
                path, data = self.texts[index]
                made[index] = asker.outline(
                    lambda data=data: data, digest=f"{turn} {path}", path=path, references=references
                )

        with ThreadPoolExecutor(processes) as pool:
            list(pool.map(ask, askers))
        for asker in askers:
            asker.close()
        assert all(outline.tier == "tree-sitter" for outline in made.values())
        return [made[index] for index in range(len(self.texts))]

    def rendered(self, level: int, outlines: list[Outline]) -> list[str]:
        place, counter = Place(0, 0), Counter(self._encode)
        return [
            LEVELS[level](Scene(revision=decoded(data), place=place, budget=ALL, count=counter, outline=outline)).text
            for (_, data), outline in zip(self.texts, outlines, strict=True)
        ]

    def share(self, texts: Iterable[str]) -> float:
        """What these take of the tokens of all files."""
        full = sum(count("\n".join(decoded(data).lines)) for _, data in self.texts)
        return sum(map(count, texts)) / full


def main(folder: Path) -> None:
    package = Package(folder)
    count("the first count builds what counting needs")

    def timed(action: Callable[[], object]) -> float:
        started = perf_counter()
        action()
        return perf_counter() - started

    def growth() -> float:
        sleep(0.5)  # the processes of other rounds end
        before = held(package.zygote.pid)
        asker = Outlines(package.zygote.ask_outlines)
        asker.outline(lambda: package.texts[0][1], digest="first", path="a.py")
        after = held(package.zygote.pid)
        asker.close()
        return after - before

    serve(
        {
            "files": lambda: float(len(package.texts)),
            "outlines": lambda processes, references: timed(lambda: package.outlines(processes, references=references)),
            "level": lambda level: timed(lambda: package.rendered(level, package.outlines(2))),
            "share": lambda level: package.share(package.rendered(level, package.outlines(2))),
            "share of file": lambda path: package.share([Path(path).read_text()]),
            "growth": growth,
        }
    )


def held(zygote: int) -> float:
    """Bytes that the zygote and its children hold, each page by the part that falls to a process."""
    pids = {zygote, *(children_of(str(zygote)) or ())}
    return sum(
        int(line.split()[1]) * KIB
        for pid in pids
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        if line.startswith("Pss:")
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
