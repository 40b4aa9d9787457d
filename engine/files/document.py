"""Documents, the content of views: what may be viewed, where it is, and positions in it.

There is one document for each path, shared by its views. It holds the newest revision, and looks at its file when it is
asked to. Must not know nodes, nor who answers looks. Called by handles, at ticks, and by the Board.
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
from .revision import Found, Revision, without_content


class Document:
    """The content at one path, or a fixed text if `path` is None.

    With both, it is the text until the first look at the file: an editor's text may not be on disk yet. `current` is
    the newest revision; `outside`: the path is in no directory of the workspace.
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
        """Look at the file and return the current revision. Never raises OSError."""
        if self.path is None:
            return self.current
        return self._hold(self._looks.look(self.path, self.title, self._found))

    def peek(self) -> Revision:
        """Return the file's revision now, without adopting or recording it.

        A large text is not read for this. If its stamp is unreliable, only a new size counts as a change.
        """
        if self.path is None:
            return self.current
        found, known = self._looks.peek(self.path, self.title, self._found).revision, self._found
        is_large = (found.state, self.current.state) == ("too large", "paged")
        if is_large and (known is None or known.stamp is None) and found.size == self.current.size:
            return self.current
        return found

    def bring(self, data: bytes) -> Revision:
        """Adopt content that another process has read, and return the current revision."""
        if self.path is None:
            return self.current
        return self._hold(self._looks.bring(self.path, self.title, self._found, data))

    def content(self, revision: Revision) -> bytes | None:
        """Return the bytes of a revision of the file, if that is its content now."""
        return None if self.path is None else self._looks.content(self.path, revision.digest)

    def _hold(self, found: Found) -> Revision:
        if found is not self._found:
            self._found = found
            if not found.revision.same_as(self.current):
                self.current = found.revision
        return self.current

    def refresh_at_tick(self) -> Revision:
        """Like `refresh`, but once per tick, so that many views of a document cost one look."""
        tick = self._looks.tick
        if self._checked == tick:
            return self.current
        self._checked = tick
        if self.path is None:
            return self.current
        return self._hold(self._looks.look(self.path, self.title, self._found, at_tick=True))


_UNSEEN = without_content("missing", "")


class Documents:
    """All documents that a handle uses, by absolute path.

    A document is dropped with its last handle.
    """

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._by_path: WeakValueDictionary[str, Document] = WeakValueDictionary()

    def at(self, path: str, title: str, *, outside: bool) -> Document:
        """Return the document at an absolute path, after a look at it."""
        document = self.held(path, title, _UNSEEN, outside=outside)
        document.refresh()
        return document

    def held(self, path: str, title: str, current: Revision, *, outside: bool) -> Document:
        """Return the document at an absolute path without a look.

        A new one has the revision `current`.
        """
        known = self._by_path.get(path)
        if known is None:
            known = self._by_path[path] = Document(path, title, self._looks, current, outside=outside)
        return known

    def of_text(
        self, text: str, title: str, path: str | None = None, *, first_line: int = 1, outside: bool = False
    ) -> Document:
        """Make a document of a text.

        One with a path is the text until the first look at the file.

        It is not shared with other views of that path, which show the file. `first_line` is the number of its first
        line, if it is a part of a file.
        """
        return Document(path, title, self._looks, self._looks.text(text, first_line), outside=outside)


# --- paths and titles ------------------------------------------------------------------------------------------------


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def path_of(source: object, cwd: str) -> str:
    """Return the absolute path of a source: a path, a Path, an open file or a `file:` URI.

    `~` is expanded, and a relative path starts at `cwd`. Pure string work.

    Raises:
        TypeError: the source is of another type.
        ValueError: it names no file: another scheme or host, a file without a name, a NUL.
    """
    path = os.path.expanduser(_spelling(source))
    if not path or "\0" in path:
        raise ValueError(f"{path!r} is not a valid path")
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
            raise ValueError(f"the open file {spelling} has no path; pass its content as view(text=...)")
        return spelling
    if hasattr(source, "read"):
        raise ValueError("this file object has no path; pass its content as view(text=...)")
    raise TypeError(f"view() takes a path, an open file or text=..., not {type(source).__name__}")


def _from_uri(uri: str) -> str:
    try:
        return path_in(uri)
    except ValueError as error:
        raise ValueError(f"{uri!r}: {error}") from None


def title_of(path: str, cwd: str) -> str:
    """Return the path for titles: relative to `cwd` if it is inside, and printable."""
    root = cwd.rstrip("/") + "/"
    shown = path[len(root) :] if path.startswith(root) and len(path) > len(root) else path
    return printable(shown)


# --- positions -------------------------------------------------------------------------------------------------------


Pos = str | int
"""A position: `"line:col"` or `"line"` (lines from 1, 0 means 1; columns from 0, in characters), an int (a character
offset in the decoded text), or the name of a symbol.

A position past the end means the last line. A symbol is followed: in other content the view moves to its new line. If
the symbol is gone, the view stays where it was.
"""
_LINE_COLUMN: Final = re.compile(r"([0-9]{1,12})(?::([0-9]{1,12}))?")
_NUMBERS: Final = re.compile(r"[\d:.,+-]+")
"""Text that is meant as numbers, not as a name."""
_FORMS: Final = 'give "line:col", "line", a character offset, or a symbol such as "class Foo" or "Foo.bar"'
_LONGEST: Final = 400
"""Characters of a symbol's name."""
_SHOWN: Final = 60


