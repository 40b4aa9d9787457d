"""Builds the documentation as a website: `python -m docs.site FOLDER`, in the environment of `make site`.

The pages are read from a copy, in which `README.md` is the front page. Links in the copy lead to the copied pages, and
the front page has a table of contents, made from its section about the documentation. So the pages themselves stay
plain Markdown. Warnings are errors: a link that leads nowhere fails the build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CONTENTS: Final = "## Documentation"
_FRONT: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_SUFFIXES: Final = {".md", ".png", ".svg"}
_LINK: Final = re.compile(r"(?<=\]\()([^)#\s]+)(?=[)#])")


def pages() -> dict[str, str]:
    """The files of the site: path in the repository, and in the copy."""
    tracked = subprocess.run(["git", "ls-files", "docs"], cwd=ROOT, capture_output=True, text=True, check=True)
    inside = [path for path in tracked.stdout.splitlines() if Path(path).suffix in _SUFFIXES]
    return {**_FRONT, **{path: path.removeprefix("docs/") for path in inside}}


def copy(into: Path) -> None:
    """Write the copy of all pages."""
    copied = pages()
    for source, target in copied.items():
        (into / target).parent.mkdir(parents=True, exist_ok=True)
        if source.endswith(".md"):
            text = moved_links((ROOT / source).read_text(encoding="utf-8"), source, copied)
            (into / target).write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(ROOT / source, into / target)
    front = into / "index.md"
    front.write_text(front.read_text(encoding="utf-8") + "".join(contents(copied)), encoding="utf-8")


def moved_links(text: str, source: str, copied: dict[str, str]) -> str:
    """Return a page whose links lead from its place in the copy to the places of other pages there."""
    here = PurePosixPath(copied[source]).parent

    def moved(link: re.Match[str]) -> str:
        target = copied.get(os.path.normpath(PurePosixPath(source).parent / link[0]))
        return link[0] if target is None else os.path.relpath(target, here)

    return _LINK.sub(moved, text)


def contents(copied: dict[str, str]) -> Iterator[str]:
    """The tables of contents: one for each item of the README's section, and one for the pages that it leaves out."""
    _, _, section = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"\n{CONTENTS}\n")
    listed = {"README.md"}
    for caption, links in re.findall(r"^- ([\w ]+): (.*(?:\n  .*)*)", section, re.MULTILINE):
        rows = re.findall(r"\]\(([^)#]+)\)", links)
        listed.update(rows)
        yield _table(caption, [copied[path] for path in rows])
    left = [target for path, target in copied.items() if path.endswith(".md") and path not in listed]
    yield _table("More", left)


def _table(caption: str, rows: list[str]) -> str:
    return "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(rows) + "\n```\n"


def main(folder: str) -> int:
    with tempfile.TemporaryDirectory() as copied:
        copy(Path(copied))
        here = str(Path(__file__).parent)
        built = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", here, copied, folder]
        return subprocess.run(built, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
