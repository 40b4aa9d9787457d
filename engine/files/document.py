"""Documents: what views are windows on. One per path, shared by all its views, which looks at its file when asked.

Owns the newest revision seen of a path. Knows who answers looks, no node. Called by handles when content is wanted, and
at ticks.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from ..core.links import path_in
from ..core.text import cut_line, printable
from .looks import Looks
from .outline.model import Outline, find_symbol
from .paging import PagedLines, PageLostError
from .revision import Found, Revision, from_text, without_content


class Document:
    """The content at one path, or a fixed text where `path` is None.

    With both, it is that text until somebody looks at the file: what an editor holds, which may be on no disk yet.
    `current` is the newest revision seen; `outside` says that the path is in no directory of the workspace.
    """

    __slots__ = ("__weakref__", "_checked", "_found", "_looks", "current", "outside", "path", "title")

    def __init__(
        self,
        path: str | None,
        title: str,
        looks: Looks,
        current: Revision,
        *,
        outside: bool = False,
    ) -> None:
        self.path = path
        self.title = title
        self.outside = outside
        self._looks = looks
        self._found: Found | None = None
        self._checked = -1
        self.current = current

    def refresh(self) -> Revision:
        """Looks at the file now and returns what is current. Never raises OSError."""
        if self.path is None:
            return self.current
        return self._hold(self._looks.look(self.path, self.title, self._found))

    def peek(self) -> Revision:
        """What the file holds now, for whoever only looks: what is current stays so, and nothing is recorded.

        A large text is not read for this. Where its stamp may not last, only another size counts.
        """
        if self.path is None:
            return self.current
        found, known = self._looks.peek(self.path, self.title, self._found).revision, self._found
        is_large = (found.state, self.current.state) == ("too large", "paged")
        if is_large and (known is None or known.stamp is None) and found.size == self.current.size:
            return self.current
        return found

    def bring(self, data: bytes) -> Revision:
        """Takes what somebody else has read of the file for its content now, and returns what is current."""
        if self.path is None:
            return self.current
        return self._hold(self._looks.bring(self.path, self.title, self._found, data))

    def _hold(self, found: Found) -> Revision:
        if found is not self._found:
            self._found = found
            if not found.revision.same_as(self.current):
                self.current = found.revision
        return self.current

    def refresh_at_tick(self) -> Revision:
        """`refresh`, but at most once per tick, so that many views of a document cost one look."""
        tick = self._looks.tick
        if self._checked == tick:
            return self.current
        self._checked = tick
        if self.path is None:
            return self.current
        return self._hold(self._looks.look(self.path, self.title, self._found, at_tick=True))


_UNSEEN = without_content("missing", "")


class Documents:
    """All documents that some handle holds, by absolute path. A document is dropped with its last handle."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._by_path: WeakValueDictionary[str, Document] = WeakValueDictionary()

    def at(self, path: str, title: str, *, outside: bool) -> Document:
        """The document at an absolute path, looked at just now."""
        document = self.held(path, title, _UNSEEN, outside=outside)
        document.refresh()
        return document

    def held(self, path: str, title: str, current: Revision, *, outside: bool) -> Document:
        """The document at an absolute path, as it is known; without looking at it, one at `current` where none is."""
        known = self._by_path.get(path)
        if known is None:
            known = self._by_path[path] = Document(path, title, self._looks, current, outside=outside)
        return known

    def of_text(
        self, text: str, title: str, path: str | None = None, *, first_line: int = 1, outside: bool = False
    ) -> Document:
        """A document that is this text: for good, or where it has a path until the file there is looked at.

        Not shared with other views of that path, which show what is on disk. `first_line` is the number of its first
        line, where it is a part of the file.
        """
        return Document(path, title, self._looks, from_text(text, first_line), outside=outside)


# source:
# What may be viewed: a path, a Path, an open file or a `file:` URI, and how its title reads.
#
# Pure string work: `~` is expanded, relative paths are taken from the session's working directory. Called by the
# Board.

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def path_of(source: object, cwd: str) -> str:
    """The absolute path that `source` names.

    Raises:
        TypeError: it is none of the forms above.
        ValueError: it has one of them, but names no file: another scheme or host, a file without a name, a NUL.
    """
    path = os.path.expanduser(_spelling(source))
    if not path or "\0" in path:
        raise ValueError(f"{path!r} is no path")
    return os.path.normpath(posixpath.join(cwd, path))


def _spelling(source: object) -> str:
    if isinstance(source, str):
        return _from_uri(source) if _SCHEME.match(source) else source
    if isinstance(source, os.PathLike | bytes):
        return os.fsdecode(source)  # pyright: ignore[reportUnknownArgumentType] - PathLike of what, is checked inside
    name = getattr(source, "name", None)
    if isinstance(name, str | bytes) and hasattr(source, "read"):
        spelling = os.fsdecode(name)
        if spelling.startswith("<"):
            raise ValueError(f"the open file {spelling} has no path; pass what it holds as view(text=...)")
        return spelling
    if hasattr(source, "read"):
        raise ValueError("this file object has no path; pass what it holds as view(text=...)")
    raise TypeError(f"view() takes a path, an open file or text=..., not {type(source).__name__}")


def _from_uri(uri: str) -> str:
    try:
        return path_in(uri)
    except ValueError as error:
        raise ValueError(f"{uri!r}: {error}") from None


def title_of(path: str, cwd: str) -> str:
    """The path as titles show it: relative to `cwd` where inside it, and printable whatever the file is called."""
    root = cwd.rstrip("/") + "/"
    shown = path[len(root) :] if path.startswith(root) and len(path) > len(root) else path
    return printable(shown)


# position:
# Where in a document a view stands: the forms of `pos`, and what they mean in given content.
#
# `"line:col"` and `"line"` count lines from 1 (0 means 1) and columns from 0 in characters; an int is a character
# offset in the decoded text; any other text names a symbol. A position past the end means the last line. A symbol is
# followed: in other content its line is where it is then. Where it is gone, the view stays at the line that it had,
# and says so. Pure. Called by ViewHandle and the renderers.

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
