"""`rewindow show SESSION --html FILE`: one page that works offline, of at most `LARGEST` bytes.

It is made of the log and the store alone. Contents that would make it too large are left out, the largest first, and
named. Called by the command line, by its name, because this package stands above it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from engine import __version__
from engine.core.durable import sync
from engine.core.errors import InvalidRequestError
from engine.core.ids import BlobDigest
from engine.core.text import plural
from engine.log.events import Event
from engine.log.redaction import Redactor
from engine.session.session_json import Comparison, Content, Contents, SessionDocument
from session_page.assembly import Bundle, bundle, file_page, packed

SCHEMA: Final = "session-file/1"
LARGEST: Final = 20_000_000
"""The most bytes of a file, unless what must be in it takes more."""
TOO_LARGE: Final = "the file would be larger than 20 MB"
_MOST_COMPARED: Final = 10
"""How many branches, the newest, are compared with each other."""
_BASE64: Final = 4 / 3


class LeftOut(Struct, frozen=True):
    """A content that is not in the file: its digest, its bytes, and what it is."""

    digest: str
    size: int
    what: str


class FileNotes(Struct, frozen=True, kw_only=True):
    """What a reader should know about a file: when and by which version it was made, what it contains and lacks."""

    made_at: float
    version: str
    contains: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    comparisons: tuple[Comparison, ...]


class Written(Struct, frozen=True):
    """A file that was written: its size in bytes, and what it contains and lacks."""

    size: int
    notes: FileNotes


def write_file(
    path: str,
    session_id: str,
    events: Iterable[Event],
    blob_get: Callable[[BlobDigest], bytes],
    hidden: Redactor,
    now: float,
) -> Written:
    """Write the page of a session to `path`, at once or not at all.

    Args:
        events: the whole log, without secrets.
        blob_get: `Store.blob_get`.
        now: seconds since the epoch.

    Raises:
        InvalidRequestError: the front end is not installed.
        OSError: the file cannot be written; an earlier one is as it was.
    """
    data, notes = session_file(bundle(), session_id, events, blob_get, hidden, now)
    _replace(Path(path), data)
    return Written(len(data), notes)


def session_file(
    parts: Bundle,
    session_id: str,
    events: Iterable[Event],
    blob_get: Callable[[BlobDigest], bytes],
    hidden: Redactor,
    now: float,
) -> tuple[bytes, FileNotes]:
    """Return the page, and what it contains; arguments as for `write_file`."""
    contents = Contents(blob_get, hidden)
    document = SessionDocument(session_id, contents.text)
    for event in events:
        document.apply(event)
    whole = document.document()
    comparisons = _comparisons(document)
    fixed = len(parts.script) + len(parts.style) + 10_000
    room = (LARGEST - fixed) / _BASE64 - _packed_size(msgspec.json.encode((whole, comparisons)))
    kept, left_out = _fitting(contents.all(document), document, room)
    notes = FileNotes(
        made_at=now,
        version=__version__,
        contains=_contains(whole),
        left_out=tuple(left_out),
        comparisons=comparisons,
    )
    data = {"schema": SCHEMA, "document": {**whole, "contents": kept}, "file": notes}
    return file_page(parts, packed(msgspec.json.encode(data))), notes


def _fitting(
    contents: Iterable[tuple[str, Content]], document: SessionDocument, room: float
) -> tuple[dict[str, Content], Sequence[LeftOut]]:
    """Return the contents that fit into `room` compressed bytes: the smallest ones, because these are the most."""
    kept = dict(contents)
    sizes = {digest: _packed_size(msgspec.json.encode(content)) for digest, content in kept.items()}
    left_out: list[LeftOut] = []
    total = sum(sizes.values())
    for digest in sorted(sizes, key=lambda each: -sizes[each]):
        if total <= room:
            break
        total -= sizes[digest]
        size = len(kept[digest].text or kept[digest].data or "")
        left_out.append(LeftOut(digest, size, document.texts.described(digest)))
        kept[digest] = Content(left_out=TOO_LARGE)
    return kept, left_out


def _packed_size(data: bytes) -> int:
    # Apart, contents compress worse than together, so that this never is too small.
    return len(zlib.compress(data, 1))


def _comparisons(document: SessionDocument) -> tuple[Comparison, ...]:
    names = document.branches[-_MOST_COMPARED:]
    found: list[Comparison] = []
    for left, right in combinations(names, 2):
        with contextlib.suppress(InvalidRequestError):
            found.append(document.comparison(left, right))
    return tuple(found)


_COUNTED: Final = (
    ("statements", "statement", "with source, output, errors and the names that it bound"),
    ("conversation", "item", "of the conversation: your prompts, the model's replies and reasoning, and tool calls"),
    ("calls", "model call", "with everything that was sent"),
    ("files", "file", "with contents before and after each change, and full paths"),
)
MAY_HOLD_SECRETS: Final = (
    "Values that Rewindow knows to be secret are replaced by ***, but it does not know all: look through the file"
    " before you share it."
)


def _contains(whole: Mapping[str, Sequence[object]]) -> tuple[str, ...]:
    counts = ((len(whole[table]), noun, what) for table, noun, what in _COUNTED)
    lines = (f"{count:,} {plural(count, noun)} {what}." for count, noun, what in counts if count)
    return (*lines, MAY_HOLD_SECRETS)


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
