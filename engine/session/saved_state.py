"""What is saved beside the log for rebuilds: values, checkpoints, and contents of files, within a size limit.

Each class below owns one of them. `live_environment` owns the first two, `statements` records contents through
`Revisions`. Must not know what a pickle or a checkpoint contains.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from ..core.errors import EngineError, EnvironmentUnavailableError, StoreError
from ..core.execution import KeptGroup
from ..core.ids import BlobDigest, ExecutionId, Seq, SessionId
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.execution import CheckpointDropped, CheckpointTaken, ValuesDropped, ValuesKept
from ..log.events.nodes import AdoptedContent, AsyncPayloadPrepared, ContentsAdopted, RevisionAdopted, seen_in
from ..log.past import CheckpointNews, Preserved, ValueGroup
from ..log.redaction import Redactor, withheld
from ..log.store_protocol import Droppable, Store
from ..runtime.environment import Environment
from .journal import Journal

CLOSE_SECONDS: Final = 2.0
"""How long the end of a session or its worker waits for pickling."""
_SOON: Final = 0.001
"""Seconds until values are recorded after a statement, unless the next statement comes first."""
_FIRST_LOOK: Final = 0.01
_LONGEST_LOOK: Final = 0.5
"""Seconds between two checks for pickled values: first and at most."""
_AT_ONCE: Final = 1 << 20
"""Bytes that are checked and saved without a thread."""
_WITHIN: Final = 256
"""Bytes of a pickle that is saved within its event. A blob and its references take more space and time."""
_MANY: Final = 32
"""Groups that take a thread even if they are small: the store needs a moment for each."""


class _Noted(NamedTuple):
    execution_id: ExecutionId
    large: bool


class ValueSaver:
    """Save values that a rebuild may not reproduce: what the environment pickles after each statement.

    Nothing waits for it. A statement is only noted when its record is on the log. Small values come without a request,
    and are taken while the record is on its way to the disk (`record`). `catch_up` does the rest before the namespace
    changes: when the reply is on its way and nothing waits, or when the next tick, projection or statement needs the
    environment. Large values are pickled beside the next statements. They are collected while the session is idle, and
    before each statement as far as they have arrived.

    The event on saved values is committed with the next event, or a moment later. A kill before that loses copies. All
    that was acknowledged about the statement is durable without them. A group that contains a secret is named, not
    stored. A lost worker takes its unrecorded values with it: those names have no copy, and the rebuild reports that.

    Args:
        enforce_limit: enforces the size limit after values were saved.
    """

    def __init__(
        self, log: EventLog, store: Store, redactor: Redactor, enforce_limit: Callable[[], Awaitable[None]]
    ) -> None:
        self._log = log
        self._store = store
        self._redactor = redactor
        self._enforce_limit = enforce_limit
        self._noted: _Noted | None = None
        self._arrived: tuple[ExecutionId, Preserved] | None = None
        """The values of the last noted execution, to be recorded."""
        self._pending: deque[ExecutionId] = deque()
        self._wait = _FIRST_LOOK
        self._is_within_limit = True
        self._turn = asyncio.Lock()

    def note(self, execution_id: ExecutionId, *, large: bool) -> None:
        """Save the values of a recorded execution; `large` ones, too."""
        self._noted = _Noted(execution_id, large)

    def forget(self) -> None:
        """Drop everything that is not recorded: the namespace is gone."""
        self._noted = None
        self._pending.clear()

    def has_arrived(self, environment: Environment) -> bool:
        """Return whether all values of the last noted execution have arrived, for `record`."""
        if self._turn.locked():
            return False
        if self._noted is not None:
            preserved = environment.kept()
            if preserved is None:
                return False
            noted, self._noted = self._noted, None
            self._arrived = noted.execution_id, preserved
        return True

    def record(self) -> None:
        """Save and record the values that have arrived."""
        if self._arrived is not None:
            (execution_id, preserved), self._arrived = self._arrived, None
            self._record(execution_id, preserved, *self._kept(preserved.groups))

    async def catch_up(self, environment: Environment) -> None:
        """Save the values of the last noted execution, if that is not done yet."""
        if self.has_arrived(environment):
            self.record()
            return
        # A cancel during the answer would end the worker. The answer takes a moment, and is bounded.
        with anyio.CancelScope(shield=True):
            async with self._turn:
                noted, self._noted = self._noted, None
                if noted is not None:
                    self._wait = _FIRST_LOOK
                    await self._take(
                        noted.execution_id, lambda: environment.preserve(noted.large), self._pending.append
                    )

    async def collect(self, environment: Environment) -> None:
        """Take values that were pickled beside statements. Not while a statement runs."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if self._pending:
                    await self._take(self._pending.popleft(), environment.collect, self._pending.appendleft)

    @property
    def pending(self) -> bool:
        """Whether values are being pickled, for `collect`."""
        return bool(self._pending)

    @property
    def idle_delay(self) -> float | None:
        """Seconds of idleness after which there is work; None for never."""
        if self._noted is not None:
            return _SOON
        if self._pending:
            return self._wait
        return None if self._is_within_limit else _FIRST_LOOK

    async def run_idle_work(self, environment: Environment) -> float | None:
        """Do the work for an idle session; return the seconds until more, or None."""
        if self._noted is not None:
            await self.catch_up(environment)
        elif self._pending:
            await self.collect(environment)
            self._wait = min(2 * self._wait, _LONGEST_LOOK)
        elif not self._is_within_limit:
            self._is_within_limit = True
            await self._enforce_limit()
        return self.idle_delay

    async def finish(self, environment: Environment) -> None:
        """Wait for all pickling, at most CLOSE_SECONDS."""
        await self.catch_up(environment)
        wait = _FIRST_LOOK
        with anyio.move_on_after(CLOSE_SECONDS):
            while self._pending:
                await anyio.sleep(wait)
                wait = min(2 * wait, _LONGEST_LOOK)
                await self.collect(environment)

    async def _take(
        self,
        execution_id: ExecutionId,
        ask: Callable[[], Awaitable[Preserved]],
        put_back: Callable[[ExecutionId], None],
    ) -> None:
        try:
            preserved = await ask()
        except EnvironmentUnavailableError:
            self.forget()
            return
        if preserved.pending:
            put_back(execution_id)
        if len(preserved.groups) < _MANY and sum(len(group.data) for group in preserved.groups) <= _AT_ONCE:
            groups, failed = self._kept(preserved.groups)
        else:
            groups, failed = await anyio.to_thread.run_sync(self._kept, preserved.groups)
        self._record(execution_id, preserved, groups, failed)

    def _record(
        self, execution_id: ExecutionId, preserved: Preserved, groups: Sequence[KeptGroup], failed: dict[str, str]
    ) -> None:
        unkept = {**preserved.unkept, **failed}
        if groups or unkept:
            self._is_within_limit = False
            self._log.append(ValuesKept(execution_id=execution_id, groups=tuple(groups), unkept=unkept))

    def _kept(self, groups: Sequence[ValueGroup]) -> tuple[list[KeptGroup], dict[str, str]]:
        """Store the groups; return those stored, and the reason for each other name."""
        kept: list[KeptGroup] = []
        failed: dict[str, str] = {}
        for group in groups:
            try:
                kept.append(self._stored(group))
            except EngineError as error:
                failed |= dict.fromkeys(group.names, f"the store did not save the copy: {error}")
        return kept, failed

    def _stored(self, group: ValueGroup) -> KeptGroup:
        size, data = len(group.data), self._redactor.storable(group.data)
        if data is None:
            return KeptGroup(names=group.names, size=size, withheld=withheld(group.data))
        if size <= _WITHIN:
            return KeptGroup(names=group.names, size=size, data=data)
        return KeptGroup(names=group.names, content=self._store.blob_put(data), size=size)


