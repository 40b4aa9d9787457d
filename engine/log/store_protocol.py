"""Where the events and contents of sessions are kept. Implemented by `store`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from ..core.ids import BlobDigest, Seq, SessionId
from ..core.text import cut_line
from .events import Event
from .redaction import Storable

_ID_CHARS: Final = 80


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session as a listing shows it. Times are seconds since the epoch.

    `size` is in bytes: its events as JSON, and the contents they name as the store packs them. `contents_size` of them
    are contents, and `droppable_size` of these the session may drop. `damage` names what of the row the store could not
    read; what stands in its place is empty, or as near to it as can be.
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
    damage: tuple[str, ...] = ()

    @property
    def complaint(self) -> str | None:
        """One sentence on `damage` that says what to do; None where there is none."""
        if not self.damage:
            return None
        named, lost = cut_line(self.session_id, _ID_CHARS), " and ".join(self.damage)
        return (
            f"session {named} is damaged, its {lost} cannot be read:"
            " restore the store from a copy, or keep what is left with `rewindow export` and delete the session"
        )


Place = tuple[float, str]
"""Where a session stands in a listing: its `updated_at` and its id. The greatest comes first."""


class Droppable(Struct, frozen=True, kw_only=True):
    """Content that a session may drop: the position of the last event that names it, and the bytes it takes, packed."""

    seq: Seq
    size: int


class Collected(Struct, frozen=True, kw_only=True):
    """What `Store.collect` did: which sessions it deleted, which it left because they are in use, bytes given back."""

    deleted: tuple[SessionId, ...] = ()
    in_use: tuple[SessionId, ...] = ()
    freed: int = 0


CommitListener = Callable[[Seq, Exception | None], None]
"""Called on the writer's thread with the highest committed seq, and with the error that made the session read-only.

A StoreBusyError says that what was submitted has to wait; a call without an error follows when it was committed."""


class Store(Protocol):
    """Durable sessions. One writer thread groups whatever was submitted meanwhile into one commit."""

    def create(self, row: SessionRow) -> None:
        """Adds a session and acquires it for writing; durable when the first submitted event is."""
        ...

    def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
        """Makes this process the session's only writer. Raises SessionNotFoundError, SessionInUseError."""
        ...

    def release(self, session_id: SessionId) -> None:
        """Waits until what was submitted is committed or has failed, then lets other processes write."""
        ...

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        """Queues a stamped event for the next commit; returns at once.

        One that `waits` begins none: that is up to the next change that does not, or to `flush`. The same commit drops
        what the event says is to be dropped: `Event.dropped_before`.
        """
        ...

    def flush(self) -> None:
        """Begins the commit of what was submitted and waits, of all sessions; returns at once."""
        ...

    def retitle(self, session_id: SessionId, title: str | None) -> None:
        """Queues a new title for the next commit, of a session that this process writes; `updated_at` stays."""
        ...

    def move(self, session_id: SessionId, cwd: str, directories: tuple[str, ...]) -> None:
        """Queues other directories for the next commit, of a session that this process writes; `updated_at` stays."""
        ...

    def load(self, session_id: SessionId, since: int = 0, limit: int | None = None) -> Sequence[Event]:
        """The committed events from position `since` on, in order, at most `limit`.

        Also of a session that another process writes.
        """
        ...

    def row(self, session_id: SessionId) -> SessionRow:
        """One session. Raises SessionNotFoundError."""
        ...

    def rows(
        self,
        *,
        cwds: Collection[str] | None = None,
        titled: bool = False,
        after: Place | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """The sessions, the most recently updated first: those in one of `cwds`, as these were written, and after that
        place, at most `limit`.

        `titled` leaves out those without a title. Costs what the page costs, and a pass over the places of all.
        """
        ...

    def directories(self) -> Collection[str]:
        """Each `cwd` that a session has, as it was written."""
        ...

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        """The digests that the session's committed events name, of content that was put before them and not dropped."""
        ...

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        """What the session could drop now, as it is committed, the oldest first."""
        ...

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        """A whole session at once, with its times as in `row`: its events in order, contents ahead of who names them.

        All or nothing, whatever `items` raises; durable when it returns, and not acquired. Raises InvalidRequestError
        where the id is taken, InvalidEventError for a gap.
        """
        ...

    def delete(self, session_id: SessionId) -> None:
        """Removes a session with its events, and the contents that no other session names; durable when it returns.

        Raises SessionNotFoundError, SessionInUseError; also where this store holds it: release it first.
        """
        ...

    def collect(self, older_than: float) -> Collected:
        """Deletes the sessions last updated before `older_than` (seconds since the epoch) that nobody has acquired.

        Gives the space of all that was deleted so far back to the system.
        """
        ...

    def blob_put(self, data: Storable) -> BlobDigest:
        """Keeps content for the events that name its digest: the commit of such an event takes it along.

        Returns the digest at once. What no event has named by then is forgotten by `close`.
        """
        ...

    def blob_get(self, digest: BlobDigest) -> bytes:
        """The content. Raises KeyError where there is none: it was never put, or was dropped, or is lost.

        Raises StoreError where it is damaged.
        """
        ...

    def close(self) -> None:
        """Commits what was submitted and frees everything; nothing else may be called afterwards."""
        ...
