"""The interface of a store, which keeps the events and contents of sessions durable, and the values it exchanges.

`log.store` has the implementations. Must not know how anything is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from ..core.ids import BlobDigest, Seq, SessionId
from ..core.text import cut_line
from .events import Event
from .redaction import Storable

_ID_CHARS: Final = 80


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session as a list shows it. Times are seconds since the epoch.

    Sizes are in bytes. `size` counts events as JSON and contents as the store packs them; `contents_size` is the part
    of contents, and `droppable_size` the part of these that the session may drop. `archived`: the user put it away.
    `damage` names the columns that the store could not read, whose fields are empty or approximate.
    """

    session_id: SessionId
    cwd: str
    directories: tuple[str, ...] = ()
    title: str | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    events: int = 0
    size: int = 0
    contents_size: int = 0
    droppable_size: int = 0
    archived: bool = False
    damage: tuple[str, ...] = ()

    @property
    def complaint(self) -> str | None:
        """A sentence on `damage` that says what to do; None without damage."""
        if not self.damage:
            return None
        named, lost = cut_line(self.session_id, _ID_CHARS), " and ".join(self.damage)
        return (
            f"session {named} is damaged: its {lost} cannot be read. Restore the store from a copy, "
            "or save the rest with `rewindow export` and delete the session"
        )


Place = tuple[float, str]
"""The sort key of a session in a list: its `updated_at` and its id. The greatest comes first."""


class Droppable(Struct, frozen=True, kw_only=True):
    """Content that a session may drop: the position of the last event that names it, and its packed size in bytes."""

    seq: Seq
    size: int


class Collected(Struct, frozen=True, kw_only=True):
    """The result of `Store.collect`: the sessions it deleted, those it skipped because they are in use, bytes freed."""

    deleted: tuple[SessionId, ...] = ()
    in_use: tuple[SessionId, ...] = ()
    freed: int = 0


class Owner(Struct, frozen=True):
    """The process that writes a session. `host` is "" for the machine that asks."""

    pid: int
    host: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.host else f"process {self.pid}"


CommitListener = Callable[[Seq, Exception | None], None]
"""Called on the writer's thread with the highest committed seq, and with the error that made the session read-only.

A StoreBusyError means that the submitted events have to wait. A call without an error follows once they are committed.
"""


class Store(Protocol):
    """Durable sessions. One writer thread commits together what was submitted in the meantime.

    Only `submit`, `flush`, `retitle`, `move` and `blob_put` return at once. An event loop calls others on a thread.
    """

    @property
    def is_remote(self) -> bool:
        """Whether a call that reads waits for a network."""
        ...

    def create(self, row: SessionRow) -> None:
        """Add a session and acquire it for writing. It is durable when its first submitted event is."""
        ...

    def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
        """Make this process the session's only writer. Raises SessionNotFoundError, SessionInUseError."""
        ...

    def release(self, session_id: SessionId) -> None:
        """Wait until all submitted events are committed or failed, then let other processes write."""
        ...

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        """Queue a stamped event for the next commit; return at once.

        One that `waits` starts no commit: the next change that does not wait starts it, or `flush`. The same commit
        drops the contents that the event's `dropped_before` names.
        """
        ...

    def flush(self) -> None:
        """Start the commit of waiting events, of all sessions; return at once."""
        ...

    def retitle(self, session_id: SessionId, title: str | None) -> None:
        """Queue a new title for the next commit, of a session that this process writes; `updated_at` stays."""
        ...

    def move(self, session_id: SessionId, cwd: str, directories: tuple[str, ...]) -> None:
        """Queue other directories for the next commit, of a session that this process writes; `updated_at` stays."""
        ...

    def archive(self, session_id: SessionId, archived: bool) -> None:
        """Put a session away in lists, or bring it back; durable when it returns. `updated_at` stays.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionInUseError: it is put away and a process writes it, this one included; release it first.
        """
        ...

    def load(self, session_id: SessionId, since: int = 0, limit: int | None = None) -> Sequence[Event]:
        """Return at most `limit` committed events from position `since` on, even if another process writes them."""
        ...

    def row(self, session_id: SessionId) -> SessionRow:
        """Return one session. Raises SessionNotFoundError."""
        ...

    def rows(
        self,
        *,
        cwds: Collection[str] | None = None,
        titled: bool = False,
        archived: bool | None = None,
        after: Place | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """Return a page of sessions, the most recently updated first.

        It costs the page and one pass over the sort keys of all sessions.

        Args:
            cwds: only sessions in one of these, spelled as when they were stored.
            titled: only sessions with a title.
            archived: only sessions that are archived, or only those that are not; None for both.
            after: only sessions after that place.
            limit: how many at most.
        """
        ...

    def owners(self) -> Mapping[SessionId, Owner]:
        """Return the process that writes each session in use. It may have released the session meanwhile."""
        ...

    def directories(self) -> Collection[str]:
        """Return each `cwd` that a session has, spelled as when it was stored."""
        ...

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        """Return the digests of the stored contents that the session's committed events name."""
        ...

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        """Return the contents that the session may drop now, the oldest first."""
        ...

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        """Add a whole session at once, with the times in `row`; all or nothing, even if `items` raises.

        `items` are the events in order, and contents before the events that name them. The session is durable when this
        returns, and not acquired.

        Raises:
            InvalidRequestError: the id is taken.
            InvalidEventError: the positions have a gap.
        """
        ...

    def delete(self, session_id: SessionId) -> None:
        """Delete a session with its events and the contents that no other session names; durable when it returns.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionInUseError: a process writes it, this one included; release it first.
        """
        ...

    def collect(self, older_than: float) -> Collected:
        """Delete the sessions last updated before `older_than` (seconds since the epoch) that are not in use.

        Give the space of everything deleted so far back to the system.
        """
        ...

    def blob_put(self, data: Storable) -> BlobDigest:
        """Keep content until the commit of an event that names its digest; return the digest at once.

        Content that no event has named by `close` is lost.
        """
        ...

    def blob_get(self, digest: BlobDigest) -> bytes:
        """Return the content.

        Raises:
            KeyError: it was never put, was dropped, or is lost.
            StoreError: it is damaged.
        """
        ...

    def close(self) -> None:
        """Commit what was submitted and free everything. Nothing else may be called afterwards."""
        ...
