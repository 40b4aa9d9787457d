"""What is kept beside the log for rebuilds: values, revisions of files, checkpoints, within a bound."""

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
from ..files.paging import is_page
from ..log.checkpoints import is_due
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.execution import CheckpointDropped, CheckpointTaken, ValuesDropped, ValuesKept
from ..log.events.nodes import AdoptedContent, AsyncPayloadPrepared, ContentsAdopted, RevisionAdopted, seen_in
from ..log.past import CheckpointNews, Preserved, ValueGroup
from ..log.redaction import Redactor, Storable, withheld
from ..log.store_protocol import Droppable, Store
from ..runtime.environment import Environment
from .journal import Journal

# Records the values that a rebuild may not bring back: what the environment pickles after each statement.
#
# Nobody waits for it. A statement is only noted when its record is on the log. Small values follow by themselves, and
# are taken when the record is on its way to the disk (`take`). `catch_up` does the rest before anything else happens
# to the namespace, which is when the reply is on its way and nothing waits, or else when the next tick, projection or
# statement wants the environment. What the environment pickles beside the next statements is collected while the
# session is idle, and before each statement as far as it is there.
#
# The event on what was kept waits for the commit of what comes next, or of its own a moment later. A kill before that
# loses copies, and what of the statement was acknowledged is durable without them.
#
# A group that holds a secret is not stored but named. A worker that is lost takes with it what was not recorded by
# then: those names have no copy, which whoever rebuilds finds out. Must not know what a pickle holds. Owned by
# `live_environment`.

CLOSE_SECONDS: Final = 2.0
"""How long the end of a session or of its worker waits for what is being pickled."""
_SOON: Final = 0.001
"""Seconds until what has followed a statement is recorded, unless the next statement is there by then."""
_FIRST_LOOK: Final = 0.01
_LONGEST_LOOK: Final = 0.5
"""Seconds between two looks at what is being pickled: the first, and where they end up."""
_AT_ONCE: Final = 1 << 20
"""Bytes that are looked through and kept without a thread of their own."""
_WITHIN: Final = 256
"""Bytes of a pickle that is kept within its event: a blob and the references to it take more room, and more time."""
_MANY: Final = 32
"""Groups that take a thread, however small they are: the store needs a moment for each."""


class _Noted(NamedTuple):
    execution_id: ExecutionId
    large: bool


class ValueKeeping:
    """The values of one session. `hold` keeps what they take within bounds, after some were kept."""

    def __init__(self, log: EventLog, store: Store, redactor: Redactor, hold: Callable[[], Awaitable[None]]) -> None:
        self._log = log
        self._store = store
        self._redactor = redactor
        self._hold = hold
        self._noted: _Noted | None = None
        self._heard: tuple[ExecutionId, Preserved] | None = None
        """What was noted last, and is to be recorded."""
        self._pending: deque[ExecutionId] = deque()
        self._wait = _FIRST_LOOK
        self._is_held = True
        self._turn = asyncio.Lock()

    def note(self, execution_id: ExecutionId, *, large: bool) -> None:
        """Has the values of an execution kept, of which everything else is on the log; `large` ones, too."""
        self._noted = _Noted(execution_id, large)

    def forget(self) -> None:
        """The namespace is gone, and with it what was not recorded."""
        self._noted = None
        self._pending.clear()

    def hear(self, environment: Environment) -> bool:
        """Whether all values of what was noted last are there by now, for `record` to keep them."""
        if self._turn.locked():
            return False
        if self._noted is not None:
            preserved = environment.kept()
            if preserved is None:
                return False
            noted, self._noted = self._noted, None
            self._heard = noted.execution_id, preserved
        return True

    def record(self) -> None:
        """Keeps what was heard."""
        if self._heard is not None:
            (execution_id, preserved), self._heard = self._heard, None
            self._record(execution_id, preserved, *self._kept(preserved.groups))

    async def catch_up(self, environment: Environment) -> None:
        """Keeps the values of what was noted last, if that is not done yet."""
        if self.hear(environment):
            self.record()
            return
        # Whoever is cancelled while an answer is on its way would end the worker. It takes a moment, and is bounded.
        with anyio.CancelScope(shield=True):
            async with self._turn:
                noted, self._noted = self._noted, None
                if noted is not None:
                    self._wait = _FIRST_LOOK
                    await self._take(
                        noted.execution_id, lambda: environment.preserve(noted.large), self._pending.append
                    )

    async def collect(self, environment: Environment) -> None:
        """Takes what was pickled beside the statements and is there now. Not while a statement runs."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if self._pending:
                    await self._take(self._pending.popleft(), environment.collect, self._pending.appendleft)

    @property
    def pending(self) -> bool:
        """Whether something is pickled beside the statements, for `collect`."""
        return bool(self._pending)

    @property
    def next_look(self) -> float | None:
        """After how many seconds of the session's being idle something is to be done; None for not at all."""
        if self._noted is not None:
            return _SOON
        if self._pending:
            return self._wait
        return None if self._is_held else _FIRST_LOOK

    async def look_after(self, environment: Environment) -> float | None:
        """What is to be done while the session is idle; after how many seconds again, None for not at all."""
        if self._noted is not None:
            await self.catch_up(environment)
        elif self._pending:
            await self.collect(environment)
            self._wait = min(2 * self._wait, _LONGEST_LOOK)
        elif not self._is_held:
            self._is_held = True
            await self._hold()
        return self.next_look

    async def finish(self, environment: Environment) -> None:
        """Waits for all that is being pickled, for CLOSE_SECONDS at most."""
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
            self._is_held = False
            self._log.append(ValuesKept(execution_id=execution_id, groups=tuple(groups), unkept=unkept))

    def _kept(self, groups: Sequence[ValueGroup]) -> tuple[list[KeptGroup], dict[str, str]]:
        """What the store took, and why not, by name, where it did not."""
        kept: list[KeptGroup] = []
        failed: dict[str, str] = {}
        for group in groups:
            try:
                kept.append(self._stored(group))
            except EngineError as error:
                failed |= dict.fromkeys(group.names, f"the store did not take it: {error}")
        return kept, failed

    def _stored(self, group: ValueGroup) -> KeptGroup:
        size, data = len(group.data), self._redactor.storable(group.data)
        if data is None:
            return KeptGroup(names=group.names, size=size, withheld=withheld(group.data))
        if size <= _WITHIN:
            return KeptGroup(names=group.names, size=size, data=data)
        return KeptGroup(names=group.names, content=self._store.blob_put(data), size=size)


