"""`read(path, start_line=None, end_line=None)` returns a text file or some of its lines.

Also the last seen version of each file, to refuse blind overwrites, and the error that shows the difference.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import msgspec

from ...core.ids import BlobDigest
from ...core.toolbox import STALE
from ...files.changes import describe
from ...files.pins import path_of
from ...files.revision import Hide, decoded, digest_of, show_all
from ...files.safe_open import opened_file
from ...files.spellings import stored_path
from ...log.events import Event
from ...log.events.execution import EffectAnswered, FileWritten
from .workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A tool's answer about one file, and the version that it saw.

    Args:
        path: the absolute, real path of the file.
        digest: xxh3 hex of the whole file.
        value: plain data that the statement gets.
    """

    path: str
    digest: str
    value: object


MAX_BYTES: Final = 8 << 20
"""The largest file that `read` returns. A view shows larger ones."""


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines count from 1; `end_line` is the last one included."""

    path: str
    start_line: int | None = None
    end_line: int | None = None


def read(workspace: Workspace, arguments: ReadArguments, limit: int = MAX_BYTES) -> Reading:
    """The text, from the editor if it is unsaved there; bytes that are not UTF-8 are replaced.

    Raises:
        OSError: the file cannot be read, or is outside the workspace.
        ValueError: `start_line` is below 1, `end_line` is before it, or the file has more than `limit` bytes.
    """
    start = 1 if arguments.start_line is None else arguments.start_line
    end = arguments.end_line
    if start < 1:
        raise ValueError(f"start_line={start} is not a line number; the first line is 1")
    if end is not None and end < start:
        raise ValueError(f"end_line={end} is before start_line={start}")
    place, data = _content(workspace, arguments.path, limit)
    if len(data) > limit:
        raise ValueError(f"{arguments.path} has more than {limit >> 20} MiB; use view(), or open() in the statement")
    text = data.decode("utf-8", "replace")
    if start > 1 or end is not None:
        text = "".join(text.splitlines(keepends=True)[start - 1 : end])
    return Reading(path=place, digest=digest_of(data), value=text)


def _content(workspace: Workspace, path: str, limit: int) -> tuple[str, bytes]:
    """The real path of the file, and at most `limit` + 1 bytes of it."""
    absolute = workspace.absolute(path)
    for place, data in workspace.unsaved.items():
        if os.path.realpath(absolute) == place:
            return place, data
    with opened_file(absolute, workspace.roots) as file:
        return stored_path(path_of(file.fileno())), file.read(limit + 1)


# --- the error for a file that has changed since it was seen ----------------------------------------------------------

MOST_CHARS: Final = 2_000
"""The longest diff in the error."""
ADVICE: Final = "look at the file again with view() or read(), then change it"


def changed_since(path: str, since: str) -> OSError:
    """The error (ESTALE) for a file that has changed since it was seen, as `stale`, without a diff."""
    return OSError(errno.ESTALE, f"{path} {STALE} {since}; {ADVICE}")


def stale(path: str, since: str, hide: Hide, known: bytes | None, present: bytes | None) -> OSError:
    """The error (ESTALE) for a file that has changed since it was seen, with a diff if both contents are known.

    Args:
        path: the name of the file in the error.
        since: when it was seen, as a clause: "it was last read".
        hide: hides the secrets in the contents.
        known: its content then; None if unknown, or if there was no file.
        present: its content now; None if it was removed.
    """
    if present is None:
        return OSError(errno.ESTALE, f"{path} was removed since {since}")
    error = changed_since(path, since)
    if known is None:
        return error
    return OSError(errno.ESTALE, f"{error.strerror}. {difference(path, known, present, hide)}")


def difference(path: str, before: bytes, after: bytes, hide: Hide) -> str:
    """The difference as a summary and a diff of at most `MOST_CHARS` characters."""
    old, new = decoded(before, hide), decoded(after, hide)
    return describe(path, old.lines, new.lines, len, MOST_CHARS)[1]


# --- the last seen version of each file -------------------------------------------------------------------------------

Contents = Callable[[BlobDigest], bytes]
"""The content of a blob. Raises KeyError if it is not stored."""


def _nothing(digest: BlobDigest) -> bytes:
    raise KeyError(digest)


class _Known(NamedTuple):
    """The digest of a file's content, and its blob: the content itself (`verb` written), or JSON text (`verb` read)."""

    digest: str
    blob: BlobDigest | None
    verb: str


class SeenFiles:
    """The last version of each file that tools have read or written, to refuse blind overwrites.

    A fold over the log, so a reopened session has it too. Must not read files. Only the worker knows what a view has
    shown; it sends that digest with the call (`basis`). `contents` gives stored contents for diffs, in which `hide`
    hides secrets.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((FileWritten, EffectAnswered))

    def __init__(self, contents: Contents = _nothing, hide: Hide = show_all) -> None:
        self._contents = contents
        self._hide = hide
        self.reset()

    def reset(self) -> None:
        """Start again, for another path of the log. Called only by the log."""
        self._files: dict[str, _Known] = {}

    def apply(self, event: Event) -> None:
        """Take an event of the log."""
        match event:
            # Not writes by a statement's own code: a library may have made that content, so the model has not seen it.
            case FileWritten(path=path, noticed=False):
                self._files[path] = _Known(event.after_digest, event.after, "written")
            case EffectAnswered(path=path) if path:
                self._files[path] = _Known(event.digest, event.result, "read")
            case _:
                pass

    def check(
        self, path: str, before: bytes | None, basis: str | None, shown: str = "", *, unsaved: bool = False
    ) -> None:
        """Check that a file that was seen has not changed since. A file that was never seen passes.

        Args:
            path: its real path.
            before: its content; None if there is no file, and so nothing to lose.
            basis: the digest of what a view last showed of it; None if none did.
            shown: its name in the error; the path by default.
            unsaved: `before` is only in the user's editor and would be lost, so it must have been seen.

        Raises:
            OSError: it has changed (ESTALE), with a diff if the earlier content is known.
        """
        known = self._files.get(path)
        if before is None or (known is None and basis is None and not unsaved):
            return
        present = digest_of(before)
        if present == basis or (known is not None and present == known.digest):
            return
        if known is None and basis is None:
            raise OSError(
                errno.ESTALE, f"{shown or path} has unsaved changes in the editor that were not read yet; {ADVICE}"
            )
        since = "it was last viewed" if known is None else f"it was last {known.verb}"
        raise stale(shown or path, since, self._hide, None if known is None else self._content(known), before)

    def _content(self, known: _Known) -> bytes | None:
        """The content when it was seen; None if only a part was read, or it is not stored."""
        if known.blob is None:
            return None
        with suppress(KeyError, msgspec.DecodeError):
            data = self._contents(known.blob)
            if known.verb == "read":
                answer: object = msgspec.json.decode(data)
                data = answer.encode() if isinstance(answer, str) else b""
            if digest_of(data) == known.digest:
                return data
        return None