LEAST_SECONDS: Final = 0.2
"""A checkpoint is due when running again what ran since the last one takes this long."""
_TIMES_COST: Final = 10
"""And at least this many times as long as a checkpoint."""
_COST: Final = 0.005
"""Seconds that a checkpoint takes, until one was measured."""


class CheckpointSaver:
    """Decide after each statement whether a checkpoint follows, and record what becomes of checkpoints.

    A reply never waits for one. It is requested when the record is on the log. Its outcome is recorded with the next
    record, or when the session is idle. Does nothing unless it `keeps` checkpoints.
    """

    def __init__(self, log: EventLog, *, keeps: bool) -> None:
        self.keeps = keeps
        self._log = log
        self._cost = _COST
        self._seconds = 0.0
        """How long it takes to run again what ran since the last checkpoint."""
        self._hindrance = ""
        """Why the last requested one could not be taken."""
        self._requested: set[ExecutionId] = set()
        """Requested ones without an outcome yet."""

    async def after(
        self, environment: Environment, execution_id: ExecutionId, seconds: float, *, repeats: bool = True
    ) -> None:
        """Request a checkpoint if it is due. The statement is recorded, and nothing else was requested since.

        Args:
            environment: has the namespace.
            execution_id: the last execution in it.
            seconds: how long the statement ran.
            repeats: a re-run of the statement would do the same. Otherwise a checkpoint is always due.
        """
        if not self.keeps:
            return
        self._seconds += seconds
        if self._requested:
            self.record_outcomes(environment)
        if repeats and self._seconds < max(LEAST_SECONDS, _TIMES_COST * self._cost):
            return
        if environment.alive and await environment.snapshot(execution_id):
            self._seconds = 0.0
            self._requested.add(execution_id)

    async def rebuilt(self, environment: Environment, execution_id: ExecutionId | None, seconds: float) -> None:
        """Note that a rebuild took so long, and that the namespace now is that after this execution."""
        self._seconds = 0.0
        if execution_id is not None:
            await self.after(environment, execution_id, seconds)

    @property
    def waits(self) -> bool:
        """Whether outcomes are missing."""
        return bool(self._requested)

    def record_outcomes(self, environment: Environment) -> None:
        """Record what became of checkpoints. One that was dropped to make room is not worth an event."""
        if self.keeps:
            for news in environment.checkpoints():
                self._take(news)

    def _take(self, news: CheckpointNews) -> None:
        was_requested = news.execution_id in self._requested
        self._requested.discard(news.execution_id)
        if not news.dropped:
            self._cost, self._hindrance = news.seconds, ""
            self._log.append(
                CheckpointTaken(execution_id=news.execution_id, time_ms=news.seconds * 1000, shared=news.shared)
            )
        elif not news.surplus and (not was_requested or news.dropped != self._hindrance):
            self._log.append(CheckpointDropped(execution_id=news.execution_id, reason=news.dropped))
        if was_requested and news.dropped:
            self._hindrance = news.dropped


