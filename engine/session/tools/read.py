"""`read(path, start_line=None, end_line=None)`: a text file, or some of its lines."""

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
from ...files.revision import decoded, digest_of
from ...files.safe_open import opened_file
from ...log.events import Event
from ...log.events.execution import EffectAnswered, FileWritten
from .workspace import Workspace

# What a tool has read of a file, with what the whole of it was: whoever changes it later must have seen that.


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer about one file.

    Args:
        path: absolute, the real place of the file, links resolved.
        digest: xxh3 hex of the whole file.
        value: plain data that the statement gets.
    """

    path: str
    digest: str
    value: object


# read:
# `read(path, start_line=None, end_line=None)`: a text file, or some of its lines, as a string.

MAX_BYTES: Final = 8 << 20
"""Larger files have to be read by lines or looked at through a view."""


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines count from 1; `end_line` is the last one included."""

    path: str
    start_line: int | None = None
    end_line: int | None = None


def read(workspace: Workspace, arguments: ReadArguments, limit: int = MAX_BYTES) -> Reading:
    """The text, unsaved or not, UTF-8 with undecodable bytes replaced.

    Raises:
        OSError: the file cannot be read, or lies outside the workspace.
        ValueError: the lines make no range, or the file has more than `limit` bytes.
    """
    start = 1 if arguments.start_line is None else arguments.start_line
    end = arguments.end_line
    if start < 1 or (end is not None and end < start):
        raise ValueError(f"lines {start} to {end} are no range; lines count from 1")
    place, data = _content(workspace, arguments.path, limit)
    if len(data) > limit:
        raise ValueError(f"{arguments.path} has more than {limit >> 20} MiB; use view(), or open() in the statement")
    text = data.decode("utf-8", "replace")
    if start > 1 or end is not None:
        text = "".join(text.splitlines(keepends=True)[start - 1 : end])
    return Reading(path=place, digest=digest_of(data), value=text)


def _content(workspace: Workspace, path: str, limit: int) -> tuple[str, bytes]:
    """The real place of the file, and a byte more of it than `limit`, or all."""
    absolute = workspace.absolute(path)
    for place, data in workspace.unsaved.items():
        if os.path.realpath(absolute) == place:
            return place, data
    with opened_file(absolute, workspace.roots) as file:
        return os.readlink(f"/proc/self/fd/{file.fileno()}"), file.read(limit + 1)


# seen:
# Last seen version of each file, to refuse blind overwrites, and the error that says what differs.

# The error for a file that is not as whoever changes it has last seen it, with what differs where that is known.
#
# Pure. Raised by landings, where a file was changed after somebody was asked about it, and by `seen`.

MOST_CHARS: Final = 2_000
"""Of the difference, which the error repeats."""
ADVICE: Final = "look at it again with view() or read(), and change it then"


def stale(path: str, since: str, known: bytes | None = None, present: bytes | None = None) -> OSError:
    """The error (ESTALE).

    Args:
        path: as the error names the file.
        since: when it was seen, as a clause: "it was last read".
        known: what it held then; None where that is not known, or where there was no file.
        present: what it holds now; None where there is no file any more.
    """
    if present is None:
        return OSError(errno.ESTALE, f"{path} was removed since {since}")
    sentence = f"{path} {STALE} {since}; {ADVICE}"
    return OSError(errno.ESTALE, sentence if known is None else f"{sentence}. {difference(path, known, present)}")


def difference(path: str, before: bytes, after: bytes) -> str:
    """What differs, as a summary and a diff of at most `MOST_CHARS` characters."""
    old, new = decoded(before), decoded(after)
    return describe(path, old.lines, new.lines, len, MOST_CHARS)[1]


# seen:
# What of each file was last read or written through tools, so that nobody overwrites what nobody has seen.
#
# A fold over the log: it survives a reopened session. What a view has shown is known to the worker alone, which sends
# the digest of that along (`basis`). Must not read files. Used by the desk, before it asks about a change.

Contents = Callable[[BlobDigest], bytes]
"""The content of a blob. Raises KeyError where it is not kept."""


def _nothing(digest: BlobDigest) -> bytes:
    raise KeyError(digest)


class _Known(NamedTuple):
    """The digest of a file's content, and the blob that holds it, as it is or as an answer: text in JSON."""

    digest: str
    blob: BlobDigest | None
    verb: str


class SeenFiles:
    """The state of each file that tools have read or written, by its real place. `contents` is for differences."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((FileWritten, EffectAnswered))

    def __init__(self, contents: Contents = _nothing) -> None:
        self._contents = contents
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, whose model has seen what is on it."""
        self._files: dict[str, _Known] = {}

    def apply(self, event: Event) -> None:
        """Takes an event of the log."""
        match event:
            # What a statement's own code wrote, a library may have made of it: nobody has seen that.
            case FileWritten(path=path, noticed=False):
                self._files[path] = _Known(event.after_digest, event.after, "written")
            case EffectAnswered(path=path) if path:
                self._files[path] = _Known(event.digest, event.result, "read")
            case _:
                pass

    def check(
        self, path: str, before: bytes | None, basis: str | None, shown: str = "", *, unsaved: bool = False
    ) -> None:
        """Returns where nobody has seen the file, or somebody has seen it as it is.

        Args:
            path: its real place.
            before: what it holds; None where there is none, so that there is nothing to lose.
            basis: the digest of what a view last showed of it, None where none did.
            shown: its name in the error; the path by default.
            unsaved: `before` is in the user's editor alone, and would be lost, so somebody must have seen it.

        Raises:
            OSError: it is not as it was seen (ESTALE), with what differs where that is known.
        """
        known = self._files.get(path)
        if before is None or (known is None and basis is None and not unsaved):
            return
        present = digest_of(before)
        if present == basis or (known is not None and present == known.digest):
            return
        if known is None and basis is None:
            raise OSError(
                errno.ESTALE, f"{shown or path} has unsaved changes in the editor that nobody has seen; {ADVICE}"
            )
        since = "it was last viewed" if known is None else f"it was last {known.verb}"
        raise stale(shown or path, since, None if known is None else self._content(known), before)

    def _content(self, known: _Known) -> bytes | None:
        """What the file held when it was seen; None where only a part of it was, or it is not kept."""
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
