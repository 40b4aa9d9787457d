"""Reads a session back from the JSON Lines of `jsonl_export`, and refuses lines that an export does not write.

Must not know which store it fills. The lines are read twice: once to check all of them, because they may come slowly
and the store's transaction keeps other writers waiting, and once to write. Called by `rewindow import`.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import IO, Any, Final, NoReturn, cast

from msgspec.structs import replace

from ...core.errors import InvalidEventError, InvalidRequestError
from ...core.ids import BlobDigest, EventId, Seq, SessionId
from ...core.plain_data import DEEPEST, clean
from ...core.text import cut_line, plural
from ...log.events import Event
from ...log.events.codec import UndecodableEventError, decode
from ...log.events.conversation import ToolCall
from ...log.events.execution import EffectAnswered
from ...log.events.going_back import FileLeft, RewindBegun, Rewound
from ...log.events.session import OthersWrote
from ...log.redaction import NO_SECRETS, Redactor
from ...log.store.schema import MAX_BLOB, digest_of, names_in
from ...log.store.writable import check_row, encoded_items
from ...log.store_protocol import SessionRow, Store
from .jsonl_export import FORMAT, VERSION
from .spool import rereadable
from .withholding import redact_items

MAX_LINE: Final = MAX_BLOB // 3 * 4 + 1000
"""Bytes of the longest line there can be: the largest blob in base64."""
_LARGEST_TIME: Final = 1e15
"""Seconds; NaN and infinity are not below it. What no calendar has is bounded by the store."""
_SHOWN_CHARS: Final = 80
"""What a message shows at most of what it is about."""
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


def _unsaid(_sentence: str) -> None:
    """For a caller to whom it does not matter what the file does not have."""


def import_lines(
    store: Store,
    source: IO[bytes],
    name: str,
    new_id: SessionId | None = None,
    redactor: Redactor = NO_SECRETS,
    say: Callable[[str], None] = _unsaid,
) -> SessionRow:
    """Adds the session to the store, under `new_id` where one is given and without secrets; all of it or nothing.

    Args:
        source: read to its end; kept in a temporary file where it cannot be read twice.
        name: what messages call it.
        say: is given a sentence on contents that were lost where the session was exported.

    Raises:
        InvalidRequestError: it is no export, is damaged, or ends too early (with the line's number); the id is taken.
        StoreError: the store cannot take it.
        OSError: it cannot be read, or there is no room for the temporary file.
    """
    with rereadable(source) as lines:
        row = _Reader(lines, name).check(new_id)
        if any(known.session_id == row.session_id for known in store.rows()):
            raise InvalidRequestError(f"there is a session {row.session_id} already; import this one under another id")
        lines.seek(0)
        reader = _Reader(lines, name)
        reader.header()
        title = row.title if row.title is None else redactor.redact(row.title)
        store.add(replace(row, title=title), redact_items(redactor, reader.items()))
    if reader.lost:
        lost = f"{reader.lost:,} {plural(reader.lost, 'content')} of session {row.session_id}"
        say(f"{lost} cannot be had: lost where it was exported; a rebuild names what it misses")
    return store.row(row.session_id)


def _given_up(begun: RewindBegun, due: int) -> Rewound:
    """Ends a rewind that was under way where the session comes from: to open one never writes what a file says."""
    reason = "the session was imported before that was done"
    left = tuple(FileLeft(path=file.path, reason=reason) for file in begun.files)
    return Rewound(
        seq=Seq(due),
        event_id=EventId(f"e{due}"),
        at=begun.at,
        branch_id=begun.branch_id,
        statement=begun.statement,
        left=(*begun.left, *left),
    )


def _of_others(last: Event, due: int) -> OthersWrote:
    """Says that nobody here vouches for anything in the file: not for statements, for decisions that it says a user has
    made, nor for what it says that files held."""
    return OthersWrote(seq=Seq(due), event_id=EventId(f"e{due}"), at=last.at, branch_id=last.branch_id, by="import")


class _Reader:
    """One pass over the lines; `lost` counts the contents that were lost where they come from."""

    def __init__(self, lines: IO[bytes], name: str) -> None:
        self._lines = lines
        self._name = name
        self._number = 0
        self._events = 0
        self.lost = 0

    def check(self, new_id: SessionId | None) -> SessionRow:
        """Reads everything; the row as it is to be stored."""
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
        """The first line."""
        try:
            fields: Any = json.loads(self._line() or b"")
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or cast("dict[str, object]", fields).get("format") != FORMAT:
            self._refuse("this is not a session exported by `rewindow export`")
        header = cast("dict[str, Any]", fields)
        if header.get("version") != VERSION:
            found = cut_line(repr(header.get("version")), _SHOWN_CHARS)
            self._refuse(f"version {found} of the format is not known; upgrade rewindow")
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
        """What follows the header: contents and events, as `Store.add` takes them."""
        had: set[BlobDigest] = set()
        waiting: set[BlobDigest] = set()
        begun: RewindBegun | None = None
        last: Event | None = None
        due = 0
        while line := self._line():
            if line.startswith(_BLOB_START):
                digest, data = self._blob(line)
                if digest in had:
                    self._refuse(f"content {digest} is there twice")
                had.add(digest)
                waiting.add(digest)
                if data is None:
                    self.lost += 1
                else:
                    yield data
                continue
            event = self._event(line, due, had)
            waiting.difference_update(names_in(line.decode()))
            if waiting:
                self._refuse(f"the event does not name the content before it, {min(waiting)}")
            due += 1
            begun = event if isinstance(event, RewindBegun) else None if isinstance(event, Rewound) else begun
            last = event
            yield event
        if waiting or due != self._events:
            self._refuse(f"it ends after {due} of {self._events} events; export the session again")
        if begun is not None:
            last = _given_up(begun, due)
            yield last
            due += 1
        if last is not None and not (isinstance(last, OthersWrote) and last.by == "import"):
            yield _of_others(last, due)

    def _event(self, line: bytes, due: int, had: set[BlobDigest]) -> Event:
        try:
            event = decode(line)
        except UndecodableEventError as error:
            self._refuse(f"this is no event: {error}")
        if event.seq != due:
            self._refuse(f"event {event.seq} where {due} was due")
        if isinstance(event, ToolCall):
            self._check_arguments(event)
        if isinstance(event, EffectAnswered) and event.result is not None and event.result not in had:
            needed = cut_line(event.result, _SHOWN_CHARS)
            self._refuse(f"the event needs content {needed}, which does not come before it")
        return event

    def _check_arguments(self, call: ToolCall) -> None:
        # The only field of an event that may hold any JSON, and what shows it goes down by recursion.
        try:
            clean(call.arguments)
        except TypeError:
            self._refuse(f"the arguments are nested more than {DEEPEST} levels")

    def _blob(self, line: bytes) -> tuple[BlobDigest, bytes | None]:
        """Content and its digest, without the content where it is lost."""
        try:
            fields: Any = json.loads(line)
            if "lost" in fields and names_in(fields["blob"]) == (fields["blob"],):
                return BlobDigest(fields["blob"]), None
            data = b64decode(fields["data"].encode(), validate=True)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            self._refuse("this is no content in base64")
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
