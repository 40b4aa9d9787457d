"""Every level of the files whose outlines are kept, to look at. `python -m tests.support.levels` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine.core.tokens import count
from engine.files.detail import LEVELS
from engine.files.detail.scene import Scene
from engine.files.document import Place
from engine.files.rendered import UNBOUNDED, RenderedView
from tests.support.outlines import outlined, samples
from tests.support.revisions import decoded

FOLDER = Path(__file__).parents[1] / "data" / "levels"


def kept(sample: Path) -> Path:
    """Where the levels of a sample are kept."""
    return FOLDER / f"{sample.name}.txt"


def levels_of(sample: Path) -> str:
    """Each level of the file, at its top and in its middle, and what it shows of an edit there."""
    return "".join(f"=== {title} ({rendered.tokens} tokens)\n{rendered.text}\n" for title, rendered in _shown(sample))


def _shown(sample: Path) -> Iterator[tuple[str, RenderedView]]:
    data = sample.read_bytes()
    revision = decoded(data)
    middle = len(revision.lines) // 2
    whole = sum(count(f"{line}\n") for line in revision.lines)
    outline = outlined(data, sample.name)
    top = Scene(revision=revision, place=Place(0, 0), budget=UNBOUNDED, count=count, outline=outline, shown_in=12)
    inside = replace(top, place=Place(middle, 0))
    yield f"lod 0 at line {middle + 1}, tokens=120", LEVELS[0](replace(inside, budget=120))
    spared = replace(top, sparing=True)
    yield f"lod 1 of {whole} tokens", LEVELS[1](spared)
    yield f"lod 1 at line {middle + 1}, tokens=200", LEVELS[1](replace(inside, budget=200))
    yield "lod 1, tokens=40", LEVELS[1](replace(top, budget=40))
    yield "lod 2", LEVELS[2](spared)
    yield f"lod 2 at line {middle + 1}", LEVELS[2](replace(inside, sparing=True))
    yield "lod 2, tokens=300", LEVELS[2](replace(top, budget=300))
    lines = data.split(b"\n")
    edited = decoded(b"\n".join((*lines[:middle], lines[middle] + b" edited", b"added", *lines[middle + 2 :])))
    yield "lod 3 after an edit", LEVELS[3](replace(top, revision=edited, last_shown=revision))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for sample in samples():
        kept(sample).write_text(levels_of(sample), encoding="utf-8")


if __name__ == "__main__":
    main()