class Place(NamedTuple):
    """A line, counted from 0, and a column in it."""

    line: int
    column: int


def checked_pos(pos: object) -> Pos:
    """Validate a position.

    Raises:
        ValueError: it has no known form; the message lists the forms.
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
    """Return whether a validated position names a symbol."""
    return isinstance(pos, str) and _LINE_COLUMN.fullmatch(pos) is None


@dataclass(frozen=True, slots=True)
class Position:
    """A validated position, with the line of a symbol, counted from 0.

    `is_gone`: the symbol disappeared.
    """

    pos: Pos
    line: int = 0
    is_gone: bool = False

    def place(self, revision: Revision) -> Place:
        """Resolve the position in this content."""
        if is_symbol(self.pos):
            return Place(min(self.line, max(len(revision.lines) - 1, 0)), 0)
        return resolve(self.pos, revision.lines, revision.first_line)

    def followed(self, revision: Revision, outline: Callable[[Revision], Outline]) -> Position:
        """Return the position in other content, with the symbol's new line.

        Content that is not text keeps the position. In a text that is read by pages symbols are not searched, so there
        the symbol becomes its last line.
        """
        if isinstance(revision.lines, PagedLines):
            return self._in_pages(revision.lines)
        if not is_symbol(self.pos) or revision.state != "text":
            return self
        found = outline(revision)
        symbol = find_symbol(found, str(self.pos)).symbol
        if symbol is None and found.is_provisional:
            return self  # because it may be in the part that is not outlined yet
        return Position(self.pos, self.line, True) if symbol is None else Position(self.pos, symbol.first_line - 1)

    def _in_pages(self, lines: PagedLines) -> Position:
        try:
            return Position(_by_line(self.pos, lines, self.line))
        except PageLostError:
            return Position("1:0")  # because the file is being changed, and the next look finds new content

    def note_in(self, revision: Revision) -> str:
        """Return the part of a title about the symbol, or that the content ends before the position; "" for none."""
        if not is_symbol(self.pos):
            return " (past the end)" if is_beyond(self.pos, revision) else ""
        name = cut_line(str(self.pos), _SHOWN)
        return f" ({name} is gone)" if self.is_gone else f" ({name})"


def position_at(pos: object, revision: Revision, outline: Callable[[Revision], Outline], title: str) -> Position:
    """Resolve a position in this content; `title` names the content.

    Raises:
        ValueError: the form is unknown, or the text does not declare this symbol; the message has names that may be
            meant. Or the text is read by pages: it has no symbols, and the page of an offset may be lost.
    """
    checked = checked_pos(pos)
    if isinstance(revision.lines, PagedLines):
        if is_symbol(checked):
            raise ValueError(
                f"pos={cut_line(repr(checked), _SHOWN)}: {title} is too large to look for symbols "
                f'({revision.size:,} bytes); give "line:col", "line" or a character offset'
            )
        return Position(_by_line(checked, revision.lines))
    if not is_symbol(checked) or revision.state != "text":
        return Position(checked)
    found = find_symbol(outline(revision), str(checked))
    if found.symbol is not None:
        return Position(checked, found.symbol.first_line - 1)
    message = f"pos={cut_line(repr(checked), _SHOWN)}: {title} has no symbol of that name"
    names = ", ".join(f'"{cut_line(printable(name), _SHOWN)}"' for name in found.suggested)
    raise ValueError(f"{message}; it has {names}" if names else f"{message}; {_FORMS}")


def resolve(pos: Pos, lines: Sequence[str], first_line: int = 1) -> Place:
    """Resolve a validated position that is not a symbol.

    Without lines it is 0, 0.

    Lines have no newline. `first_line` is the number of the first one; a position before it means it.
    """
    if isinstance(pos, int):
        return _at_offset(pos, lines)
    match = _LINE_COLUMN.fullmatch(pos)
    if match is None or not lines:
        return Place(0, 0)
    line, column = min(max(int(match[1]) - first_line, 0), len(lines) - 1), int(match[2] or 0)
    # No page is read for this; the code that shows a part of the line limits the column.
    return Place(line, column if isinstance(lines, PagedLines) else min(column, len(lines[line])))


def is_beyond(pos: Pos, revision: Revision) -> bool:
    """Return whether a position that is not a symbol is behind the end of a content."""
    lines = revision.lines
    if not lines or revision.state != "text":
        return False
    if isinstance(pos, int):
        # The sum is needed at the end alone, and titles are asked for often.
        return _at_offset(pos, lines) == Place(len(lines) - 1, len(lines[-1])) and pos > sum(map(len, lines)) + len(
            lines
        )
    match = _LINE_COLUMN.fullmatch(pos)
    return match is not None and int(match[1]) >= len(lines) + revision.first_line + 1


def _by_line(pos: Pos, lines: PagedLines, line: int = 0) -> Pos:
    """Return the position in a form that needs no page later: a line.

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
