"""One session as the readers of its page see it: its document, kept up to date, and what has not been stored yet.

Whatever process has the session, its events are read from the store, so a page shows committed ones alone. If the
session is open in this process, its subscription says when there are new ones, and passes on pieces of output. If not,
the store is asked every `POLL_SECONDS`, because another process does not announce its commits.

**Readers.** Each reader has a position and gets the changes since. So it never misses one, the server keeps nothing for
it, and a slow reader gets fewer, larger changes. Pieces of output are for readers that keep up: at most `_MOST_PIECES`
wait for a reader, then they are dropped, and a message says so.

Must not know HTTP, nor how a session is opened. Called by `app`; told by `actions`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from engine import (
    FilesPutBack,
    Item,
    ModelDelayed,
    ModelRetried,
    OutputStreamed,
    Owner,
    ReasoningStreamed,
    Session,
    Signal,
    StatementRerun,
    Store,
    TextStreamed,
)
from engine.core.errors import EngineError, SessionInUseError, SessionNotFoundError, StoreError
from engine.core.ids import SessionId
from engine.log.events import Event
from engine.log.events.session import ModelCallEnded
from engine.log.redaction import Redactor, redact_event
from engine.session.session_json import Comparison, Content, Contents, SessionDocument, encoded
from session_page.questions import Questions
from session_page.whole import WholeDocument

POLL_SECONDS: Final = 0.25
ALIVE_SECONDS: Final = 10.0
"""How often a reader gets a message, even if nothing happens."""
_PACE: Final = 0.05
_AT_ONCE: Final = 500
"""Events that are read in one step, so that others are served in between."""
_MOST_PIECES: Final = 1_000
DELETED: Final = "This session was deleted."
STOPPED: Final = "The server of this page has ended. Start it again with `rewindow page`."
LEFT: Final = "No page showed this session for a while. Load it again."


class State(Struct, frozen=True, kw_only=True):
    """What can be done with a session now: see `docs/session-page.md`."""

    acts: bool
    why_not: str = ""
    is_here: bool = False
    is_shared: bool = False
    is_busy: bool = False
    progress: str = ""
    questions: tuple[Any, ...] = ()


def owners_elsewhere(store: Store) -> Mapping[SessionId, Owner]:
    """Return the other processes that write sessions, on any machine; none if that cannot be read."""
    own = Owner(os.getpid())
    try:
        return {session_id: owner for session_id, owner in store.owners().items() if owner != own}
    except (OSError, StoreError):
        return {}


class _Reader:
    """What waits for one reader beside the changes."""

    def __init__(self) -> None:
        self.pieces: deque[dict[str, object]] = deque()
        self.is_behind = False
        self.news = anyio.Event()

    def put(self, piece: dict[str, object]) -> None:
        if len(self.pieces) >= _MOST_PIECES:
            self.pieces.clear()
            self.is_behind = True
        self.pieces.append(piece)
        self.news.set()


class Feed:
    """The document of one session and its readers.

    Args:
        find: returns the session if it is open in this process.
    """

    def __init__(
        self,
        session_id: SessionId,
        store: Store,
        hidden: Redactor,
        find: Callable[[], Session | None],
    ) -> None:
        self.session_id = session_id
        self.questions = Questions(hidden, self._tell)
        self._store = store
        self._hidden = hidden
        self._find = find
        self._contents = Contents(store.blob_get, hidden)
        self._document = SessionDocument(session_id, self._contents.text)
        self._whole = WholeDocument(self._document)
        self._lock = anyio.Lock()
        self._readers: set[_Reader] = set()
        self._opened = anyio.Event()
        self._end = ""
        self._progress = ""
        self._held_by: Owner | None = None
        self._asked: Session | None = None
        self._is_own = False
        self._stop_asking: Callable[[], None] = lambda: None
        self._closed: Session | None = None
        """A session that has been closed, and may not be forgotten yet."""

    @property
    def is_watched(self) -> bool:
        """Whether it has a reader."""
        return bool(self._readers)

    @property
    def end(self) -> str:
        """Why there will be no more changes; empty while there may be."""
        return self._end

    # --- reading the store --------------------------------------------------------------------------------------------

    async def read(self) -> bool:
        """Take what was committed since the last time; return whether there was anything.

        Raises:
            EngineError: the session was deleted, or cannot be read.
        """
        grew = False
        while True:
            async with self._lock:
                count = await anyio.to_thread.run_sync(self._read_some)
            grew = grew or count > 0
            if count < _AT_ONCE:
                return grew

    def _read_some(self) -> int:
        events = self._store.load(self.session_id, self._document.position, _AT_ONCE)
        for event in events:
            self._document.apply(redact_event(self._hidden, event))
        return len(events)

    async def follow(self) -> None:
        """Keep the document up to date, until the session is gone."""
        while not self._end:
            try:
                session = self._find()
                if session is not None and session is not self._closed:
                    await self._follow_open(session)
                else:
                    await self._poll()
            except EngineError as error:
                self._end = DELETED if isinstance(error, SessionNotFoundError) else self._hidden.redact(str(error))
            self._tell()

    async def _poll(self) -> None:
        held_by = await anyio.to_thread.run_sync(self._owner)
        if await self.read() or held_by != self._held_by:
            self._held_by = held_by
            self._tell()
        self._opened = anyio.Event()
        with anyio.move_on_after(POLL_SECONDS):
            await self._opened.wait()
        # A store lists no events of a session that was deleted, so ask for the session itself.
        await anyio.to_thread.run_sync(self._store.row, self.session_id)

    def _owner(self) -> Owner | None:
        return owners_elsewhere(self._store).get(self.session_id)

    async def _follow_open(self, session: Session) -> None:
        self.ask(session)
        subscription = session.subscribe()
        try:
            await self.read()
            self._tell()
            async for batch in subscription.batches(_PACE):
                if any(isinstance(item, Event) for item in batch):
                    await self.read()
                self._take(batch)
                self._tell()
        finally:
            self._asked, stop = None, self._stop_asking
            stop()
        self._progress, self._closed = "", session

    def ask(self, session: Session, *, is_own: bool = False) -> None:
        """Show the questions of this session, which is open in this process, to the readers too.

        It is their own if an action has opened it, so that nobody else is asked.
        """
        if self._asked is not session:
            self._asked, self._stop_asking = session, session.ask_also(self.questions)
            self._is_own = is_own
            self._opened.set()

    def leave(self) -> None:
        """End it, because nobody looks at it."""
        self._end = LEFT
        self._opened.set()

    def stop(self) -> None:
        """End all readers, because the server ends."""
        self._end = STOPPED
        self._tell()

    def _take(self, batch: Iterable[Item]) -> None:
        for item in batch:
            if isinstance(item, ModelCallEnded):
                self._put({"type": "retry", "text": ""})
            elif not isinstance(item, Event) and (piece := _piece(item)) is not None:
                self._put(piece)

    def _put(self, piece: dict[str, object]) -> None:
        for reader in self._readers:
            reader.put(piece)

    def report(self, progress: str) -> None:
        """Show how far an action has come; empty for nothing."""
        self._progress = progress
        self._tell()

    def _tell(self) -> None:
        for reader in self._readers:
            reader.news.set()

    # --- what readers get ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What can be done with the session now."""
        session = self._find()
        why_not = self._end
        if session is None and self._held_by is not None:
            why_not = why_not or str(
                SessionInUseError(self.session_id, self._held_by.pid, host=self._held_by.host or None)
            )
        elif session is not None and session.is_read_only:
            why_not = why_not or "This session can only be read: its store takes no changes."
        return State(
            acts=not why_not,
            why_not=self._hidden.redact(why_not),
            is_here=session is not None,
            is_shared=session is not None and not self._is_own,
            is_busy=session is not None and session.is_busy,
            progress=self._progress,
            questions=tuple(self.questions.shown),
        )

    async def whole(self) -> bytes:
        """Return the document without contents, with the state, as JSON."""
        async with self._lock:
            document = await anyio.to_thread.run_sync(self._whole.encode)
        return b'{"document":' + document + b',"state":' + msgspec.json.encode(self.state) + b"}"

    async def content(self, digest: str) -> Content | None:
        """Return a content that the document names, or None."""

        def find() -> Content | None:
            found = self._contents.of(self._document, digest)
            if found is None:  # no entry that names it was built yet
                self._document.document()
                found = self._contents.of(self._document, digest)
            return found

        async with self._lock:
            return await anyio.to_thread.run_sync(find)

    async def comparison(self, left: str, right: str) -> Comparison:
        """Compare two branches. Raises InvalidRequestError."""
        async with self._lock:
            return await anyio.to_thread.run_sync(self._document.comparison, left, right)

    async def search(self, text: str, most: int) -> Sequence[dict[str, object]]:
        """Return the entries that have a text, in any case, with what is around it; at most `most`."""
        async with self._lock:
            hits = await anyio.to_thread.run_sync(self._document.search, text, most)
        return [{"table": hit.place[0], "key": hit.place[1], "excerpt": hit.excerpt, "at": hit.at} for hit in hits]

    async def messages(self, after: int) -> AsyncGenerator[bytes, None]:
        """Yield the messages of the live stream, each a line of JSON, from position `after` on, until its end."""
        reader = _Reader()
        self._readers.add(reader)
        try:
            state: State | None = None
            position = after if after <= self._document.position else -1
            changes, position = await self._changes(position)
            yield changes
            while True:
                reader.news = anyio.Event()
                if self.state != state:
                    state = self.state
                    yield _line({"type": "state", "state": state})
                if reader.is_behind:
                    reader.is_behind = False
                    yield _line({"type": "skipped"})
                pieces, reader.pieces = reader.pieces, deque()
                if self._document.position > position:
                    changes, position = await self._changes(position)
                    yield changes
                for piece in pieces:
                    yield _line(piece)
                if self._end:
                    yield _line({"type": "end", "text": self._end, "again": False})
                    return
                with anyio.move_on_after(ALIVE_SECONDS) as waiting:
                    await reader.news.wait()
                if waiting.cancelled_caught:
                    yield _line({"type": "alive"})
        finally:
            self._readers.discard(reader)

    async def _changes(self, since: int) -> tuple[bytes, int]:
        async with self._lock:
            data = await anyio.to_thread.run_sync(lambda: encoded(self._document.changes(since)))
            position = self._document.position
        return b'{"type":"changes","position":%d,"changes":%s}\n' % (position, data), position


def _line(message: object) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def _piece(signal: Signal) -> dict[str, object] | None:
    match signal:
        case OutputStreamed(tool_call_id=call, stream=stream, text=text):
            return {"type": "output", "call": call, "stream": stream, "text": text}
        case TextStreamed(message_id=message, text=text):
            return {"type": "text", "message": message, "text": text, "is_reasoning": False}
        case ReasoningStreamed(message_id=message, text=text):
            return {"type": "text", "message": message, "text": text, "is_reasoning": True}
        case ModelRetried(attempt=attempt, attempts=attempts, seconds=seconds, reason=reason):
            return {"type": "retry", "text": f"{reason}; attempt {attempt} of {attempts} in {seconds:.0f} s"}
        case ModelDelayed(reason=reason):
            return {"type": "retry", "text": f"Waiting for {reason}"}
        case FilesPutBack() | StatementRerun() | _:
            return None