# checkpoint keeping:
# Decides after each statement whether a checkpoint follows, and records what becomes of checkpoints.
#
# A statement's reply never waits for one: it is asked for when the record is on the log, and what came of it is
# recorded with the next one, or when the session is idle. Must not know what a checkpoint is. Owned by
# `live_environment`.

_COST: Final = 0.005
"""Seconds that one takes, as long as nobody knows."""


class CheckpointKeeping:
    """The checkpoints of one session. Nothing is done unless it `keeps` any."""

    def __init__(self, log: EventLog, *, keeps: bool) -> None:
        self.keeps = keeps
        self._log = log
        self._cost = _COST
        self._latest = 0.0
        self._hindrance = ""
        """Why the one asked for last could not be taken."""
        self._asked: set[ExecutionId] = set()
        """Those of which nothing was heard yet."""

    async def after(self, environment: Environment, execution_id: ExecutionId, *, acted: bool) -> None:
        """A statement has ended and is recorded; nothing else was asked of the environment since."""
        if not self.keeps:
            return
        if self._asked:
            self.hear(environment)
        if not is_due(anyio.current_time() - self._latest, self._cost, acted=acted):
            return
        if environment.alive and await environment.snapshot(execution_id):
            self._latest = anyio.current_time()
            self._asked.add(execution_id)

    @property
    def waits(self) -> bool:
        """Whether there is something to hear."""
        return bool(self._asked)

    def hear(self, environment: Environment) -> None:
        """Records what became of those that there were. What makes room for newer ones is not worth a word."""
        if self.keeps:
            for news in environment.checkpoints():
                self._take(news)

    def _take(self, news: CheckpointNews) -> None:
        was_asked = news.execution_id in self._asked
        self._asked.discard(news.execution_id)
        if not news.dropped:
            self._cost, self._hindrance = news.seconds, ""
            self._log.append(
                CheckpointTaken(execution_id=news.execution_id, time_ms=news.seconds * 1000, shared=news.shared)
            )
        elif not news.surplus and (not was_asked or news.dropped != self._hindrance):
            self._log.append(CheckpointDropped(execution_id=news.execution_id, reason=news.dropped))
        if was_asked and news.dropped:
            self._hindrance = news.dropped


# past bound:
# Keeps what a session's past takes on disk within the setting `past_bytes`: the oldest copies of values are dropped.
#
# Owns which go: only values, because answers, revisions of files and contents before a write cannot be had again, and
# the oldest, because a rebuild takes the newest copy of a name that it can use. A little more than necessary goes at
# once, so that not every statement drops something. The event that says so is what drops: its commit takes them out
# of the store, so the log never tells of a drop that did not happen, nor is one missing from it. Must not know how
# values are kept. Called when some were.

