"""Where in a document a view stands: the forms of `pos`, and what they mean in given content.

`"line:col"` and `"line"` count lines from 1 (0 means 1) and columns from 0 in characters; an int is a character offset
in the decoded text; any other text names a symbol. A position past the end means the last line. A symbol is followed:
in other content its line is where it is then. Where it is gone, the view stays at the line that it had, and says so.
Pure. Called by ViewHandle and the renderers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..core.cutting import cut_line
from ..core.text import printable
from .outline.finding import find_symbol
from .outline.model import Outline
from .paged_lines import PagedLines, PageLostError
from .revision import Revision

Pos = str | int
_LINE_COLUMN: Final = re.compile(r"([0-9]{1,12})(?::([0-9]{1,12}))?")
_NUMBERS: Final = re.compile(r"[\d:.,+-]+")
"""What somebody writes who means no name."""
_FORMS: Final = 'give "line:col", "line", a character offset, or a symbol such as "class Foo" or "Foo.bar"'
_LONGEST: Final = 400
"""Characters of the name of a symbol."""
_SHOWN: Final = 60


class Place(NamedTuple):
    """A line, counted from 0, and a column in it."""

    line: int
    column: int


def checked_pos(pos: object) -> Pos:
    """`pos` if it has one of the forms above.

    Raises:
        ValueError: it has not; the message says which forms there are.
    """
    if isinstance(pos, int) and not isinstance(pos, bool) and pos >= 0:
        return int(pos)
    if isinstance(pos, str) and _is_form(pos.strip()):
        return pos.strip()
    raise ValueError(f"pos={cut_line(repr(pos), _SHOWN)}: {_FORMS}")


def _is_form(pos: str) -> bool:
    if _NUMBERS.fullmatch(pos):
        return _LINE_COLUMN.fullmatch(pos) is not None
    return 0 < len(pos) <= _LONGEST and pos.isprintable()


def is_symbol(pos: Pos) -> bool:
    """Whether a checked `pos` names a symbol."""
    return isinstance(pos, str) and _LINE_COLUMN.fullmatch(pos) is None


@dataclass(frozen=True, slots=True)
class Standing:
    """A checked `pos`, and of a symbol its line, counted from 0. `is_gone`: it was there and is no more."""

    pos: Pos
    line: int = 0
    is_gone: bool = False

    def place(self, revision: Revision) -> Place:
        """What it means in that content."""
        if is_symbol(self.pos):
            return Place(min(self.line, max(len(revision.lines) - 1, 0)), 0)
        return resolve(self.pos, revision.lines, revision.first_line)

    def followed(self, revision: Revision, outline: Callable[[Revision], Outline]) -> Standing:
        """The same position in other content; where that is no text, it is not looked for.

        In a text that is read by pages only lines are found, so there a symbol is given up for the line it was at.
        """
        if isinstance(revision.lines, PagedLines):
            return self._in_pages(revision.lines)
        if not is_symbol(self.pos) or revision.state != "text":
            return self
        found = outline(revision)
        symbol = find_symbol(found, str(self.pos)).symbol
        if symbol is None and found.is_provisional:
            return self  # because nobody knows yet whether it is gone
        return Standing(self.pos, self.line, True) if symbol is None else Standing(self.pos, symbol.first_line - 1)

    def _in_pages(self, lines: PagedLines) -> Standing:
        try:
            return Standing(_by_line(self.pos, lines, self.line))
        except PageLostError:
            return Standing("1:0")  # because the file is being changed, and the next look brings another content

    @property
    def note(self) -> str:
        """What a title says of it besides the line: the symbol, and whether it is gone. Empty for none."""
        if not is_symbol(self.pos):
            return ""
        name = cut_line(str(self.pos), _SHOWN)
        return f" ({name} is gone)" if self.is_gone else f" ({name})"


def standing(pos: object, revision: Revision, outline: Callable[[Revision], Outline], title: str) -> Standing:
    """Where `pos` is in that content; `title` names it.

    Raises:
        ValueError: it has none of the forms, or names a symbol that the text does not declare; the message has those
            that come nearest. Or the text is read by pages, where no symbol is found, nor an offset in a lost page.
    """
    checked = checked_pos(pos)
    if isinstance(revision.lines, PagedLines):
        if is_symbol(checked):
            raise ValueError(
                f"pos={cut_line(repr(checked), _SHOWN)}: {title} has {revision.size:,} bytes, too many to look for "
                f'symbols; give "line:col", "line" or a character offset'
            )
        return Standing(_by_line(checked, revision.lines))
    if not is_symbol(checked) or revision.state != "text":
        return Standing(checked)
    found = find_symbol(outline(revision), str(checked))
    if found.symbol is not None:
        return Standing(checked, found.symbol.first_line - 1)
    said = f"pos={cut_line(repr(checked), _SHOWN)}: {title} declares nothing of that name"
    nearest = ", ".join(f'"{cut_line(printable(name), _SHOWN)}"' for name in found.nearest)
    raise ValueError(f"{said}; nearest: {nearest}" if nearest else f"{said}; {_FORMS}")


def resolve(pos: Pos, lines: Sequence[str], first_line: int = 1) -> Place:
    """The place of a checked `pos` that is no symbol, in `lines`, which carry no newline. Without lines it is 0, 0.

    `first_line` is the number of the first of them; a position before it means it.
    """
    if isinstance(pos, int):
        return _at_offset(pos, lines)
    match = _LINE_COLUMN.fullmatch(pos)
    if match is None or not lines:
        return Place(0, 0)
    line, column = min(max(int(match[1]) - first_line, 0), len(lines) - 1), int(match[2] or 0)
    # What is read by pages is not read for this: whoever shows a part of the line bounds the column.
    return Place(line, column if isinstance(lines, PagedLines) else min(column, len(lines[line])))


def _by_line(pos: Pos, lines: PagedLines, line: int = 0) -> Pos:
    """The position without need of a page: a symbol is at that line, and of an offset the place is looked up.

    Raises PageLostError.
    """
    if isinstance(pos, int):
        at, column = lines.point(pos)
        return f"{at + 1}:{column}"
    return f"{line + 1}:0" if is_symbol(pos) else pos


def _at_offset(offset: int, lines: Sequence[str]) -> Place:
    for line, text in enumerate(lines):
        if offset <= len(text):
            return Place(line, offset)
        offset -= len(text) + 1
    return Place(max(len(lines) - 1, 0), len(lines[-1]) if lines else 0)
