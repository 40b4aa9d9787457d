"""A session as JSON Lines, written by an export and read by an import, both without secrets.

First a header, then the events as the codec writes them. Each content precedes the first event that names it, as
`{"blob": <digest>, "data": <base64>}`; `{"blob": <digest>, "lost": <why>}` replaces content that cannot be read, so
that a damaged session can still be exported. Contents that the session dropped are missing, as its log says. The same
session always gives the same bytes.

An import refuses lines that no export writes. It reads the file twice: once to check all lines, which may arrive
slowly while the store's transaction would block other writers, and once to write them. Must not know files or stores.
Called by `commands`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, NoReturn, cast

from msgspec.structs import replace

from ...core.errors import InvalidEventError, InvalidRequestError, StoreError
from ...core.execution import KeptGroup
from ...core.ids import BlobDigest, EventId, Seq, SessionId
from ...core.pictures import HAS_SECRET
from ...core.plain_data import DEEPEST, clean
from ...core.text import cut_line, plural
from ...log.events import Event
from ...log.events.codec import UndecodableEventError, decode, encode
from ...log.events.conversation import ToolCall, ToolResult, UserMessage
from ...log.events.execution import (
    EffectAnswered,
    ExecutionFinished,
    FileTouched,
    FileWritten,
    ValuesDropped,
    ValuesKept,
)
from ...log.events.going_back import FileLeft, FileToRestore, RewindBegun, Rewound
from ...log.events.nodes import AdoptedContent, ContentsAdopted, RevisionAdopted
from ...log.events.session import OthersWrote
from ...log.redaction import NO_SECRETS, Redactor, redact_event, withheld
from ...log.store.schema import MAX_BLOB, digest_of, names_in
from ...log.store.writable import check_row, encoded_items
from ...log.store_protocol import SessionRow, Store
from ...log.user_message import pictures_in, with_pictures

FORMAT: Final = "rewindow-session"
VERSION: Final = 1
_MISSING: Final = "missing"
_PAGE: Final = 1000
"""The most events in memory at a time."""


def _ignore(_sentence: str) -> None:
    """Ignore a remark."""


def export_lines(
    store: Store, session_id: SessionId, redactor: Redactor = NO_SECRETS, remark: Callable[[str], None] = _ignore
) -> Iterator[bytes]:
    """Yield the lines of what is committed at the first call, without secrets.

    Args:
        remark: called after the last line with a remark on lost contents, and one on dropped contents.

    Raises:
        SessionNotFoundError: the session does not exist, or is deleted meanwhile.
        StoreError: an event cannot be read.
    """
    row = store.row(session_id)
    yield _header(row if row.title is None else replace(row, title=redactor.redact(row.title)))
    contents = _Contents(store, session_id)
    items = (item for event in _events(store, row) for item in (*contents.before(event), event))
    for item in redact_items(redactor, items):
        yield from contents.lost_lines()
        yield _blob(item) if isinstance(item, bytes) else encode(item) + b"\n"
    for sentence in contents.sentences():
        remark(sentence)


def _header(row: SessionRow) -> bytes:
    # Not msgspec: a directory may contain bytes that are not UTF-8, which only the standard library can escape.
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "session_id": row.session_id,
        "cwd": row.cwd,
        "directories": row.directories,
        "title": row.title,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "events": row.events,
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _events(store: Store, row: SessionRow) -> Iterator[Event]:
    # Up to the count in the row, because another process may add events.
    expected = 0
    while expected < row.events:
        page = store.load(row.session_id, expected, min(_PAGE, row.events - expected))
        for event in page:
            if event.seq != expected:
                raise _missing(row.session_id, expected)
            yield event
            expected += 1
        if not page:
            store.row(row.session_id)  # raises SessionNotFoundError if it was deleted meanwhile
            raise _missing(row.session_id, expected)


def _missing(session_id: SessionId, expected: int) -> StoreError:
    return StoreError(f"event {expected} of session {session_id} is missing; restore the store from a backup")


class _Contents:
    """The contents of one session, each before the first event that names it."""

    def __init__(self, store: Store, session_id: SessionId) -> None:
        self._store = store
        self._session_id = session_id
        self._waiting = set(store.contents(session_id))
        self._seen: set[BlobDigest] = set()
        self._lost: list[tuple[BlobDigest, str]] = []
        self._lost_count = 0
        self._dropped = 0

    def before(self, event: Event) -> Iterator[bytes]:
        """Yield the readable contents that this event is the first to name."""
        for name in names_in(encode(event).decode()) if self._waiting else ():
            if name in self._waiting:
                self._waiting.discard(name)
                self._seen.add(name)
                yield from self._read(name)
        match event:
            case EffectAnswered(result=result) if result is not None and result not in self._seen:
                self._seen.add(result)  # an import refuses an answer that the file does not contain
                self._lost.append((result, _MISSING))
            case ValuesDropped(copies=copies):
                self._dropped += copies
            case _:
                pass

    def _read(self, name: BlobDigest) -> Iterator[bytes]:
        try:
            yield self._store.blob_get(name)
        except KeyError:
            self._lost.append((name, _MISSING))
        except StoreError as error:
            if type(error) is not StoreError:  # a subclass means that the whole store cannot be read
                raise
            self._lost.append((name, "damaged"))

    def lost_lines(self) -> Iterator[bytes]:
        """Yield a line for each content found lost since the last call."""
        while self._lost:
            digest, why = self._lost.pop(0)
            self._lost_count += 1
            yield b'{"blob":"%s","lost":"%s"}\n' % (digest.encode(), why.encode())

    def sentences(self) -> Iterator[str]:
        """Yield remarks on what the export lacks."""
        if self._lost_count:
            lost = f"{self._lost_count:,} {plural(self._lost_count, 'content')} of session {self._session_id}"
            yield f"{lost} cannot be read; the export names each; restore the store from a backup to export everything"
        if self._dropped:
            kept = f"{self._dropped:,} kept {plural(self._dropped, 'value')}"
            yield f"{kept} of session {self._session_id} had been dropped to stay within past_bytes"


def _blob(data: bytes) -> bytes:
    return b'{"blob":"%s","data":"%s"}\n' % (digest_of(data).encode(), b64encode(data))


MAX_LINE: Final = MAX_BLOB // 3 * 4 + 1000
"""Bytes of the longest possible line: the largest blob in base64."""
_LARGEST_TIME: Final = 1e15
"""Seconds. NaN and infinity are not below it. The store limits times to what a calendar has."""
_SHOWN_CHARS: Final = 80
"""The most characters of a foreign text in a message."""
_BLOB_START: Final = b'{"blob":'
_TYPES: Final = (
    ("session_id", str),
    ("cwd", str),
    ("directories", list),
    ("title", (str, type(None))),
    ("created_at", (int, float)),
    ("updated_at", (int, float)),
    ("events", int),
)


def import_lines(
    store: Store,
    source: IO[bytes],
    name: str,
    new_id: SessionId | None = None,
    redactor: Redactor = NO_SECRETS,
    remark: Callable[[str], None] = _ignore,
) -> SessionRow:
    """Add the session to the store without secrets: all of it or nothing.

    Args:
        source: read to its end; copied to a temporary file if it cannot be read twice.
        name: its name in messages.
        new_id: replaces the session's own id.
        remark: called with a remark on contents that the export lacks.

    Raises:
        InvalidRequestError: it is no export, damaged, or ends too early (with the line), or the id is taken.
        StoreError: the store cannot take it.
        OSError: it cannot be read, or there is no room for the temporary file.
    """
    with rereadable(source) as lines:
        row = _Reader(lines, name).check(new_id)
        if any(known.session_id == row.session_id for known in store.rows()):
            raise InvalidRequestError(f"session {row.session_id} already exists; choose another id with --as")
        lines.seek(0)
        reader = _Reader(lines, name)
        reader.header()
        title = row.title if row.title is None else redactor.redact(row.title)
        store.add(replace(row, title=title), redact_items(redactor, reader.items()))
    if reader.lost:
        lost = f"{reader.lost:,} {plural(reader.lost, 'content')} of session {row.session_id}"
        remark(
            f"{lost} cannot be imported, because the export does not contain them; a rebuild names each missing value"
        )
    return store.row(row.session_id)


def _abandoned(begun: RewindBegun, expected: int) -> Rewound:
    """End a rewind that was unfinished when the session was exported.

    To continue it would write files as the import says, and imports are untrusted.
    """
    reason = "the session was imported before the file was restored"
    left = tuple(FileLeft(path=file.path, reason=reason) for file in begun.files)
    return Rewound(
        seq=Seq(expected),
        event_id=EventId(f"e{expected}"),
        at=begun.at,
        branch_id=begun.branch_id,
        statement=begun.statement,
        left=(*begun.left, *left),
    )


def _untrusted(last: Event, expected: int) -> OthersWrote:
    """Mark everything in the file as untrusted.

    That includes statements, recorded decisions of a user, and contents of files.
    """
    return OthersWrote(
        seq=Seq(expected), event_id=EventId(f"e{expected}"), at=last.at, branch_id=last.branch_id, by="import"
    )


class _Reader:
    """One pass over the lines; `lost` counts contents that the export lacks."""

    def __init__(self, lines: IO[bytes], name: str) -> None:
        self._lines = lines
        self._name = name
        self._number = 0
        self._events = 0
        self.lost = 0

    def check(self, new_id: SessionId | None) -> SessionRow:
        """Read everything, and return the row to store."""
        row = self.header()
        try:
            row = replace(row, session_id=new_id or row.session_id)
            check_row(row)
            for _ in encoded_items(row, self.items()):
                pass
        except InvalidEventError as error:
            self._refuse(str(error))
        return row

    def header(self) -> SessionRow:
        """Read the first line."""
        try:
            fields: Any = json.loads(self._line() or b"")
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or cast("dict[str, object]", fields).get("format") != FORMAT:
            self._refuse("this is not a session exported by `rewindow export`")
        header = cast("dict[str, Any]", fields)
        if header.get("version") != VERSION:
            found = cut_line(repr(header.get("version")), _SHOWN_CHARS)
            self._refuse(f"version {found} of the format is unknown; upgrade Rewindow")
        for field, expected in _TYPES:
            if field not in header or not isinstance(header[field], expected) or isinstance(header[field], bool):
                self._refuse(f"the header's {field} is missing or of the wrong kind")
        if not all(isinstance(path, str) and path.startswith("/") for path in (header["cwd"], *header["directories"])):
            self._refuse("the header's directories are not all absolute paths")
        if not all(abs(header[field]) < _LARGEST_TIME for field in ("created_at", "updated_at")):
            self._refuse("the header's times are not numbers of seconds")
        self._events = header["events"]
        return SessionRow(
            session_id=SessionId(header["session_id"]),
            cwd=header["cwd"],
            directories=tuple(header["directories"]),
            title=header["title"],
            created_at=float(header["created_at"]),
            updated_at=float(header["updated_at"]),
        )

    def items(self) -> Iterator[Event | bytes]:
        """Yield contents and events, as `Store.add` takes them."""
        seen: set[BlobDigest] = set()
        waiting: set[BlobDigest] = set()
        begun: RewindBegun | None = None
        last: Event | None = None
        expected = 0
        while line := self._line():
            if line.startswith(_BLOB_START):
                digest, data = self._blob(line)
                if digest in seen:
                    self._refuse(f"content {digest} appears twice")
                seen.add(digest)
                waiting.add(digest)
                if data is None:
                    self.lost += 1
                else:
                    yield data
                continue
            event = self._event(line, expected, seen)
            waiting.difference_update(names_in(self._text(line)))
            if waiting:
                self._refuse(f"the event does not use the content before it, {min(waiting)}")
            expected += 1
            begun = event if isinstance(event, RewindBegun) else None if isinstance(event, Rewound) else begun
            last = event
            yield event
        if waiting or expected != self._events:
            self._refuse(f"the file ends after {expected} of {self._events} events; export the session again")
        if begun is not None:
            last = _abandoned(begun, expected)
            yield last
            expected += 1
        if last is not None and not (isinstance(last, OthersWrote) and last.by == "import"):
            yield _untrusted(last, expected)

    def _event(self, line: bytes, expected: int, seen: set[BlobDigest]) -> Event:
        try:
            event = decode(line)
        except UndecodableEventError as error:
            self._refuse(f"this is not an event: {error}")
        if event.seq != expected:
            self._refuse(f"expected event {expected}, not {event.seq}")
        if isinstance(event, ToolCall):
            self._check_arguments(event)
        if isinstance(event, EffectAnswered) and event.result is not None and event.result not in seen:
            needed = cut_line(event.result, _SHOWN_CHARS)
            self._refuse(f"the event needs content {needed}, which must come before it")
        return event

    def _text(self, line: bytes) -> str:
        # The codec skips unknown fields without decoding their texts.
        try:
            return line.decode()
        except UnicodeDecodeError:
            self._refuse("this is not valid UTF-8")

    def _check_arguments(self, call: ToolCall) -> None:
        # The only field that may contain any JSON. Code that shows it is recursive, so its depth is limited.
        try:
            clean(call.arguments)
        except TypeError:
            self._refuse(f"the arguments are nested more than {DEEPEST} levels")

    def _blob(self, line: bytes) -> tuple[BlobDigest, bytes | None]:
        """Return content and its digest; without the content if it is lost."""
        try:
            fields: Any = json.loads(line)
            if "lost" in fields and names_in(fields["blob"]) == (fields["blob"],):
                return BlobDigest(fields["blob"]), None
            data = b64decode(fields["data"].encode(), validate=True)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            self._refuse("this is not valid base64")
        digest = digest_of(data)
        if fields["blob"] != digest:
            self._refuse(f"content {cut_line(str(fields['blob']), _SHOWN_CHARS)} is damaged: its digest is {digest}")
        return digest, data

    def _line(self) -> bytes:
        line = self._lines.readline(MAX_LINE)
        self._number += 1
        if line and not line.endswith(b"\n"):
            self._refuse("the line is too long" if len(line) == MAX_LINE else "the line ends too early")
        return line

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidRequestError(f"{self._name}, line {self._number}: {reason}")


@contextmanager
def rereadable(source: IO[bytes]) -> Generator[IO[bytes]]:
    """Yield a stream that can be read repeatedly: `source` or a copy.

    The copy is a temporary file with all of a source that cannot seek, such as a pipe.

    Raises:
        OSError: the source cannot be read, or there is no room for the copy.
    """
    if source.seekable():
        yield source
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(source, copy)
        copy.seek(0)
        yield copy


# Secrets. As in a running session, texts lose the secret. Content with a secret is left out, and the event that needs
# it has its digest instead.


def redact_items(redactor: Redactor, items: Iterable[Event | bytes]) -> Iterator[Event | bytes]:
    """Redact contents and events, in the order that `Store.add` takes.

    Contents come before the events that name them. Without secrets nothing changes.
    """
    left_out: dict[BlobDigest, str] = {}
    for item in items:
        if not isinstance(item, bytes):
            yield redact_event(redactor, _without(item, left_out))
        elif redactor and redactor.storable(item) is None:
            left_out[digest_of(item)] = withheld(item)
        else:
            yield item


def _without(event: Event, left_out: dict[BlobDigest, str]) -> Event:
    match event:
        case EffectAnswered(result=result) if result is not None and result in left_out:
            return replace(event, result=None, withheld=left_out[result])
        case FileTouched(before=before) if before is not None and before in left_out:
            return replace(event, before=None, withheld=left_out[before])
        case FileWritten(before=before, after=after) if lost := [each for each in (before, after) if each in left_out]:
            kept = {name: each for name, each in (("before", before), ("after", after)) if each not in left_out}
            marks = " ".join(left_out[each] for each in lost if each is not None)
            return replace(event, **{"before": None, "after": None, **kept}, withheld=marks)
        case RewindBegun(files=files):
            return replace(event, files=tuple(_file_without(each, left_out) for each in files))
        case Rewound(restored=files):
            return replace(event, restored=tuple(_file_without(each, left_out) for each in files))
        case RevisionAdopted(content=content) if content is not None and content in left_out:
            return replace(event, content=None, withheld=left_out[content])
        case ContentsAdopted(files=files) if any(each.content in left_out for each in files):
            return replace(event, files=tuple(_content_without(each, left_out) for each in files))
        case ValuesKept(groups=groups) if any(group.content in left_out for group in groups):
            return replace(event, groups=tuple(_group_without(group, left_out) for group in groups))
        case UserMessage() | ToolResult() | ExecutionFinished():
            return _without_pictures(event, left_out)
        case _:
            return event


def _without_pictures(
    event: UserMessage | ToolResult | ExecutionFinished, left_out: dict[BlobDigest, str]
) -> UserMessage | ToolResult | ExecutionFinished:
    pictures = pictures_in(event) if isinstance(event, UserMessage) else event.pictures
    if not any(picture.content in left_out for picture in pictures):
        return event
    kept = tuple(
        replace(each, content=None, problem=HAS_SECRET) if each.content in left_out else each for each in pictures
    )
    if isinstance(event, UserMessage):
        return replace(event, attachments=with_pictures(event.attachments, kept))
    return replace(event, pictures=kept)


def _content_without(seen: AdoptedContent, left_out: dict[BlobDigest, str]) -> AdoptedContent:
    if seen.content is None or seen.content not in left_out:
        return seen
    return replace(seen, content=None, withheld=left_out[seen.content])


_CONTENTS: Final = ("present", "wanted")


def _file_without(file: FileToRestore, left_out: dict[BlobDigest, str]) -> FileToRestore:
    """Remove secret contents. Their digests stay, and show that they existed."""
    kept = {name: None for name in _CONTENTS if getattr(file, name) in left_out}
    own = file.own and replace(file.own, **{name: None for name in _CONTENTS if getattr(file.own, name) in left_out})
    return replace(file, **kept, own=own)


def _group_without(group: KeptGroup, left_out: dict[BlobDigest, str]) -> KeptGroup:
    if group.content is None or group.content not in left_out:
        return group
    return replace(group, content=None, withheld=left_out[group.content])