_SPARED_TENTHS: Final = 9
"""Of the limit: the target size after a drop."""


class Drop(Struct, frozen=True):
    """What to drop: the contents that no event at `before` or later names: `copies` of them, of `size` bytes."""

    before: Seq
    copies: int
    size: int


def due_drop(droppable: Sequence[Droppable], size: int, limit: int) -> Drop | None:
    """Return what to drop so that `size` bytes of contents stay within `limit`, or None.

    Args:
        droppable: oldest first. Everything that one event names is dropped together.
        size: of all contents of the session, including those that cannot be dropped.
        limit: in bytes.
    """
    if size <= limit or not droppable:
        return None
    excess = size - limit * _SPARED_TENTHS // 10
    before, freed = Seq(0), 0
    for each in droppable:
        if freed >= excess:
            break
        before, freed = Seq(each.seq + 1), freed + each.size
    gone = [each.size for each in droppable if each.seq < before]
    return Drop(before, len(gone), sum(gone))


class HistoryLimit:
    """Keep a session's contents on disk within the setting `past_bytes` by dropping the oldest copies of values.

    Only values are dropped, because answers, revisions of files and contents before a write cannot be reproduced. The
    oldest go first, because a rebuild uses the newest usable copy of a name. A drop frees more than needed, so that not
    every statement drops something. The event itself drops: its commit removes the contents, so log and store always
    agree.
    """

    def __init__(self, store: Store, session_id: SessionId, log: EventLog, journal: Journal, limit: int) -> None:
        self._store = store
        self._session_id = session_id
        self._log = log
        self._journal = journal
        self._limit = limit

    async def enforce(self) -> None:
        """Wait until the log is committed, and append a drop if one is due.

        If the store cannot be read or written, the session reports that elsewhere, and nothing is dropped.
        """
        try:
            await self._journal.durable(Seq(len(self._log) - 1))
            size = (await anyio.to_thread.run_sync(self._store.row, self._session_id)).contents_size
            if size <= self._limit:  # the usual case, which costs one row
                return
            droppable = await anyio.to_thread.run_sync(self._store.droppable, self._session_id)
            drop = due_drop(droppable, size, self._limit)
            if drop is not None:
                self._log.append(self._dropped(drop, droppable))
        except EngineError:
            return

    def _dropped(self, drop: Drop, droppable: Sequence[Droppable]) -> ValuesDropped:
        events = [self._log.at(each.seq) for each in droppable if each.seq < drop.before]
        executions = {event.execution_id for event in events if isinstance(event, ValuesKept)}
        return ValuesDropped(
            before=drop.before, executions=len(executions), copies=drop.copies, size=drop.size, limit=self._limit
        )


