"""Draws the pictures of the README and of the documentation: `make pictures`.

It writes the recording of a session in a terminal and the chosen pictures of the page beside this file, and all
pictures of the page into `build/pictures`. Names limit it: `python -m docs.images session.svg`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from docs.images import page, recording

HERE = Path(__file__).parent
CODE = HERE.parents[1]


def main() -> None:
    known = (recording.NAME, *page.CHOSEN)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(known)}; all of them without a name")
    parser.add_argument("--shots", type=Path, default=CODE / "build" / "pictures", help="where all pictures go")
    wanted = parser.parse_args()
    names = wanted.names or known
    if unknown := set(names) - set(known):
        parser.error(f"there is no picture {', '.join(sorted(unknown))}")
    if recording.NAME in names:
        (HERE / recording.NAME).write_text(recording.draw(CODE), encoding="utf-8")
    chosen = [name for name in page.CHOSEN if name in names]
    if chosen:
        page.shots(wanted.shots, CODE)
    for name in chosen:
        page.shrink(wanted.shots / f"{page.CHOSEN[name]}.png", HERE / name)


if __name__ == "__main__":
    main()
