"""A change of one file: computed before the user is asked, and as its regions are shown."""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...core.diff import Opcode, hunks, opcodes
from ...core.encodings import UTF_8, Decoded, decode
from ...core.execution import TextChange
from ...core.text import plural
from ...files.revision import Hide
from ...files.safe_open import LARGEST
from .workspace import Workspace

# --- the diff that the user sees --------------------------------------------------------------------------------------
#
# It is complete, because the user decides by it: no region is left out or cut. Binary content has a note instead.

CONTEXT: Final = 3
"""Equal lines around a region."""
SHORT_LINES: Final = 200
SHORT_CHARS: Final = 16_000
"""A file within both limits, before and after, is shown whole."""
ENCODED: Final = "encoded as {}; programs that expect UTF-8 will misread it"
_BLOCK: Final = 1 << 16
_NEAR: Final = 1 << 14
"""Characters around a change in which a secret on several lines is looked for."""


def changes_of(before: bytes | None, after: bytes, hide: Hide) -> tuple[tuple[TextChange, ...], str]:
    """The changed regions in order, and a note on a difference that they do not show, or "".

    A region contains a secret on several lines whole or not at all, so that it is found where the region goes.

    Args:
        before: the earlier content; None for a new file.
        hide: tells the lines with secrets.
    """
    old, new = None if before is None else decode(before), decode(after)
    if new is None or (before is not None and old is None):
        note = _size(new, after) if before is None else f"{_size(old, before)} -> {_size(new, after)}"
        return () if new is None else (TextChange(line=1, old="", new=new.text),), note
    if old is None:
        note = "" if new.encoding == UTF_8 else ENCODED.format(new.encoding.name)
        return (TextChange(line=1, old=None, new=new.text),), note
    note = "" if old.encoding == new.encoding else f"{old.encoding.name} -> {new.encoding.name}"
    return tuple(_regions(old.text, new.text, hide)), note


class Extent(NamedTuple):
    """How many lines a change adds and removes, and the first line that differs, in the new text.

    `line` is None if no line differs or the content is binary.
    """

    added: int = 0
    removed: int = 0
    line: int | None = None


def extent_of(before: bytes | None, after: bytes) -> Extent:
    """The extent of a change. Binary content has no lines."""
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


def _regions(old: str, new: str, hide: Hide) -> Iterator[TextChange]:
    if old == new:
        return
    if _is_short(old) and _is_short(new):
        yield TextChange(line=1, old=old, new=new)
        return
    start, old_end, new_end = _differing(old, new)
    start = old.rfind("\n", 0, max(0, start - _NEAR)) + 1
    first = old.count("\n", 0, start) + 1
    end = old.find("\n", min(len(old), old_end + _NEAR)) + 1 or len(old)
    old, new = old[start:end], new[start : new_end + end - old_end]
    a, b = _lines(old), _lines(new)
    for i1, i2, j1, j2 in _with_whole_secrets(list(hunks(opcodes(a, b), CONTEXT)), len(a), hide(old), hide(new)):
        yield TextChange(line=first + i1, old="".join(a[i1:i2]), new="".join(b[j1:j2]))


def _with_whole_secrets(
    found: Sequence[Sequence[Opcode]], length: int, old: Container[int], new: Container[int]
) -> list[tuple[int, int, int, int]]:
    """The ranges of the hunks in both texts, extended while a secret goes on, and joined where they meet.

    `length` counts the old lines; `old` and `new` have the numbers of lines with secrets. Lines between hunks are
    equal.
    """
    ranges: list[tuple[int, int, int, int]] = []
    for index, hunk in enumerate(found):
        i1, i2, j1, j2 = hunk[0].i1, hunk[-1].i2, hunk[0].j1, hunk[-1].j2
        least = found[index - 1][-1].i2 if index else 0
        most = found[index + 1][0].i1 if index + 1 < len(found) else length
        while i1 > least and ((i1 in old and i1 - 1 in old) or (j1 in new and j1 - 1 in new)):
            i1, j1 = i1 - 1, j1 - 1
        while i2 < most and ((i2 in old and i2 - 1 in old) or (j2 in new and j2 - 1 in new)):
            i2, j2 = i2 + 1, j2 + 1
        if ranges and i1 <= ranges[-1][1]:
            before = ranges.pop()
            i1, j1 = before[0], before[2]
        ranges.append((i1, i2, j1, j2))
    return ranges


def _is_short(text: str) -> bool:
    return len(text) <= SHORT_CHARS and text.count("\n") <= SHORT_LINES


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    last = parts.pop()
    lines = [part + "\n" for part in parts]
    return [*lines, last] if last else lines


def _differing(old: str, new: str) -> tuple[int, int, int]:
    """The start of the difference, and its end in each text, extended by the context to whole lines.

    Compares blocks, because most changes of large files are small, and splitting into lines costs most.
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
    """The length of the common prefix."""
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


# --- the change -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one file: computed before the user is asked, performed by `landing` afterwards.

    Args:
        path: the absolute, real path of the file.
        before: the present content; None for a new file.
        after: the new content.
        value: plain data that the statement gets afterwards.
        mode: the permission bits of a new file before the umask; None for the usual ones.
        protected: why the file is protected, as `Protection.why`.
    """

    path: str
    protected: str
    before: bytes | None
    after: bytes
    value: object
    mode: int | None = None


class Found(NamedTuple):
    """A file to change: real path, why it is protected, and its content, unsaved or on disk; None for a new file."""

    path: str
    protected: str
    data: bytes | None


def file_to_change(workspace: Workspace, path: str) -> Found:
    """The file at `path`.

    Raises:
        OSError: it is outside the workspace, not a regular file, not writable, or larger than `LARGEST` (EFBIG).
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
    """Raise OSError (EFBIG) for a file that is, or would become, larger than `LARGEST`: its content is stored."""
    if size > LARGEST:
        most = f"tools do not change files of more than {LARGEST >> 20} MiB, because their content is stored"
        raise OSError(errno.EFBIG, most, path)


def change_to(workspace: Workspace, found: Found, after: bytes, *, mode: int | None = None) -> Change:
    """The change of that file, with its result for the statement (`runtime.results.written`).

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
