"""A change of one file: computed before the user is asked, and as its regions are shown."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...core.diff import hunks, opcodes
from ...core.encodings import Decoded, decode
from ...core.execution import TextChange
from ...core.text import plural
from ...files.safe_open import LARGEST
from .workspace import Workspace

# What a change does to a file, as a person is shown it: the regions that differ, with some lines around them.
#
# Complete, because somebody decides by it: no region is left out or cut. Of binary content there are no regions but a
# note. Pure. Called by the desk before it asks, and for the event that says what was written.

CONTEXT: Final = 3
"""Equal lines around a region."""
SHORT_LINES: Final = 200
SHORT_CHARS: Final = 16_000
"""A file that has no more of either before and after is shown whole."""
_BLOCK: Final = 1 << 16


def changes_of(before: bytes | None, after: bytes) -> tuple[tuple[TextChange, ...], str]:
    """The changed regions in order, and a note on what they do not show; the note is "" where they show all.

    Args:
        before: what the file held; None for a new file.
    """
    old, new = None if before is None else decode(before), decode(after)
    if new is None or (before is not None and old is None):
        note = _size(new, after) if before is None else f"{_size(old, before)} -> {_size(new, after)}"
        return () if new is None else (TextChange(line=1, old="", new=new.text),), note
    if old is None:
        return (TextChange(line=1, old=None, new=new.text),), ""
    note = "" if old.encoding == new.encoding else f"{old.encoding.name} -> {new.encoding.name}"
    return tuple(_regions(old.text, new.text)), note


class Extent(NamedTuple):
    """How many lines a change adds and removes, and the first line that differs, as the new text counts it.

    `line` is None where no line differs or the content is binary.
    """

    added: int = 0
    removed: int = 0
    line: int | None = None


def extent_of(before: bytes | None, after: bytes) -> Extent:
    """The extent of a change. What was no text counts as no lines."""
    old, new = decode(before or b""), decode(after)
    if new is None or old is None or old.text == new.text:
        return Extent()
    start, old_end, new_end = _differing(old.text, new.text)
    codes = opcodes(_lines(old.text[start:old_end]), _lines(new.text[start:new_end]))
    changed = [code for code in codes if code.tag != "equal"]
    return Extent(
        sum(code.j2 - code.j1 for code in changed),
        sum(code.i2 - code.i1 for code in changed),
        old.text.count("\n", 0, start) + 1 + changed[0].j1,
    )


def _size(found: Decoded | None, data: bytes) -> str:
    return f"{'binary' if found is None else 'text'}, {len(data):,} {plural(len(data), 'byte')}"


def _regions(old: str, new: str) -> Iterator[TextChange]:
    if old == new:
        return
    if _is_short(old) and _is_short(new):
        yield TextChange(line=1, old=old, new=new)
        return
    start, old_end, new_end = _differing(old, new)
    first = old.count("\n", 0, start) + 1
    a, b = _lines(old[start:old_end]), _lines(new[start:new_end])
    for hunk in hunks(opcodes(a, b), CONTEXT):
        i1, i2, j1, j2 = hunk[0].i1, hunk[-1].i2, hunk[0].j1, hunk[-1].j2
        yield TextChange(line=first + i1, old="".join(a[i1:i2]), new="".join(b[j1:j2]))


def _is_short(text: str) -> bool:
    return len(text) <= SHORT_CHARS and text.count("\n") <= SHORT_LINES


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    last = parts.pop()
    lines = [part + "\n" for part in parts]
    return [*lines, last] if last else lines


def _differing(old: str, new: str) -> tuple[int, int, int]:
    """Where both begin to differ and where each ceases to, moved outwards by the context to whole lines.

    Found by comparing blocks, because most changes of large files are small, and lines of Python strings cost more
    than all the rest.
    """
    head = _common(old, new)
    tail = min(_common_at_end(old, new), min(len(old), len(new)) - head)
    start = head
    for _ in range(CONTEXT + 1):
        start = old.rfind("\n", 0, start)
        if start < 0:
            break
    end = len(old) - tail
    for _ in range(CONTEXT + 1):
        end = old.find("\n", end) + 1
        if not end:
            end = len(old)
            break
    return start + 1, end, end + len(new) - len(old)


def _common(a: str, b: str) -> int:
    """How many characters both have in common at their beginning."""
    at, size = 0, _BLOCK
    most = min(len(a), len(b))
    while size and at < most:
        if a[at : at + size] == b[at : at + size]:
            at += size
        else:
            size //= 2
    return min(at, most)


def _common_at_end(a: str, b: str) -> int:
    at, size = 0, _BLOCK
    most = min(len(a), len(b))
    while size and at < most:
        if at + size <= most and a[len(a) - at - size : len(a) - at] == b[len(b) - at - size : len(b) - at]:
            at += size
        else:
            size //= 2
    return at


# change:
# What a tool that changes a file wants done: computed before anybody is asked, and done by `landing` afterwards.

"""Bytes of the largest file that is changed: what it held is kept, so that it can be given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file as it is to be.

    Args:
        path: absolute, the real place of the file, links resolved.
        before: what it holds; None for a new file.
        after: what it is to hold.
        value: plain data that the statement gets when that is done.
        mode: the permission bits that a new file is to have, less those of the umask; None for the usual ones.
        protected: why the file is protected, as `Protection.why`.
    """

    path: str
    protected: str
    before: bytes | None
    after: bytes
    value: object
    mode: int | None = None


class Found(NamedTuple):
    """A file that is to be changed: its real place, why it is protected, and what it holds, unsaved or not; None where
    there is none yet."""

    path: str
    protected: str
    data: bytes | None


def file_to_change(workspace: Workspace, path: str) -> Found:
    """The file at `path`.

    Raises:
        OSError: it lies outside the workspace, is no regular file, may not be written, or has more than `LARGEST`
            bytes (EFBIG).
    """
    with workspace.to_write(workspace.absolute(path)) as target:
        place = target.place
        place.check_writable()
        if place.path in workspace.unsaved:
            return Found(place.path, target.protected, workspace.unsaved[place.path])
        with place.opened() as file:
            if file is not None:
                check_size(os.fstat(file.fileno()).st_size, path)
            return Found(place.path, target.protected, None if file is None else file.read(LARGEST))


def check_size(size: int, path: str) -> None:
    """Raises OSError (EFBIG) for a file that is, or would become, larger than `LARGEST`."""
    if size > LARGEST:
        most = f"files of more than {LARGEST >> 20} MiB are not changed by tools, because what they hold is kept"
        raise OSError(errno.EFBIG, most, path)


def change_to(workspace: Workspace, found: Found, after: bytes, *, mode: int | None = None) -> Change:
    """The change of that file, with what a statement is told of it (`runtime.results.written`).

    Raises:
        OSError: it would have more than `LARGEST` bytes (EFBIG).
    """
    place, protected, before = found
    check_size(len(after), workspace.shown(place))
    added, removed, line = extent_of(before, after)
    value = {
        "path": workspace.shown(place),
        "created": before is None,
        "added": added,
        "removed": removed,
        "line": line,
        "size": len(after),
    }
    return Change(path=place, protected=protected, before=before, after=after, value=value, mode=mode)
