"""`rewindow help [TOPIC]`: prints pages of the documentation, which the wheel includes. Must not know what they say."""

from __future__ import annotations

import difflib
import pydoc
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from ..core.text import cut_line, visible
from .output import aligned

_PACKAGE: Final = Path(__file__).parents[1]
_FOLDERS: Final = (_PACKAGE / "pages", _PACKAGE.parent / "docs")
"""Where the pages are: in a wheel, and in a checkout."""
_SHOWN_CHARS: Final = 60


def help_page(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="A page; default: list all pages.")] = None,
) -> None:
    """Show a page of the documentation, or list the pages."""
    pages = topics()
    if topic is None:
        rows = [(name, path.read_text("utf-8").partition("\n")[0].removeprefix("# ")) for name, path in pages.items()]
        typer.echo("\n".join(aligned(rows, None, ())))
        return
    path = pages.get(topic.removesuffix(".md"))
    if path is None:
        similar = difflib.get_close_matches(topic, pages, 3)
        hint = f"did you mean {', '.join(similar)}?" if similar else "`rewindow help` lists the pages"
        raise typer.BadParameter(f"there is no page {cut_line(visible(topic), _SHOWN_CHARS)!r}; {hint}")
    text = path.read_text("utf-8")
    if sys.stdout.isatty():
        pydoc.pager(text)
    else:
        typer.echo(text, nl=False)


def topics() -> dict[str, Path]:
    """Return the files of the pages by their names."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), _FOLDERS[0])
    found = [*sorted(folder.glob("*.md")), *sorted(folder.glob("how-to/*.md"))]
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}