_Seen = TypeVar("_Seen", RevisionAdopted, AdoptedContent)


class Revisions:
    """The contents of files as nodes saw them, each as one blob. `apply` follows the log.

    A worker sends a content once for all of its revisions. The log says which are stored already. A content with a
    secret is not stored.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((RevisionAdopted, ContentsAdopted, AsyncPayloadPrepared))

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._kept: dict[str, BlobDigest] = {}
        self._withheld: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        """For the log alone."""
        if isinstance(event, AsyncPayloadPrepared):
            # A tick names its content without sending it, perhaps after the session was loaded again.
            if event.payload_kind == "render" and event.data is not None:
                self._kept[event.payload_hash] = event.data
            return
        for seen in seen_in(event):
            if seen.content is not None:
                self._kept[seen.digest] = seen.content
            elif seen.withheld:
                self._withheld[seen.digest] = seen.withheld

    async def take(self, contents: Mapping[str, bytes]) -> None:
        """Store contents, by xxh3 hex, for the events that will name them."""
        for digest, data in contents.items():
            # On a thread, because a large content is searched for every form of every secret.
            storable = await anyio.to_thread.run_sync(self._redactor.storable, data)
            if storable is None:
                self._withheld[digest] = withheld(data)
            else:
                self._kept[digest] = self._store.blob_put(storable)

    def content(self, digest: str) -> bytes | None:
        """Return the stored content of a revision by its xxh3 hex, or None."""
        kept = self._kept.get(digest)
        try:
            return None if kept is None else self._store.blob_get(kept)
        except (KeyError, StoreError):
            return None

    def with_contents(self, events: Iterable[Event]) -> Sequence[Event]:
        """Return the worker's events, each revision with its content."""
        return [self._with_contents(event) for event in events]

    def _with_contents(self, event: Event) -> Event:
        match event:
            case RevisionAdopted():
                return self._named(event)
            case ContentsAdopted(files=files):
                return replace(event, files=tuple(map(self._named, files)))
            case _:
                return event

    def _named(self, seen: _Seen) -> _Seen:
        # The worker's word on the content does not count.
        return replace(seen, content=self._kept.get(seen.digest), withheld=self._withheld.get(seen.digest, ""))