_SPARED_TENTHS: Final = 9
"""Of the limit, what the contents take after a drop where they can."""


class Drop(Struct, frozen=True):
    """What is to go: all that no event at `before` or later names, which is `copies` of so many bytes."""

    before: Seq
    copies: int
    size: int


def due_drop(droppable: Sequence[Droppable], size: int, limit: int) -> Drop | None:
    """What has to go so that contents of `size` bytes stay within `limit`; None where nothing has to, or can.

    Args:
        droppable: the oldest first. What one event names goes together.
        size: of all contents of the session, those that cannot be dropped included.
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


class PastBound:
    """One session's; see the module."""

    def __init__(self, store: Store, session_id: SessionId, log: EventLog, journal: Journal, limit: int) -> None:
        self._store = store
        self._session_id = session_id
        self._log = log
        self._journal = journal
        self._limit = limit

    async def hold(self) -> None:
        """Waits until what is on the log is committed, and appends what has to go, if anything has to.

        Where the store cannot be read or written the session says so elsewhere, and nothing goes.
        """
        try:
            await self._journal.durable(Seq(len(self._log) - 1))
            size = self._store.row(self._session_id).contents_size
            if size <= self._limit:  # because this is what nearly always is, and costs one look at one row
                return
            droppable = self._store.droppable(self._session_id)
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


# revisions:
# Keeps what nodes saw: the content of each revision that a worker reports, as a blob, once.
#
# A worker sends a content once, whatever number of revisions have it; which are kept already is told by the log. One
# that holds a secret is not kept, nor a page of a large text that begins or ends within one. Called by whoever
# records what a statement or a tick came to.

_Seen = TypeVar("_Seen", RevisionAdopted, AdoptedContent)


class Revisions:
    """The contents of one session's revisions. `apply` follows its log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((RevisionAdopted, ContentsAdopted, AsyncPayloadPrepared))

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._kept: dict[str, BlobDigest] = {}
        self._withheld: dict[str, str] = {}
        self._doubtful: dict[str, Storable] = {}
        """Contents that may end within a secret, until an event says whether they were cut."""

    def apply(self, event: Event) -> None:
        """For the log alone."""
        if isinstance(event, AsyncPayloadPrepared):
            # The tick that takes it names its content without sending that, perhaps after the session was loaded again.
            if event.payload_kind == "render" and event.data is not None:
                self._kept[event.payload_hash] = event.data
            return
        for seen in seen_in(event):
            if seen.content is not None:
                self._kept[seen.digest] = seen.content
            elif seen.withheld:
                self._withheld[seen.digest] = seen.withheld

    async def take(self, contents: Mapping[str, bytes]) -> None:
        """Keeps contents, by xxh3 hex, for the events that will name them."""
        for digest, data in contents.items():
            # On a thread, because a large content is looked through for every form of every secret.
            storable, may_cut = await anyio.to_thread.run_sync(self._secrets_in, data)
            if storable is None:
                self._withheld[digest] = withheld(data)
            elif may_cut:
                self._doubtful[digest] = storable
            else:
                self._kept[digest] = self._store.blob_put(storable)

    def content(self, digest: str) -> bytes | None:
        """The content of a revision on the log, by its xxh3 hex; None where it is not kept or not to be had."""
        kept = self._kept.get(digest)
        try:
            return None if kept is None else self._store.blob_get(kept)
        except (KeyError, StoreError):
            return None

    def with_contents(self, events: Iterable[Event]) -> Sequence[Event]:
        """The events that a worker reported, each revision with its content."""
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
        doubtful = self._doubtful.pop(seen.digest, None)
        if doubtful is not None and is_page(seen.path):
            self._withheld[seen.digest] = withheld(doubtful)
        elif doubtful is not None:
            self._kept[seen.digest] = self._store.blob_put(doubtful)
        # Which content it is, is not the worker's to say.
        return replace(seen, content=self._kept.get(seen.digest), withheld=self._withheld.get(seen.digest, ""))

    def _secrets_in(self, data: bytes) -> tuple[Storable | None, bool]:
        """The content if no secret is in it, and whether one may have been cut by its beginning or its end."""
        storable = self._redactor.storable(data)
        if storable is None or not data or not self._redactor:
            return storable, False
        return storable, self._redactor.is_piece_at_an_end(data.decode("utf-8", "replace"))
