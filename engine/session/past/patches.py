"""What a session has changed in its files, as one patch that `git apply` takes.

For each file the content before the session's first change is compared with that after its last one, as the log has
them; nothing is read from disk. What the last undo or rewind left is compared on the disk with what would have come
back (`deltas_left`). A content that is no UTF-8 is a literal of git's binary format, so that the patch is text. Must
not know commands.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from base64 import b85encode
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...core.diff import Opcode, hunks, opcodes
from ...core.domain import is_inside
from ...core.errors import StoreError
from ...core.execution import DIRECTORY, LINK
from ...core.pictures import HAS_SECRET
from ...core.text import plural
from ...files.safe_open import LARGEST
from ...log.branches import end_after
from ...log.events import Event
from ...log.events.going_back import FileLeft, FileToRestore, RewindBegun, Rewound
from ...log.file_history import Restorable, is_unknown, restorable
from ...log.redaction import Redactor
from ...log.store_protocol import Store
from ...log.undo_steps import plan_of
from ..tool_records import file_state, link_state

_CONTEXT: Final = 3
_DIFFED_CHARS: Final = 8 << 20
"""Of both contents of a file that are compared line by line; of longer ones a patch replaces all lines."""
_NOT_STORED: Final = "a content is not stored"
_DIRECTORY: Final = "the path is a directory now"
_LOST: Final = "the contents are not in the store"
OUTSIDE: Final = "the file is outside the directory of the patch"
NOT_UTF8: Final = "the name is not UTF-8"
_LINK_MODE: Final = 0o120000
_FILE_MODE: Final = 0o100644
_EXECUTABLE_MODE: Final = 0o100755
_EXECUTE: Final = 0o111
_LITERAL_BYTES: Final = 52
"""Of the compressed content in a line of a binary patch."""
_LETTERS: Final = 26
_PLAIN: Final = range(0x20, 0x7F)
_SPECIAL: Final = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}


_OWN: Final = ("present", "present_digest", "wanted", "wanted_digest")


class FileDelta(Struct, frozen=True):
    """A file and both contents. `reason` says why one is unknown; then there is no patch of it.

    Modes are git's: those of a link, a file or an executable file; None for no file.
    """

    path: str
    before: bytes | None
    after: bytes | None
    before_mode: int | None
    after_mode: int | None
    reason: str = ""

    @property
    def size(self) -> int:
        """Bytes of both contents, if it has two to compare; else 0."""
        return 0 if self.before is None or self.after is None else len(self.before) + len(self.after)

    def words(self, *, counted: bool = True) -> str:
        """What happened to it: `made, +3`, `changed, +1 -2`, `removed`; or `changed, 3 -> 4 bytes` if not `counted`."""
        what = "made" if self.before_mode is None else "removed" if self.after_mode is None else "changed"
        if self.reason:
            return f"{what}, {self.reason}"
        if self.before == self.after:
            return f"mode {self.before_mode or 0:o} -> {self.after_mode or 0:o}"
        if _is_binary(self.before) or _is_binary(self.after):
            size = len(self.after or b"")
            return f"{what}, binary" + (f", {size:,} {plural(size, 'byte')}" if self.after is not None else "")
        if not counted:
            return f"{what}, {len(self.before or b''):,} -> {len(self.after or b''):,} bytes"
        added, removed = self.extent
        counts = " ".join([*([f"+{added}"] if added else []), *([f"-{removed}"] if removed else [])])
        return f"{what}, {counts}" if counts else what

    @property
    def extent(self) -> tuple[int, int]:
        """The numbers of added and removed lines."""
        codes = [code for code in opcodes(_lines(self.before), _lines(self.after)) if code.tag != "equal"]
        return sum(code.j2 - code.j1 for code in codes), sum(code.i2 - code.i1 for code in codes)


def for_patch(deltas: Sequence[FileDelta], root: str) -> Sequence[FileDelta]:
    """Return the changes with a reason for each that a patch for `root` cannot have."""
    return [replace(each, reason=each.reason or _why_not_in_patch(each.path, root)) for each in deltas]


def _why_not_in_patch(path: str, root: str) -> str:
    # A path of an imported session may have `..` in it.
    if not is_inside(os.path.normpath(path), (root,)):
        return OUTSIDE
    return NOT_UTF8 if "\ufffd" in path else ""


def changed_since(events: Sequence[Event], path: Sequence[Event], statement: int) -> Restorable | None:
    """Return what has changed since the end of a statement, for `deltas_of`; None if there is no such statement.

    Args:
        events: a whole log.
        path: its active path.
        statement: the number; 0 is the beginning of the session.
    """
    end = end_after(path if statement else events, statement)
    return None if end is None else restorable(events[end:])


def deltas_of(found: Restorable, store: Store, redactor: Redactor) -> Sequence[FileDelta]:
    """Return the changed files with their contents, sorted by path. Waits for the store.

    Directories are left out, and contents that contain a known secret are unknown.
    """
    files = [file for file in found.files if not {file.present_digest, file.wanted_digest} <= {"", DIRECTORY}]
    deltas = [_delta(_of_session(file), store, redactor) for file in files]
    unknown = [_unknown(left) for left in found.left]
    return sorted([*deltas, *unknown], key=lambda each: each.path)


def deltas_left(events: Sequence[Event], store: Store, redactor: Redactor) -> Sequence[FileDelta]:
    """Return how the files that the last undo, redo or rewind left differ from what it was to restore, by path. Blocks.

    The content before is the present one. `events` are a whole log.
    """
    begun: RewindBegun | None = None
    paths: frozenset[str] = frozenset()
    last: RewindBegun | None = None
    for event in events:
        match event:
            case RewindBegun():
                begun = event
            case Rewound(cancelled=False, left=left):
                last, paths = begun, frozenset(each.path for each in left)
            case _:
                pass
    if last is None:
        return []
    found = plan_of(events, last)
    files = {file.path: file for file in found.files if file.path in paths and file.wanted_digest != DIRECTORY}
    deltas = [each for file in files.values() if (each := _left_delta(file, store, redactor)) is not None]
    unknown = [_unknown(left) for left in found.left if left.path in paths]
    return sorted([*deltas, *unknown], key=lambda each: each.path)


def _unknown(left: FileLeft) -> FileDelta:
    return FileDelta(left.path, None, None, _FILE_MODE, _FILE_MODE, left.reason)


def _left_delta(file: FileToRestore, store: Store, redactor: Redactor) -> FileDelta | None:
    """Return how a file becomes what was to be restored; None if it is that."""
    is_link = os.path.islink(file.path)
    there = link_state(file.path) if is_link else file_state(file.path, LARGEST)
    if there.digest == file.wanted_digest:
        return None
    found = replace(file, present_digest=there.digest, present_mode=there.mode)
    before_mode, after_mode = (
        _mode(found.present_digest, found.present_mode),
        _mode(file.wanted_digest, file.wanted_mode),
    )
    delta = FileDelta(file.path, there.data, None, before_mode, after_mode, there.reason)
    if delta.reason or os.path.isdir(file.path):
        return replace(delta, before=None, reason=delta.reason or _DIRECTORY)
    if is_unknown(file.wanted, file.wanted_digest):
        return replace(delta, before=None, reason=_NOT_STORED)
    try:
        after = None if file.wanted is None else store.blob_get(file.wanted)
    except (KeyError, StoreError):
        return replace(delta, before=None, reason=_LOST)
    if any(each is not None and redactor.storable(each) is None for each in (there.data, after)):
        return replace(delta, before=None, reason=HAS_SECRET)
    return replace(delta, after=after)


def _of_session(file: FileToRestore) -> FileToRestore:
    """Return a file without changes by somebody else that a rewind has merged."""
    return file if file.own is None else replace(file, **{name: getattr(file.own, name) for name in _OWN})


def _delta(file: FileToRestore, store: Store, redactor: Redactor) -> FileDelta:
    before = after = None
    reason = ""
    if is_unknown(file.wanted, file.wanted_digest) or is_unknown(file.present, file.present_digest):
        reason = _NOT_STORED
    else:
        try:
            before, after = (None if each is None else store.blob_get(each) for each in (file.wanted, file.present))
        except (KeyError, StoreError):
            reason = _LOST
        if any(each is not None and redactor.storable(each) is None for each in (before, after)):
            before, after, reason = None, None, HAS_SECRET
    return FileDelta(
        path=file.path,
        before=before,
        after=after,
        before_mode=_mode(file.wanted_digest, file.wanted_mode),
        after_mode=_mode(file.present_digest, file.present_mode),
        reason=reason,
    )


def _mode(digest: str, mode: int | None) -> int | None:
    if digest in ("", DIRECTORY):
        return None
    if digest.startswith(LINK):
        return _LINK_MODE
    return _EXECUTABLE_MODE if (mode or 0) & _EXECUTE else _FILE_MODE


# --- the patch --------------------------------------------------------------------------------------------------------


def patch(deltas: Sequence[FileDelta], root: str) -> str:
    """Return one patch with paths relative to `root`. Files whose contents are unknown are left out."""
    # What is removed comes first, because a directory may take its name.
    ordered = sorted((each for each in deltas if not each.reason), key=lambda each: each.after_mode is not None)
    return "".join("".join(_patch(each, root)) for each in ordered)


def _patch(delta: FileDelta, root: str) -> Iterator[str]:
    if delta.before == delta.after and delta.before_mode == delta.after_mode:
        return  # git knows no other permissions
    is_kind_changed = None not in (delta.before_mode, delta.after_mode) and _LINK_MODE in (
        delta.before_mode,
        delta.after_mode,
    )
    if is_kind_changed and delta.before_mode != delta.after_mode:  # git removes one and makes the other
        gone = FileDelta(delta.path, delta.before, None, delta.before_mode, None)
        made = FileDelta(delta.path, None, delta.after, None, delta.after_mode)
        yield from _patch(gone, root)
        yield from _patch(made, root)
        return
    name = os.fsencode(os.path.relpath(delta.path, root))
    old, new = _quoted(b"a/" + name), _quoted(b"b/" + name)
    yield f"diff --git {old} {new}\n"
    if delta.before_mode is None:
        yield f"new file mode {delta.after_mode or 0:o}\n"
    elif delta.after_mode is None:
        yield f"deleted file mode {delta.before_mode:o}\n"
    elif delta.before_mode != delta.after_mode:
        yield f"old mode {delta.before_mode:o}\nnew mode {delta.after_mode:o}\n"
    if delta.before == delta.after:
        return
    if _is_binary(delta.before) or _is_binary(delta.after):
        yield f"index {_blob_id(delta.before)}..{_blob_id(delta.after)}\nGIT binary patch\n"
        yield from _literal(delta.after or b"")
        yield from _literal(delta.before or b"")
        return
    if delta.before or delta.after:
        yield f"--- {'/dev/null' if delta.before_mode is None else old}\n"
        yield f"+++ {'/dev/null' if delta.after_mode is None else new}\n"
        yield from _hunks(_lines(delta.before), _lines(delta.after))


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    is_long = sum(map(len, before)) + sum(map(len, after)) > _DIFFED_CHARS
    whole = [Opcode("replace", 0, len(before), 0, len(after))]
    for hunk in hunks(whole if is_long else opcodes(before, after), _CONTEXT):
        i1, i2, j1, j2 = hunk[0].i1, hunk[-1].i2, hunk[0].j1, hunk[-1].j2
        yield f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@\n"
        for code in hunk:
            if code.tag == "equal":
                yield from _marked(" ", before[code.i1 : code.i2])
                continue
            yield from _marked("-", before[code.i1 : code.i2])
            yield from _marked("+", after[code.j1 : code.j2])


def _marked(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        end = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
        yield f"{sign}{line}{end}"


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _lines(data: bytes | None) -> Sequence[str]:
    """Return the lines with their ends."""
    parts = (data or b"").decode("utf-8", "replace").split("\n")
    last = parts.pop()
    lines = [f"{part}\n" for part in parts]
    return [*lines, last] if last else lines


def _is_binary(data: bytes | None) -> bool:
    """Return whether a content is no text in UTF-8."""
    try:
        return "\0" in (data or b"").decode()
    except UnicodeDecodeError:
        return True


def _blob_id(data: bytes | None) -> str:
    """Return git's id of a content, by which it checks a binary patch; zeros for none."""
    if data is None:
        return "0" * 40
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _literal(data: bytes) -> Iterator[str]:
    """Return a content in git's binary format: lines of a length and 52 bytes of the compressed content in base 85."""
    yield f"literal {len(data)}\n"
    packed = zlib.compress(data)
    for start in range(0, len(packed), _LITERAL_BYTES):
        part = packed[start : start + _LITERAL_BYTES]
        size = len(part)
        letter = chr(ord("A") + size - 1) if size <= _LETTERS else chr(ord("a") + size - _LETTERS - 1)
        yield f"{letter}{b85encode(part, pad=True).decode()}\n"
    yield "\n"


def _quoted(name: bytes) -> str:
    """Return a name as git quotes it."""
    if all(byte in _PLAIN and byte not in b'"\\' for byte in name):
        return name.decode()
    return (
        '"' + "".join(_SPECIAL.get(byte) or (chr(byte) if byte in _PLAIN else f"\\{byte:03o}") for byte in name) + '"'
    )
